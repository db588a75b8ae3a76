"""A warden that is stopped keeps nobody from ending the command: its supervisor knows the time too."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from tests.programs import alive, children, nightlatch, start, state, until

COMMAND = ("--", "sh", "-c", 'echo $$ $NIGHTLATCH_RUN > "$0.part"; mv "$0.part" "$0"; exec sleep 60')


class Frozen:
    """A command whose warden was stopped."""

    def __init__(self, store: str, folder: Path, *words: str, command: tuple[str, ...] = COMMAND) -> None:
        said = folder / "said"
        self.process = start(store, *words, *command, str(said), stdout=subprocess.DEVNULL)
        until(said.exists)
        pid, *self.run = said.read_text().split()
        self.command = int(pid)
        (self.warden,) = children(self.process.pid)
        self.stop()

    def stop(self) -> None:
        os.kill(self.warden, signal.SIGSTOP)
        until(lambda: state(self.warden) in ("T", "Z", ""))

    def ended(self) -> tuple[int, str]:
        said = self.process.communicate(timeout=60)[1]
        assert not alive(self.command), "gone before the supervisor is"
        return self.process.returncode, said


def test_a_lock_ends_when_it_is_told_to(sqlite_url, tmp_path):
    frozen = Frozen(sqlite_url, tmp_path, "lock", "job")
    frozen.process.terminate()
    assert frozen.ended()[0] == 128 + signal.SIGTERM
    assert nightlatch(sqlite_url, "lock", "job", "--", "true").returncode == 0


@pytest.mark.parametrize("command", [("run", "job"), ("once", "key")], ids=["run", "once"])
def test_the_timeout_is_kept(sqlite_url, tmp_path, command):
    code, said = Frozen(sqlite_url, tmp_path, *command, "--timeout", "1s").ended()
    assert code == (124 if command[0] == "run" else 76), said


def test_a_cancelled_run_ends(sqlite_url, tmp_path):
    frozen = Frozen(sqlite_url, tmp_path, "run", "job")
    assert nightlatch(sqlite_url, "cancel", *frozen.run).returncode == 0
    assert frozen.ended()[0] == 120


@pytest.mark.parametrize("command", [("run", "job", "--grace", "1s"), ("once", "key")], ids=["run", "once"])
def test_a_warden_that_does_not_wake_up_is_replaced_by_its_supervisor(sqlite_url, tmp_path, command):
    """It is stopped again as soon as it is woken."""
    frozen = Frozen(sqlite_url, tmp_path, *command, "--timeout", "1s")
    over = threading.Event()

    def keep_stopped() -> None:
        while not over.wait(0.001) and alive(frozen.warden):
            os.kill(frozen.warden, signal.SIGSTOP)

    thread = threading.Thread(target=keep_stopped)
    thread.start()
    try:
        code, said = frozen.ended()
    finally:
        over.set()
        thread.join()
    assert code == (124 if command[0] == "run" else 76), said
