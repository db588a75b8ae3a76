"""A warden that stands by for its supervisor's next run.

After a fork, supervisor and warden both copy every page that they touch, which costs more than a short command. So in a
process that does one run after the other, a warden whose tree has ended by itself lets go of all that it had for that
tree, and gets the next one through a socket. Only where the kernel proves that a tree is empty (Linux).
"""

from __future__ import annotations

import errno
import marshal
import os
import sys

from .lifetime import Lifetime
from .light import signal, sockets

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Collection
    from typing import Any

_LONGEST = 4096  # bytes of an assignment: it has a path and some numbers
_MOST_FDS = 7
_CONFIRMED = b"1"
_PATIENCE = 2.0  # seconds for a warden that stands by to take a tree


class Standby:
    """The supervisor's side. At most one warden stands by."""

    def __init__(self) -> None:
        self.pid = 0  # of the warden that stands by; 0: none does
        self._channel: socket.socket | None = None

    def fileno(self) -> int:
        """The descriptor of the channel to that warden; -1: none stands by."""
        return self._channel.fileno() if self._channel else -1

    @staticmethod
    def channel() -> tuple[socket.socket, WardensEnd]:
        """A channel to a warden that is about to be forked: our end, and its end. Raises OSError."""
        ours, theirs = sockets.socketpair(sockets.AF_UNIX, sockets.SOCK_SEQPACKET)
        return ours, WardensEnd(theirs)

    def keep(self, pid: int, channel: socket.socket) -> None:
        """This warden has let go of its tree, and stands by from now on."""
        self.end()
        self.pid, self._channel = pid, channel

    def assign(
        self, pipes: Collection[int], streams: Collection[int], lifetime: Lifetime, mask: Collection[int]
    ) -> tuple[int, socket.socket] | None:
        """Give a tree to the warden that stands by. Returns its pid and channel; None: the caller has to fork one."""
        pid, channel = self.pid, self._channel
        if channel is None:
            return None
        try:
            _send(channel, [*pipes, *streams], lifetime, mask)
            # While it stood by it may have been killed or stopped, or its limits lowered: then it does not confirm.
            channel.settimeout(_PATIENCE)
            confirmed = channel.recv(1)
        except OSError:
            confirmed = b""
        if not confirmed:
            self.end()
            return None
        self.pid, self._channel = 0, None
        return pid, channel

    def end(self) -> None:
        """End the warden that stands by, if one does."""
        if self._channel:
            self._channel.close()
            os.kill(self.pid, signal.SIGKILL)  # not reaped yet, so the pid is still its own
            os.waitpid(self.pid, 0)
            self.pid, self._channel = 0, None


def _send(channel: socket.socket, fds: Collection[int], lifetime: Lifetime, mask: Collection[int]) -> None:
    folder = os.open(".", os.O_PATH | os.O_CLOEXEC)
    try:
        rights = b"".join(fd.to_bytes(4, sys.byteorder) for fd in (folder, lifetime.fileno(), *fds))
        body = marshal.dumps((lifetime.path, lifetime.grant, [int(signum) for signum in mask]))
        channel.sendmsg([body], [(sockets.SOL_SOCKET, sockets.SCM_RIGHTS, rights)])
    finally:
        os.close(folder)


class WardensEnd:
    """The warden's side of the channel."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def fileno(self) -> int:
        return self._channel.fileno()

    def close(self) -> None:
        self._channel.close()

    def receive(self) -> dict[str, Any] | None:
        """Wait for the next tree; returns it as arguments of `WardenProcess`, in whose folder this process is then.
        Raises OSError if this process cannot take it. None: the supervisor is gone."""
        room = sockets.CMSG_LEN(4 * _MOST_FDS)
        body, control, flags, _ = self._channel.recvmsg(_LONGEST, room, sockets.MSG_CMSG_CLOEXEC)
        if not body:
            return None
        if flags & sockets.MSG_CTRUNC:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        rights = b"".join(data for _, _, data in control)
        fds = [int.from_bytes(rights[at : at + 4], sys.byteorder) for at in range(0, len(rights), 4)]
        folder, lock, orders, command, reports, *streams = fds
        path, grant, mask = marshal.loads(body)  # noqa: S302 - both ends are one program, forked
        os.fchdir(folder)
        os.close(folder)
        self._channel.send(_CONFIRMED)
        return {
            "orders": orders,
            "command": command,
            "reports": reports,
            "grant": grant,
            "streams": tuple(streams) or None,
            "lifetime": Lifetime.shared(path, grant, lock),
            "mask": mask,
        }
