"""The run's private socket: how a child, in any language, speaks to its supervisor.

One JSON object a line in, one a line out. The child needs no access to the store, and the run has one
writer. The supervisor serves it from its own loop, so what comes in together is written together.
"""

from __future__ import annotations

import os

from ..errors import Error, Stop, StoreUnreachable
from ..system.durable import private_folder
from ..system.light import sockets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Answer = Callable[[dict[str, Any]], dict[str, Any]]

_LONGEST_LINE = 1 << 20  # bytes; who says more than that at once is cut off
_LONGEST_PATH = 100  # bytes that fit into a socket's address on every system


class Socket:
    """Listens at `path`. `descriptors` are to be polled; `serve` is called with those that are ready."""

    def __init__(self, grant: str, answer: Answer) -> None:
        self.path = os.path.join(_folder(), grant[:24])
        self._grant, self._answer = grant, answer
        self._listener = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
        self._listener.bind(self.path)
        os.chmod(self.path, 0o600)
        self._listener.listen(16)
        self._listener.setblocking(False)
        self._unread: dict[int, bytes] = {}

    @property
    def descriptors(self) -> list[int]:
        return [self._listener.fileno(), *self._unread]

    def serve(self, fd: int) -> None:
        """Take a new connection, or read and answer what stands in one."""
        if fd == self._listener.fileno():
            client, _ = self._listener._accept()
            os.set_inheritable(client, False)
            self._unread[client] = b""
            return
        try:
            data = os.read(fd, 1 << 16)
            text = self._unread[fd] + data
            *lines, self._unread[fd] = text.split(b"\n")
            for line in lines:
                self._reply(fd, line)
        except OSError:
            data = b""  # it is gone in the middle of a word
        if not data or len(self._unread[fd]) > _LONGEST_LINE:
            del self._unread[fd]
            os.close(fd)

    def close(self) -> None:
        for fd in self._unread:
            os.close(fd)
        self._listener.close()
        os.unlink(self.path)

    def _reply(self, fd: int, line: bytes) -> None:
        import json

        try:
            request = json.loads(line)
            if not isinstance(request, dict) or request.pop("grant", "") != self._grant:
                raise ValueError("every line is a JSON object whose `grant` is $NIGHTLATCH_GRANT")
            reply = {"ok": True, **self._answer(request)}
        except (Error, Stop) as error:  # a lost lease too is an answer; what it means for the run, the watch says
            reply = {"ok": False, "error": str(error), "exit_code": error.exit_code}
        except (ValueError, TypeError, KeyError) as error:
            reply = {"ok": False, "error": f"not understood: {error}", "exit_code": 64}
        view = memoryview(json.dumps(reply).encode() + b"\n")
        while view:
            view = view[os.write(fd, view) :]


def _folder() -> str:
    """A private folder with a short name: a socket's address has room for about a hundred bytes."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    base = runtime if runtime and len(runtime) < _LONGEST_PATH - 40 and os.access(runtime, os.W_OK) else "/tmp"  # noqa: S108
    folder = private_folder(os.path.join(base, f"nightlatch-{os.getuid()}"))
    status = os.lstat(folder)
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise StoreUnreachable(f"{folder} belongs to somebody else or is open to others: remove it, or chmod 0700 it")
    return folder
