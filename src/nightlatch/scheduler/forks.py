"""The process that supervisors are forked from: `python -m nightlatch.scheduler.forks FD`.

It has loaded everything that a supervisor needs, but has opened nothing and has one thread, so that a fork is safe.
Each run gets a new session, and so survives the end of the scheduler and of this process, which ends
with its scheduler.

A third of the CPU time of a short run is spent on copying pages of this process that the supervisor, its warden and its
command touch. So it loads only what every run uses; the code that publishes is loaded before the first run with a
workspace.
"""

from __future__ import annotations

import gc
import os
import select
import sys

from ..config import place
from ..core.job import unpack
from ..core.json_text import dumps, loads
from ..database import schema
from ..errors import Error, Stop
from ..runtime.supervisor.start import start
from ..system import clock, identity, printing
from ..system.light import signal, sockets

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any, NoReturn

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
    children = _Children()
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    poll.register(children.woken, select.POLLIN)
    while True:
        ready = {ready for ready, _ in poll.poll()}
        for pid, code in children.ended():
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
        if "workspace" in order["job"]["options"] and PUBLISHING not in sys.modules:
            if package_stamp() == stamp:
                __import__(PUBLISHING)
                gc.freeze()
            if package_stamp() != stamp:  # then the module is, or would be, of another version
                send(channel, {"again": order["claim"]})
                _begin_anew(fd)
        send(channel, {"started": _fork(channel, order), "claim": order["claim"]})


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


def send(channel: socket.socket, message: dict[str, Any]) -> None:
    body = dumps(message).encode()
    try:
        channel.sendall(len(body).to_bytes(4) + body)
    except OSError:
        pass  # the other side is gone: the next read reports it


def receive(channel: socket.socket) -> dict[str, Any] | None:
    """The next message; None: the other side is gone."""
    length = _receive_exactly(channel, 4)
    body = _receive_exactly(channel, int.from_bytes(length)) if length else None
    return loads(body) if body is not None else None


def _receive_exactly(channel: socket.socket, size: int) -> bytes | None:
    found = b""
    while len(found) < size:
        try:
            more = channel.recv(size - len(found))
        except ConnectionError:
            return None
        if not more:
            return None
        found += more
    return found


class _Children:
    """Finds the children that have ended; SIGCHLD writes to a pipe, `woken`, that `poll` can wait for."""

    def __init__(self) -> None:
        self.woken, end = os.pipe()
        os.set_blocking(self.woken, False)
        os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(end, warn_on_full_buffer=False)

    def ended(self) -> list[tuple[int, int]]:
        try:
            os.read(self.woken, 4096)
        except BlockingIOError:
            pass
        found: list[tuple[int, int]] = []
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return found
            if not pid:
                return found
            found.append((pid, os.waitstatus_to_exitcode(status)))


def _fork(channel: socket.socket, order: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for signum in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(signum, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        channel.close()
        _redirect(order["log"])
        os._exit(supervise(order))
    except BaseException:  # noqa: BLE001  a forked child must not return
        import traceback

        traceback.print_exc()
        os._exit(125)


def _redirect(log: str) -> None:
    """Send the supervisor's output to a file: the scheduler's terminal or pipe may be gone before the run ends."""
    fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)  # what the command prints is kept with its run
    os.dup2(fd, 2)
    printing.install()


def supervise(order: dict[str, Any]) -> int:
    """Run the claimed job; returns the exit code of its run."""
    job = unpack(order["job"])
    place.in_force.update(order.get("config", {}))
    try:
        verdict = start(job, store=order["store"], claim=order["claim"])
    except (Error, Stop) as error:
        print(f"nightlatch: {job.name} ({job.key}): {error}", file=sys.stderr, flush=True)
        return error.exit_code
    print(verdict.line(), file=sys.stderr, flush=True)
    return verdict.exit_code


if __name__ == "__main__":
    main(int(sys.argv[1]))
