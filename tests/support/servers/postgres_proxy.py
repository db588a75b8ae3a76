"""A network that misbehaves: a proxy in front of PostgreSQL that reads the server's messages."""

from __future__ import annotations

import select
import socket
import threading
from types import TracebackType


class Proxy:
    """Passes bytes on, with faults to choose. Does not speak TLS: put `sslmode=disable` into the URL.

    `lose_replies = N`: the next N replies to a statement do not arrive, and their connections break; the
    statement has been done by then. `lose_commits = N`: the same for replies to a COMMIT. `deaf`: notifications do not arrive. `pooler`: the server's process gets
    another number, as behind a pooler. `silent`: nothing arrives any more, and nothing breaks.
    """

    def __init__(self, port: int) -> None:
        self.lose_replies = self.lose_commits = 0
        self.deaf = self.pooler = self.silent = False
        self.opened = 0
        self.round_trips = 0
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in list(self._sockets):
            self._cut(each)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.opened += 1
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:  # it is being started again
                client.close()
                continue
            self._sockets += [client, server]
            threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        said = b""
        try:
            while True:
                for ready in select.select([client, server], [], [])[0]:
                    data = ready.recv(65536)
                    if not data:
                        return
                    if ready is client:
                        server.sendall(data)
                        continue
                    said += data
                    while len(said) >= 5 and len(said) > (length := int.from_bytes(said[1:5], "big")):
                        message, said = said[: length + 1], said[length + 1 :]
                        if not self._tell(client, message):
                            return
        except (OSError, ValueError):
            pass  # one side is gone, so is the other
        finally:
            self._cut(client)
            self._cut(server)

    def _tell(self, client: socket.socket, message: bytes) -> bool:
        """Hand one message of the server to the client; False: break the connection."""
        kind = message[:1]
        self.round_trips += kind == b"Z"  # ReadyForQuery
        if kind == b"C" and self.lose_replies:  # CommandComplete: it is committed
            self.lose_replies -= 1
            return False
        if kind == b"C" and self.lose_commits and message[5:11] == b"COMMIT":
            self.lose_commits -= 1
            return False
        if self.silent or (kind == b"A" and self.deaf) or (kind == b"D" and self.lose_replies):
            return True
        if kind == b"K" and self.pooler:
            message = message[:5] + b"\x00\x00\x00\x2a" + message[9:]
        client.sendall(message)
        return True

    def _cut(self, each: socket.socket) -> None:
        try:
            each.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        each.close()
