"""Fifty holders are stopped right before their write and continued after the takeover: how many stale writes land?

Each peer guards the same write (temp, fsync, rename, fsync of the folder) in the way its documentation
shows, with the check it offers made last. A holder is a process forked from here; its successor waits
until the peer hands the lock over.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nightlatch
from nightlatch import gates
from nightlatch.system import durable, process

TTL = 1.0

Hold = Callable[[Path], "tuple[Callable[[bytes], None], Any]"]  # take the lock: (how to write, what keeps it held)


def plain(target: Path) -> Callable[[bytes], None]:
    return lambda content: durable.replace(str(target), content)


def checked_by_token(target: Path) -> tuple[Callable[[bytes], None], Any]:
    """A fencing token, compared just before the write instead of in one step with it."""
    fence = target.with_suffix(".fence")
    mine = int(fence.read_text()) + 1 if fence.exists() else 1
    fence.write_text(str(mine))

    def write(content: bytes) -> None:
        assert int(fence.read_text()) == mine
        pause()
        plain(target)(content)

    return write, None


def with_filelock(target: Path) -> tuple[Callable[[bytes], None], Any]:
    from filelock import SoftFileLease

    lock = SoftFileLease(target.with_suffix(".lock"), lease_duration=TTL, poll_interval=0.02)
    lock.acquire(timeout=30)

    def write(content: bytes) -> None:
        assert lock.is_locked
        pause()
        plain(target)(content)

    return write, lock


def with_redis_py(socket: str) -> Hold:
    def hold(target: Path) -> tuple[Callable[[bytes], None], Any]:
        import redis

        lock = redis.Redis(unix_socket_path=socket).lock(str(target), timeout=TTL, sleep=0.02)
        assert lock.acquire(blocking_timeout=30)

        def write(content: bytes) -> None:
            assert lock.owned()
            pause()
            plain(target)(content)

        return write, lock

    return hold


def with_python_redis_lock(socket: str) -> Hold:
    def hold(target: Path) -> tuple[Callable[[bytes], None], Any]:
        import redis
        import redis_lock

        client = redis.StrictRedis(unix_socket_path=socket)
        lock = redis_lock.Lock(client, str(target), expire=round(TTL), auto_renewal=False)
        assert lock.acquire(timeout=None, blocking=True)

        def write(content: bytes) -> None:
            assert lock.get_owner_id() == lock.id
            pause()
            plain(target)(content)

        return write, lock

    return hold


def with_nightlatch(store: str) -> Hold:
    def hold(target: Path) -> tuple[Callable[[bytes], None], Any]:
        out = gates.File(target)
        lease = nightlatch.lease(target.name, ttl=f"{TTL:.0f}s", wait="30s", gates=[out], store=store).acquire()

        def write(content: bytes) -> None:
            lease.check()
            mark = lease.mark  # only the mark: nothing but the gate protects the file
            pause()
            out.write(mark, content)

        return write, lease

    return hold


def pause() -> None:
    if STOPS:
        os.kill(os.getpid(), signal.SIGSTOP)


STOPS = False


def landed(hold: Hold, folder: Path, count: int, at_once: int = 10) -> int:
    """How many of `count` targets end with what the stopped holder wrote."""
    folder.mkdir()
    targets = [folder / f"out{number}" for number in range(count)]
    for first in range(0, count, at_once):
        _trial(hold, targets[first : first + at_once])
    return sum(target.read_bytes() == b"old" for target in targets)


def _trial(hold: Hold, targets: list[Path]) -> None:
    holders = [_stopped_holder(hold, target) for target in targets]
    for holder in holders:
        start = process.start_of(holder)
        assert start is not None
        while (state := process.state_of(holder, start)) != process.STOPPED:
            assert state == process.ALIVE, "a holder ended before its write"
            time.sleep(0.005)
    for successor in [_fork(_take_over, hold, target) for target in targets]:
        assert os.waitpid(successor, 0)[1] == 0, "the lock was not handed over"
    for holder in holders:
        os.kill(holder, signal.SIGCONT)
        os.waitpid(holder, 0)


def _stopped_holder(hold: Hold, target: Path) -> int:
    def run() -> None:
        global STOPS  # noqa: PLW0603  in the forked child only
        STOPS = True
        write, _ = hold(target)
        write(b"old")

    return _fork(run)


def _take_over(hold: Hold, target: Path) -> None:
    write, _ = hold(target)
    write(b"new")


def _fork(run: Callable[..., None], *given: Any) -> int:
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        run(*given)
        code = 0
    except nightlatch.StaleToken:
        code = 73
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(code)
