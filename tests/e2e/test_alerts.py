"""Alerts from a plain command line: sent by a process that the run leaves behind, which the run does not wait for."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nightlatch.runtime.shared.senders import SenderLock
from nightlatch.store import url
from tests.support.programs import carrying, nightlatch, start, until


@pytest.fixture
def config(tmp_path):
    file, got = tmp_path / "nightlatch.toml", tmp_path / "told.jsonl"
    file.write_text(
        f"""[alerts]
group = "300ms"
[alerts.log]
kind = "command"
command = "cat >> {got}; echo >> {got}"
[jobs.quiet]
command = "exit 3"
[jobs.quiet.alerts]
mute = ["failed", "recovered"]
"""
    )
    return file, got


def test_a_run_that_failed_is_told_and_then_that_it_is_well_again(sqlite_url, config):
    file, got = config

    def run(*words: str):
        return nightlatch(sqlite_url, "run", "--config", str(file), *words)

    began = time.monotonic()
    failed = run("agent", "--key", "k", "--", "sh", "-c", "echo cannot connect; exit 3")
    assert failed.returncode == 3 and "nightlatch: alerts" not in failed.stderr
    (first,) = until(lambda: [json.loads(line) for line in got.read_text().splitlines()] if got.exists() else [])
    assert first["alerts"][0]["sentence"].endswith("with exit code 3: cannot connect.")
    assert first["subject"] == "Nightlatch: agent failed" and time.monotonic() - began < 120
    assert run("agent", "--key", "k", "--", "true").returncode == 0
    until(lambda: len(got.read_text().splitlines()) == 2)
    assert json.loads(got.read_text().splitlines()[1])["alerts"][0]["rule"] == "recovered"

    def listed() -> list[tuple[str, str]]:
        told = nightlatch(sqlite_url, "alerts", "--json", "--config", str(file)).stdout.splitlines()
        return [(row["rule"], row["status"]) for row in map(json.loads, reversed(told))]

    until(lambda: listed() == [("failed", "sent"), ("recovered", "sent")])  # what arrived is settled after that


@contextmanager
def following(store: str, file: Path) -> Iterator[subprocess.Popen[str]]:
    """The sender that `serve` has beside it."""
    words = ["alerts", "send", "--follow", "--config", str(file)]
    with start(store, *words, stdin=subprocess.PIPE) as process:
        try:
            until(sending(store, file).is_taken)
            yield process
        finally:
            process.kill()


def sending(store: str, file: Path) -> SenderLock:
    return SenderLock("alerts", url.folder_of(store), str(file))


def test_a_run_beside_serve_starts_no_sender_and_is_told(sqlite_url, config):
    file, got = config
    nightlatch(sqlite_url, "run", "first", "--config", str(file), "--", "true", env={"NIGHTLATCH_ALERTS": "off"})
    mark = {"RUNS_OF": sqlite_url}

    def fails(key: str) -> set[int]:
        words = ["run", "agent", "--config", str(file), "--key", key, "--", "false"]
        assert nightlatch(sqlite_url, *words, env=mark).returncode == 1
        return carrying(f"RUNS_OF={sqlite_url}")

    with following(sqlite_url, file) as process:
        assert fails("k") == set()
        assert process.stdin
        process.stdin.close()  # `serve` ends before the message is due
        until(lambda: got.exists() and len(got.read_text().splitlines()) == 1)
        assert process.wait(30) == 0
    assert len(fails("l")) == 1
    until(lambda: len(got.read_text().splitlines()) == 2)


def test_a_sender_that_is_stopped_keeps_no_alert_back(sqlite_url, config):
    file, got = config
    nightlatch(sqlite_url, "run", "first", "--config", str(file), "--", "true", env={"NIGHTLATCH_ALERTS": "off"})
    with following(sqlite_url, file) as process:
        process.send_signal(signal.SIGSTOP)
        assert nightlatch(sqlite_url, "run", "agent", "--config", str(file), "--", "false").returncode == 1
        until(lambda: got.exists() and len(got.read_text().splitlines()) == 1)
        assert process.wait(30) == -signal.SIGKILL  # once continued, it would act on what it read long ago


def test_a_sender_that_does_not_reach_the_store_leaves_the_alerts_to_the_runs(sqlite_url, config):
    file, _ = config
    nightlatch(sqlite_url, "run", "first", "--config", str(file), "--", "true", env={"NIGHTLATCH_ALERTS": "off"})
    store = Path(sqlite_url.removeprefix("sqlite:///"))
    with following(sqlite_url, file):
        store.rename(away := store.with_name("away"))
        until(lambda: not sending(sqlite_url, file).is_taken())
        away.rename(store)
        until(sending(sqlite_url, file).is_taken)


def test_while_a_sender_is_at_work_alerts_send_says_so(sqlite_url, config):
    file, _ = config
    nightlatch(sqlite_url, "run", "first", "--config", str(file), "--", "true", env={"NIGHTLATCH_ALERTS": "off"})
    with following(sqlite_url, file):
        done = nightlatch(sqlite_url, "alerts", "send", "--config", str(file))
        assert (done.returncode, done.stderr) == (0, "nightlatch: another process of this machine sends them\n")


def test_alerts_test_reports_on_each_transport_before_the_first_run(sqlite_url, config):
    file, got = config
    with file.open("a") as more:
        more.write('[alerts.gone]\nkind = "webhook"\nurl = "http://127.0.0.1:1/"\n')
    tested = nightlatch(sqlite_url, "alerts", "test", "--config", str(file))
    assert tested.returncode == 1 and tested.stdout == "log: sent\n" and "gone: not sent: no answer" in tested.stderr
    assert "Nothing is wrong" in got.read_text()
    assert nightlatch(sqlite_url, "alerts", "test", "none", "--config", str(file)).returncode == 64


def test_mistakes_in_the_settings_are_all_shown(sqlite_url, tmp_path):
    file = tmp_path / "nightlatch.toml"
    file.write_text(
        '[alerts]\nafter = 0\nmute = ["nothing"]\ndigest = "25:00"\n[alerts.pigeon]\n[alerts.webhook]\nsecret = "s"\n'
    )
    checked = nightlatch(sqlite_url, "check", "--config", str(file))
    assert checked.returncode == 78
    for text in (
        "after",
        "there is no 'nothing'",
        "a time of the day",
        "'pigeon' is not a transport",
        "secret is a secret",
    ):
        assert text in checked.stdout + checked.stderr, checked.stderr
