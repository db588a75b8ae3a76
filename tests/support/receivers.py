"""Real servers on loopback that messages are sent to: HTTP, with any answer; and a mail server."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class HttpReceiver:
    """Keeps what it was sent: (path, headers, body). `answer` says with which code it answers the nth request."""

    def __init__(self, answer: Callable[[int], int]) -> None:
        self.answer = answer
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.accepted: list[bytes] = []
        self._lock = threading.Lock()
        self.url = ""

    def take(self, path: str, headers: dict[str, str], body: bytes) -> int:
        with self._lock:
            self.requests.append((path, headers, body))
            number = len(self.requests)
        code = self.answer(number)
        if code < 300:
            with self._lock:
                self.accepted.append(body)
        return code


@contextmanager
def http_receiver(answer: Callable[[int], int] = lambda _: 200) -> Iterator[HttpReceiver]:
    receiver = HttpReceiver(answer)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(size := int(self.headers["content-length"]))
            if len(body) < size:  # the sender was killed
                return
            headers = {name.lower(): text for name, text in self.headers.items()}
            code = receiver.take(self.path, headers, body)
            self.send_response(code)
            if code in (301, 302, 307):
                self.send_header("location", "http://127.0.0.1:1/elsewhere")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()


class MailServer:
    def __init__(self) -> None:
        self.mails: list[bytes] = []
        self.port = 0
        self.refuse = b""  # what it answers to the recipient


@contextmanager
def mail_server() -> Iterator[MailServer]:
    made = MailServer()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 here\r\n")
            while line := self.rfile.readline():
                word = line.split()[0].upper() if line.split() else b""
                if word == b"DATA":
                    self.wfile.write(b"354 go on\r\n")
                    lines = []
                    while (part := self.rfile.readline()) not in (b".\r\n", b""):
                        lines.append(part)
                    made.mails.append(b"".join(lines))
                elif word == b"QUIT":
                    self.wfile.write(b"221 bye\r\n")
                    return
                if word == b"RCPT" and made.refuse:
                    self.wfile.write(made.refuse + b"\r\n")
                else:
                    self.wfile.write(b"250 ok\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        made.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield made
        server.shutdown()
