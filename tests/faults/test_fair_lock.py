"""Whoever has the lock can be found, so that nobody waits for ever for a process that is stopped."""

from __future__ import annotations

import _thread
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nightlatch.errors import StoreUnreachable
from nightlatch.store import url
from nightlatch.system import filelock, identity, process
from nightlatch.system.filelock import FairLock
from nightlatch.system.process import start_of
from tests.support.programs import until


@pytest.fixture(params=["known from the kernel", "signed"], autouse=True)
def known(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "signed":  # as on macOS, and where /proc/locks names other devices than stat does
        monkeypatch.setattr(filelock, "_lines", lambda _: [])


def test_the_holder_of_the_lock_is_named_and_nobody_when_it_is_free(tmp_path: Path) -> None:
    path = f"{tmp_path}/lock"
    first, second = FairLock(path), FairLock(path)
    me = (os.getpid(), start_of(os.getpid()))
    assert first.acquire(30)
    assert first.holder() == second.holder() == me
    waiting = threading.Thread(target=second.acquire, args=(30,))
    waiting.start()
    first.release()
    waiting.join()
    assert first.holder() == me
    second.release()
    assert first.holder() is None


def test_one_that_gave_up_waiting_leaves_the_lock_to_others_and_no_name_in_it(tmp_path: Path) -> None:
    path = f"{tmp_path}/lock"
    first, impatient, third = FairLock(path), FairLock(path), FairLock(path)
    assert first.acquire(30)
    assert not impatient.acquire(0.01)
    first.release()
    assert third.acquire(10)
    third.release()
    until(lambda: third.holder() is None)


def test_work_is_done_in_turn_and_what_it_returns_or_raises_comes_back(tmp_path: Path) -> None:
    path = f"{tmp_path}/lock"
    first, second = FairLock(path), FairLock(path)
    assert second.run(second.holder, 30) == (os.getpid(), start_of(os.getpid()))
    assert first.acquire(30)
    results: list[object] = []
    waiting = [threading.Thread(target=_outcome, args=(second, work, results)) for work in (int, _broken)]
    for thread in waiting:
        thread.start()
    assert not results
    first.release()
    for thread in waiting:
        thread.join()
    assert sorted(map(str, results)) == ["0", "broken inside the lock"]
    assert first.acquire(0)  # both gave it back
    first.release()


def test_work_that_was_given_up_is_never_done(tmp_path: Path) -> None:
    path = f"{tmp_path}/lock"
    first, impatient, third = FairLock(path), FairLock(path), FairLock(path)
    done: list[int] = []
    assert first.acquire(30)
    with pytest.raises(TimeoutError):
        impatient.run(lambda: done.append(1), 0.01)
    first.release()
    third.run(lambda: done.append(3), 10)
    until(lambda: third.holder() is None)
    assert done == [3]


@pytest.mark.parametrize("way", ["run", "acquire"])
def test_one_that_gets_the_lock_as_its_patience_ends_has_it(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it gives up it looks at the holder once more, which takes a moment."""
    path = f"{tmp_path}/lock"
    first, second = FairLock(path), FairLock(path)
    assert first.acquire(30)
    waiters, results = list[Any](), list[object]()

    class Waiter(filelock._Waiter):
        def wait(self, timeout: float = -1.0) -> bool:
            waiters.append(self)
            return super().wait(timeout)

    monkeypatch.setattr(filelock, "_Waiter", Waiter)

    def look() -> None:
        if first.held:
            first.release()
            until(waiters[0]._settled.locked)  # its thread has the lock

    monkeypatch.setattr(second, "stopped_holder", look)
    call = {"run": lambda: second.run(lambda: True, 0.01), "acquire": lambda: second.acquire_from_stopped(0.01)}[way]
    calling = threading.Thread(target=lambda: results.append(call()), daemon=True)
    calling.start()
    calling.join(20)
    assert results == [True]
    assert second.held == (way == "acquire")


@pytest.mark.parametrize("way", ["run", "acquire", "acquire_from_stopped"])
def test_a_waiter_that_is_interrupted_leaves_nothing_behind(tmp_path: Path, way: str) -> None:
    path = f"{tmp_path}/lock"
    first, second = FairLock(path), FairLock(path)
    done: list[int] = []
    threads = _thread._count()
    assert first.acquire(30)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)

    def wait() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        second.run(lambda: done.append(2), 30) if way == "run" else getattr(second, way)(30)

    try:
        with pytest.raises(KeyboardInterrupt):
            wait()
    finally:
        signal.signal(signal.SIGALRM, before)
    first.release()
    until(lambda: _thread._count() <= threads)  # the waiters have had their turns; others may have ended meanwhile
    assert first.acquire(0)
    first.release()
    assert not done


def test_a_verb_that_has_to_wait_when_no_thread_can_be_started_may_be_tried_again(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command may fork up to the limit. The keeper goes on after a store that is unreachable, not after a bug."""

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    store = url.connect(sqlite_url)
    assert store.look("job", "key") is None
    lock = FairLock(sqlite_url.removeprefix("sqlite:///") + ".queue")
    assert lock.acquire(30)
    monkeypatch.setattr(filelock, "start_new_thread", refuse)
    before = process.own_descriptors()
    for _ in range(3):
        with pytest.raises(StoreUnreachable, match="can't start new thread"):
            store.acquire("job", "a" * 32, identity.holder(pid=0), 60.0)
    assert len(process.own_descriptors()) <= len(before) + 1  # the queue's file stays open
    lock.release()
    assert store.acquire("job", "a" * 32, identity.holder(pid=0), 60.0)


FULL = """
import resource, sys
from nightlatch.errors import StoreUnreachable
from nightlatch.store import url
from nightlatch.system import filelock, identity, process
filelock._lines = lambda _: []  # it must sign
lock, ways = filelock.FairLock(sys.argv[1]), {"acquire": lambda: lock.acquire(30), "run": lambda: lock.run(int, 30)}
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
print("ready", flush=True)
try: ways[sys.argv[2]]()
except OSError as error: print(error.strerror, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("way", ["acquire", "run"])
def test_one_that_cannot_sign_says_so_at_once_and_gives_the_lock_back(tmp_path: Path, way: str, waits: bool) -> None:
    """A full disk: a waiter must not wait for its own thread for ever, nor keep the lock while it lives."""
    lock = FairLock(f"{tmp_path}/lock")
    assert lock.acquire(30)
    if not waits:
        lock.release()
    other = subprocess.Popen([sys.executable, "-c", FULL, lock.path, way], text=True, stdin=-1, stdout=-1)
    with other:
        assert other.stdin and other.stdout and other.stdout.readline() == "ready\n"
        if waits:
            lock.release()
        assert other.stdout.readline() == "File too large\n"
        assert lock.acquire(10)
        lock.release()
        other.stdin.close()


def _outcome(lock: FairLock, work: Callable[[], object], results: list[object]) -> None:
    try:
        results.append(lock.run(work, 30))
    except RuntimeError as error:
        results.append(error)


def _broken() -> object:
    raise RuntimeError("broken inside the lock")
