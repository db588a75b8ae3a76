"""Requests of a run's command to its supervisor: one connection, and never the reply to another request."""

from __future__ import annotations

import json
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nightlatch.runtime.shared import client


class Server:
    """Answers each line with its own `number`, those with `wait` only when they may."""

    def __init__(self, path: Path) -> None:
        self.connections, self.asked, self.may = 0, threading.Event(), threading.Event()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines:
            for line in lines:
                request = json.loads(line)
                if request.get("wait"):
                    self.asked.set()
                    self.may.wait()
                try:
                    connection.sendall(json.dumps({"ok": True, "number": request["number"]}).encode() + b"\n")
                except OSError:
                    return

    def close(self) -> None:
        self.may.set()
        self._socket.close()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    path = tmp_path / "s"
    made = Server(path)
    monkeypatch.setenv("NIGHTLATCH_SOCKET", str(path))
    monkeypatch.setenv("NIGHTLATCH_GRANT", "g")
    yield made
    made.close()


def test_one_connection_serves_all_requests(server: Server):
    assert [client.send(do="x", number=number)["number"] for number in range(5)] == [0, 1, 2, 3, 4]
    assert server.connections == 1


def test_a_request_that_a_signal_interrupted_leaves_its_reply_to_nobody(server: Server):
    class Interrupted(BaseException):
        pass

    def interrupt(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, interrupt)
    main = threading.main_thread().ident
    assert main

    def once_asked() -> None:
        server.asked.wait()
        signal.pthread_kill(main, signal.SIGUSR1)

    threading.Thread(target=once_asked, daemon=True).start()
    try:
        with pytest.raises(Interrupted):
            client.send(do="x", number=1, wait=True)
    finally:
        signal.signal(signal.SIGUSR1, before)
    threading.Timer(0.2, server.may.set).start()  # its reply comes while the next one is awaited
    assert client.send(do="x", number=2)["number"] == 2
