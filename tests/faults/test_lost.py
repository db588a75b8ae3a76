"""An attempt that was lost may have acted, also when its own supervisor saw the loss: `--lost` decides what follows."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import nightlatch
from nightlatch.ledger import open_for
from tests.support.programs import alive, children
from tests.support.programs import nightlatch as command
from tests.support.runs import Running, run


def _kill_warden(store: str, running: Running) -> None:
    (warden,) = children(running.process.pid)
    os.kill(warden, signal.SIGKILL)


def _take_lease(store: str, running: Running) -> None:
    nightlatch.connect(store).evict("job")


def _shut_down(store: str, running: Running) -> None:
    running.process.terminate()


def _hang_up(store: str, running: Running) -> None:
    running.process.send_signal(signal.SIGHUP)


LOSSES = pytest.mark.parametrize(
    ("lose", "code"),
    [(_kill_warden, 125), (_take_lease, 123), (_shut_down, 143), (_hang_up, 129)],
    ids=["its warden is killed", "its lease is taken", "a shutdown", "its terminal is gone"],
)


@LOSSES
def test_what_was_lost_is_in_doubt_and_not_repeated_silently(
    sqlite_url: str, tmp_path: Path, lose: Callable[[str, Running], None], code: int
) -> None:
    """A plain command: it may have acted."""
    running = Running(sqlite_url, tmp_path, "job", "--grace", "1s", "--ttl", "3s", "--retries", "2", "--backoff", "1ms")
    lose(sqlite_url, running)
    said = running.process.communicate(timeout=60)[1]
    assert running.process.returncode == code and f"nightlatch show {running.id}" in said, said
    assert not alive(running.command)
    again = run(sqlite_url, "job", "echo acted", "--wait", "50s")
    assert (again.returncode, again.stdout) == (76, ""), again.stderr
    ledger = open_for(sqlite_url)
    found = ledger.run(running.id)
    assert found and (found.status, found.attempt) == ("in-doubt", 1)
    assert [attempt.status for attempt in ledger.attempts(running.id)] == ["lost"]
    assert command(sqlite_url, "resolve", running.id, "failed").returncode == 0
    assert run(sqlite_url, "job", "true").returncode == 0
    assert not ledger.journal.verify().breaks


@LOSSES
def test_with_lost_again_the_next_start_goes_on(
    sqlite_url: str, tmp_path: Path, lose: Callable[[str, Running], None], code: int
) -> None:
    options = ("--grace", "1s", "--ttl", "3s", "--lost", "again")
    running = Running(sqlite_url, tmp_path, "job", *options)
    lose(sqlite_url, running)
    said = running.process.communicate(timeout=60)[1]
    assert running.process.returncode == code and "status=lost" in said, said
    assert run(sqlite_url, "job", "true", *options, "--wait", "50s").returncode == 0
    found = open_for(sqlite_url).run(running.id)
    assert found and (found.status, found.attempt) == ("succeeded", 2)


def test_a_shutdown_that_reaches_the_command_first_is_no_failure(sqlite_url: str, tmp_path: Path) -> None:
    """As a service manager does it: everybody gets the signal."""
    running = Running(sqlite_url, tmp_path, "job")
    os.kill(running.process.pid, signal.SIGSTOP)
    os.kill(running.command, signal.SIGTERM)
    running.process.terminate()
    os.kill(running.process.pid, signal.SIGCONT)
    running.process.communicate(timeout=60)
    assert running.process.returncode == 143
    assert run(sqlite_url, "job", "true").returncode == 76


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_who_asked_for_its_end_has_cancelled_it(sqlite_url: str, tmp_path: Path, signum: int) -> None:
    """Ctrl-C, or `nightlatch cancel` and a signal that comes before its supervisor has found the request."""
    running = Running(sqlite_url, tmp_path, "job", "--grace", "1s")
    if signum == signal.SIGTERM:
        open_for(sqlite_url).decisions.request_cancel(running.id, "ann@laptop")
    running.process.send_signal(signum)
    running.process.communicate(timeout=60)
    found = open_for(sqlite_url).run(running.id)
    assert found and found.status == "cancelled"
    assert run(sqlite_url, "job", "true").returncode == 0


def test_ctrl_c_at_a_terminal_is_not_followed_by_another_try(sqlite_url: str, tmp_path: Path) -> None:
    """There the command gets it and says what it means; one that dies of it was interrupted."""
    words = ("run", "job", "--key", "k", "--retries", "3", "--backoff", "1ms", "--", "sh", "-c", "kill -INT $$")
    assert command(sqlite_url, *words).returncode == 130
    (found,) = open_for(sqlite_url).history.runs("job")
    assert found.attempt == 1
