"""Runs to look at and to decide on, and what the commands say of them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.support.programs import children, nightlatch, start, until


def run_job(store: str, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return nightlatch(store, "run", "job", *words, **more)


def run(url: str, job: str, script: str, *options: str, key: str = "k") -> subprocess.CompletedProcess[str]:
    return nightlatch(url, "run", job, "--key", key, *options, "--", "sh", "-c", script)


def listed(url: str, *words: str) -> list[dict[str, Any]]:
    done = nightlatch(url, "runs", "--json", *words)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def one(url: str, job: str) -> dict[str, Any]:
    (found,) = listed(url, "--job", job)
    return found


class Running:
    """A `nightlatch run` in the middle of its command."""

    def __init__(self, url: str, folder: Path, job: str, *options: str, key: str = "k", script: str = "") -> None:
        ready, self.go = folder / f"ready-{job}-{key}", folder / f"go-{job}-{key}"
        waiting = script or f"echo began; while [ ! -e {self.go} ]; do sleep 0.05; done; echo went on"
        command = f"echo $$ > {ready}.part; mv {ready}.part {ready}; {waiting}"
        self.process = start(url, "run", job, "--key", key, *options, "--", "sh", "-c", command)
        until(lambda: ready.exists() or self.process.poll() is not None)
        assert ready.exists(), self.process.communicate()
        self.command = int(ready.read_text())
        self.id: str = next(found["run"] for found in listed(url, "--job", job) if found["key"] == key)

    def kill(self) -> None:
        """All of it at once, as a power failure would: nobody is left to record anything."""
        for pid in (self.process.pid, *children(self.process.pid), self.command):
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass
        self.process.communicate()

    def finish(self) -> int:
        self.go.touch()
        self.process.communicate(timeout=60)
        return self.process.returncode
