"""A real server for tests: git over smart HTTP on loopback, with the faults a network has."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


class GitHttp:
    """`git http-backend` behind a small HTTP server, with faults to choose:

    down          every connection is broken before it is served
    locked        everybody is asked for a password
    lose_replies  so many pushes reach the repository, and their answers are lost, after `meanwhile`
    hold          a push is held between its advertisement and its arrival until the event is set; `held` tells
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.down = self.locked = False
        self.lose_replies = 0
        self.meanwhile: Callable[[], object] = int
        self.hold: threading.Event | None = None
        self.held = threading.Event()
        self.served: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.port}/{name}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(outer) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._serve()

            def do_POST(self) -> None:
                self._serve()

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def _serve(self) -> None:
                self.close_connection = True
                if outer.down:
                    return
                where = urlsplit(self.path)
                outer.served.append(f"{self.command} {where.path}?{where.query}")
                body = self._body()
                if outer.locked:
                    self._answer(b"Status: 401 Unauthorized\r\nWWW-Authenticate: Basic realm=git\r\n\r\n")
                    return
                push = where.path.endswith("/git-receive-pack") and self.command == "POST"
                if push and (hold := outer.hold):
                    outer.hold = None
                    outer.held.set()
                    hold.wait(60)
                reply = subprocess.run(
                    ["git", "http-backend"], input=body, env=self._environment(where.path, where.query), stdout=-1
                ).stdout
                if push and outer.lose_replies:
                    outer.lose_replies -= 1
                    outer.meanwhile()
                    return
                self._answer(reply)

            def _body(self) -> bytes:
                if self.headers.get("Transfer-Encoding") == "chunked":
                    parts = []
                    while size := int(self.rfile.readline(), 16):
                        parts.append(self.rfile.read(size))
                        self.rfile.readline()
                    self.rfile.readline()
                    return b"".join(parts)
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))

            def _environment(self, path: str, query: str) -> dict[str, str]:
                return {
                    "PATH": os.environ["PATH"],
                    "GIT_PROJECT_ROOT": str(outer.root),
                    "GIT_HTTP_EXPORT_ALL": "1",
                    "REMOTE_USER": "tester",
                    "REMOTE_ADDR": "127.0.0.1",
                    "REQUEST_METHOD": self.command,
                    "PATH_INFO": path,
                    "QUERY_STRING": query,
                    "CONTENT_TYPE": self.headers.get("Content-Type") or "",
                    "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding") or "",
                    "GIT_PROTOCOL": self.headers.get("Git-Protocol") or "",
                }

            def _answer(self, reply: bytes) -> None:
                head, _, body = reply.partition(b"\r\n\r\n")
                status, lines = 200, []
                for line in head.decode().split("\r\n"):
                    name, _, text = line.partition(": ")
                    if name == "Status":
                        status = int(text.split()[0])
                    else:
                        lines.append((name, text))
                self.send_response(status)
                for name, text in lines:
                    self.send_header(name, text)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(body)

        return Handler


def git_repository(path: Path) -> Path:
    """A bare repository that takes pushes over HTTP too."""
    subprocess.run(["git", "init", "--quiet", "--bare", path], check=True)
    subprocess.run(["git", "-C", path, "symbolic-ref", "HEAD", "refs/heads/main"], check=True)
    # Throwing away what was replaced is a server's own affair, and takes a core from the other tests.
    for setting, text in (("http.receivepack", "true"), ("receive.autogc", "false")):
        subprocess.run(["git", "-C", path, "config", setting, text], check=True)
    return path


@contextmanager
def git_http(root: Path) -> Iterator[GitHttp]:
    server = GitHttp(root)
    try:
        yield server
    finally:
        server.close()
