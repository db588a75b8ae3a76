"""The process that supervisors are forked from: `python -m nightlatch.scheduler.forks FD`.

It has loaded everything that a supervisor needs, but has opened nothing and has one thread, so that a fork is safe.
Each supervisor has its own session, and so its run survives the end of the scheduler and of this process, which ends
with its scheduler.

A third of the CPU time of a supervisor's first run is spent on copying pages of this process that it and its warden
touch. So it loads only what every run uses; the code that publishes is loaded before the first run with a workspace.
"""

from __future__ import annotations

import gc
import os
import select
import sys

from ..database import schema
from ..system import clock, identity
from ..system.light import signal, sockets
from .orders import receive, send
from .supervisors import Supervisors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

PRELOADED = (
    "nightlatch.database.sqlite",
    "nightlatch.database.sqlite_schema",
    "nightlatch.ledger.effects",
    "nightlatch.ledger.ledger",
    "nightlatch.ledger.location",
    "nightlatch.ledger.slots",
    "nightlatch.ledger.tally",
    "nightlatch.ledger.writer",
    "nightlatch.runtime.shared.leases.lease",
    "nightlatch.runtime.shared.leases.seal",
    "nightlatch.runtime.supervisor.afterwards.notify",
    "nightlatch.runtime.supervisor.afterwards.retention",
    "nightlatch.runtime.supervisor.run.attempt",
    "nightlatch.runtime.supervisor.run.begin",
    "nightlatch.runtime.supervisor.run.claim",
    "nightlatch.runtime.supervisor.run.waiting",
    "nightlatch.store.sql",
    "nightlatch.store.sql_rows",
)
PUBLISHING = "nightlatch.runtime.supervisor.publishing.delivery"
_LOOK = 1.0  # seconds between two looks at the package's files: a look takes longer than a fork
_LONGEST_PAUSE = 3600.0  # seconds
_NEW_OBJECTS = 20_000  # between two garbage collections: a short run makes little garbage, and a search copies pages
# How CPython places small objects: those of one size share pools of `_POOL` bytes, each with a header.
_SIZES, _POOL, _HEADER = range(48, 513, 16), 16384, 48
_EMPTY, _MOST_GAPS = b"".__sizeof__(), 2000
_fillers: list[bytes] = []
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def main(fd: int) -> NoReturn:
    channel = sockets.socket(fileno=fd)
    os.set_inheritable(fd, False)
    for module in PRELOADED:
        __import__(module)
    identity.read_once()
    for area in ("store", "ledger"):
        schema.migrations(area)
    stamp, looked_at = package_stamp(), clock.now()
    gc.collect()
    _fill_gaps()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)
    woken = _watch_children()
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    poll.register(woken, select.POLLIN)
    supervisors = Supervisors(poll, channel)
    while True:
        pause = min(supervisors.end_idle(), _LONGEST_PAUSE)
        ready = {ready for ready, _ in poll.poll(pause * 1000 + 1)}
        if woken in ready:
            os.read(woken, 4096)
        for pid, code in supervisors.ended(ready):
            send(channel, {"ended": pid, "code": code})
        if fd not in ready:
            continue
        if clock.now() - looked_at > _LOOK:
            looked_at = clock.now()
            if package_stamp() != stamp:
                _begin_anew(fd)
        order = receive(channel)
        if order is None:
            os._exit(0)
        publishes = "workspace" in order["job"]["options"]
        if publishes and PUBLISHING not in sys.modules:
            if package_stamp() == stamp:
                __import__(PUBLISHING)
                gc.freeze()
            if package_stamp() != stamp:  # then the module is, or would be, of another version
                send(channel, {"again": order["claim"]})
                _begin_anew(fd)
        send(channel, {"started": supervisors.start(order, reuse=not publishes), "claim": order["claim"]})


def _fill_gaps() -> None:
    """Fill the gaps that loading has left between small objects. A new object in a gap costs a copy of its page. Once
    no gap is left, the objects that a supervisor makes lie side by side in new pages."""
    for size in _SIZES:
        for _ in range(_MOST_GAPS):
            _fillers.append(bytes(size - _EMPTY))
            if id(_fillers[-1]) % _POOL < _HEADER + _SIZES.step:  # the first in its pool: no gap of this size is left
                break


def _begin_anew(fd: int) -> NoReturn:
    """After an upgrade: the new program reads the next order from the same socket, and starts it."""
    os.set_inheritable(fd, True)
    os.execv(sys.executable, command(fd))  # noqa: S606


def command(fd: int) -> list[str]:
    return [sys.executable, "-P", "-m", "nightlatch.scheduler.forks", str(fd)]


def package_stamp() -> tuple[int, int]:
    """A value that differs after a change of any file of this package."""
    count = newest = 0
    folders = [_PACKAGE]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != "__pycache__":
                        folders.append(entry.path)
                elif entry.name.endswith(".py"):
                    count, newest = count + 1, max(newest, entry.stat().st_mtime_ns)
    return count, newest


def _watch_children() -> int:
    """Returns a descriptor that can be read once a child has ended, and now: one may have ended during an upgrade."""
    woken, end = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(end, warn_on_full_buffer=False)
    os.write(end, b"\0")
    return woken


if __name__ == "__main__":
    main(int(sys.argv[1]))
