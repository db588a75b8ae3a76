"""The gateway, seen from its supervisor: a process beside the command, behind a socket that outlives the gateway."""

from __future__ import annotations

import fcntl
import json
import os
import select
import socket
import sys

from ....core import statuses
from ....errors import Error
from ....system import clock, identity
from ....system.light import signal
from ...shared import call_slots
from . import environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ...shared.leases.lease import Lease
    from ..socket.reported import Reported
    from .accounts import Accounts

_MODULE = "nightlatch.gateway"
_LISTENING, _PIPE = 3, 4  # the gateway's descriptors
_SPARE = 10  # our copies get numbers from here on, so that they do not collide with the gateway's
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "PYTHONPATH", "VIRTUAL_ENV")
_QUICK, _TIMES = 2.0, 5  # a gateway that has ended _TIMES times, on average in less than _QUICK seconds, is given up
_MOST_IGNORED, _MOMENT = 20, 60.0  # ignored refusals, or seconds, after which a command is ended
_READ = 1 << 16
_START_AFTER = 0.05  # seconds until the gateway starts, unless a call comes earlier: the command's own start goes first
_SETTLE_TIMEOUT = 5.0  # seconds for the gateway's last settlements


class GatewayProcess:
    """The socket is opened before the command starts; the process is started after that. Call `serve` when a descriptor
    is ready, `close` when the command has ended."""

    def __init__(
        self, accounts: Accounts, given: Mapping[str, str], *, lease: Lease, folder: str, settings: Mapping[str, Any]
    ) -> None:
        self._accounts, self._lease = accounts, lease
        self._listening = socket.socket()
        self._listening.bind(("127.0.0.1", 0))
        self._listening.listen(1024)
        key = identity.new_id() + identity.new_id()[:8]
        self.masked = environment.mask(given, self._listening.getsockname()[1], key, folder)
        self._settings = {
            "key": key,
            "bases": self.masked.bases,
            "keys": self.masked.keys,
            "proxies": self.masked.proxies,
            **settings,
        }
        self._pid, self._pipe = 0, -1
        self._unread, self._unsent, self._closed = b"", b"", False
        self._has_room = False  # the gateway may grant calls by itself
        self._started: list[float] = []
        self._start_at = clock.now() + _START_AFTER

    def _start(self) -> None:
        self._started = [*self._started[1 - _TIMES :], clock.now()]
        ours, theirs = socket.socketpair()
        listening = fcntl.fcntl(self._listening.fileno(), fcntl.F_DUPFD_CLOEXEC, _SPARE)
        pipe = fcntl.fcntl(theirs.fileno(), fcntl.F_DUPFD_CLOEXEC, _SPARE)
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        try:
            self._pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-P", "-m", _MODULE],
                {**kept, "NIGHTLATCH_GRANT": self._lease.grant},  # a successor finds it by that if we are killed
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, listening, _LISTENING),
                    (os.POSIX_SPAWN_DUP2, pipe, _PIPE),
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                ],
                setpgroup=0,  # a Ctrl-C is for the command
                setsigdef=[signal.SIGPIPE, signal.SIGTERM, signal.SIGINT],
            )
        finally:
            os.close(listening)
            os.close(pipe)
            theirs.close()
        self._pipe = ours.detach()
        os.set_blocking(self._pipe, False)
        self._unread, self._has_room = b"", False
        begin = {**self._settings, "slots": self._accounts.slots, "last": self._accounts.last}
        self._unsent = json.dumps(begin).encode() + b"\n"
        self._send()

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Readable when there is something for `serve`: a message, or the first call."""
        return (self._pipe if self._started else self._listening.fileno(),) if not self._closed else ()

    @property
    def sending(self) -> tuple[int, ...]:
        return (self._pipe,) if self._unsent else ()

    def serve(self) -> None:
        """Read the gateway's messages, answer them, and start it again if it has died."""
        if not self._started:
            self._start()
        if not self._receive():
            self._restart()
        self._answer()

    def _answer(self) -> None:
        answers, self._accounts.answers = self._accounts.answers, []
        if answers or self._accounts.room_is_stale:
            room = self._accounts.room()
            if room["room"] is not None or self._has_room:
                self._has_room = room["room"] is not None
                # First: the old room does not count the calls in these answers, so the gateway would grant it twice.
                answers.insert(0, room)
            self._unsent += b"".join(json.dumps(one).encode() + b"\n" for one in answers)
            self._send()

    def tick(self, now: float) -> float:
        if not self._started and not self._closed and now >= self._start_at:
            self._start()
        again = self._accounts.tick(now)
        if self._pipe >= 0:
            self._answer()
        return again if self._started else min(again, self._start_at)

    def _receive(self) -> bool:
        """Take the messages that have arrived; False if the gateway has ended."""
        alive = True
        while True:
            try:
                data = os.read(self._pipe, _READ)
            except BlockingIOError:
                break
            except ConnectionResetError:
                data = b""
            if not data:
                alive = False
                break
            self._unread += data
            if len(data) < _READ:
                break  # all there was; the end of the pipe is read next time
        *lines, self._unread = self._unread.split(b"\n")
        for message in json.loads(b"[%b]" % b",".join(lines)):
            self._accounts.take(message)
        return alive

    def _send(self) -> None:
        while self._unsent:
            try:
                self._unsent = self._unsent[os.write(self._pipe, self._unsent) :]
            except BlockingIOError:
                return
            except (BrokenPipeError, ConnectionResetError):
                self._unsent = b""  # the gateway has ended; `_receive` finds that next

    def _restart(self) -> None:
        self._reap()
        self._accounts.abandon()
        self._accounts.answers.clear()
        if len(self._started) == _TIMES and clock.now() - self._started[0] < _QUICK * _TIMES:
            raise Error("the gateway keeps ending: see its output, and report it")
        self._start()

    def _reap(self) -> None:
        os.close(self._pipe)
        self._pipe = -1
        try:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        except (ChildProcessError, ProcessLookupError):
            pass  # it was reaped when the tree was ended

    def overdue(self, now: float, grace: float) -> tuple[str, str, float] | None:
        """(status, reason, grace) if the command has to end: its budget is spent, and it does not stop calling."""
        accounts = self._accounts
        if not accounts.refused or (accounts.ignored_refusals < _MOST_IGNORED and now < accounts.refused_at + _MOMENT):
            return None
        return statuses.OVER_BUDGET, accounts.refused, grace

    def write(self) -> None:
        """Write the last settlements: the ledger has every call when this returns."""
        self._accounts.write()
        call_slots.remove(self._accounts.slots)

    def conclude(self, reported: Reported) -> None:
        """The command has ended: report what its calls mean for how it ended."""
        accounts = self._accounts
        if accounts.refused:
            reported.refused = reported.unmetered = f"{accounts.refused} ({accounts.refusals} refused)"
        elif accounts.refused_otherwise:
            reported.failure = reported.failure or accounts.refused_otherwise
            reported.unmetered = accounts.refused_otherwise
        elif accounts.has_login:
            reported.unmetered = "metered at list price: the client uses its own login"
        elif accounts.is_capped and not reported.used:
            reported.unmetered = "no call to a model was metered: its budget was not counted"

    def end_at_once(self) -> None:
        """End the gateway, and with it all streams, at once; as when the lease is lost."""
        self._closed = True
        if self._pipe >= 0:
            self._receive()
            self._reap()
            self._accounts.abandon()

    def close(self) -> None:
        """The command has ended: take the last settlements; what is still in flight is in doubt."""
        if self._pipe < 0:
            self._closed = True
            self._listening.close()
            return
        self._receive()
        self._unsent += b'{"do":"end"}\n'
        self._send()
        deadline = clock.now() + _SETTLE_TIMEOUT
        poll = select.poll()
        poll.register(self._pipe, select.POLLIN)
        # If no client has called, the gateway has nothing to send: do not wait for one that has only just started.
        while self._accounts.called and (left := deadline - clock.now()) > 0:
            poll.poll(left * 1000 + 1)
            if not self._receive():
                break
        self.end_at_once()
        self._listening.close()
