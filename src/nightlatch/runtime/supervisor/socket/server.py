"""The run's private socket, through which a child in any language reaches its supervisor.

One JSON object a line in, one a line out. The child needs no access to the store, and the run has one
writer. The supervisor serves it from its own loop.
"""

from __future__ import annotations

import os

from ....system.light import sockets
from . import folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .clients import Answers, Clients


class Socket:
    """Listens at `path`. Poll `descriptors` for reading and `sending` for writing; call `serve` with all that are
    ready."""

    def __init__(self, grant: str, answers: Answers) -> None:
        folder, self._lock = folders.make()
        self.path = os.path.join(folder, grant[:24])  # a child compares it with its run's grant
        self._grant, self._answers = grant, answers
        self._listener = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
        self._listener.bind(self.path)
        os.chmod(self.path, 0o600)
        self._listener.listen(16)
        self._listener.setblocking(False)
        self._clients: Clients | None = None  # made at the first connection: most commands make none
        self._accepts = True

    @property
    def descriptors(self) -> list[int]:
        if self._clients:
            return self._clients.descriptors
        return [self._listener.fileno()] if self._accepts else []

    @property
    def sending(self) -> list[int]:
        return self._clients.sending if self._clients else []

    def serve(self, fds: Sequence[int]) -> None:
        """Accept connections; read all requests, then reply to them."""
        if not self._clients:
            self._accepts = True
            try:
                self._clients = self._make_clients() if fds else None
            except OSError:
                self._accepts = False  # no descriptor is left: not polled until the next turn, when one may be free
        if self._clients:
            self._clients.serve(fds)

    def _make_clients(self) -> Clients:
        from .clients import Clients

        return Clients(self._listener, self._grant, self._answers)

    def close(self) -> None:
        if self._clients:
            self._clients.close()
        self._listener.close()
        for remove, path in ((os.unlink, self.path), (os.rmdir, os.path.dirname(self.path))):
            try:
                remove(path)
            except OSError:
                pass  # the command may have removed it, or put files there
        os.close(self._lock)
