"""The pages as a real process, and requests to it byte by byte."""

from __future__ import annotations

import http.client
import socket
import subprocess
from typing import Any

from nightlatch.store import url as stores
from nightlatch.web.access import Access
from tests.support.programs import start, until


class PagesProcess:
    """`nightlatch serve --only-pages`, at a port of its own."""

    def __init__(self, store: str, *options: str, port: int = 0, **more: Any) -> None:
        self.store, self.access = store, Access(stores.folder_of(store))
        words = ["serve", "--only-pages", "--port", str(port), *options]
        self.process = start(store, *words, stdout=subprocess.DEVNULL, **more)
        assert self.process.stderr
        line = self.process.stderr.readline()
        assert "the pages are at" in line, line + self.process.stderr.read()
        self.port = int(line.partition("127.0.0.1:")[2].partition(";")[0])

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}/{self.access.prefix}/"

    def opening(self, *, read_only: bool = False) -> str:
        """An address that is good once."""
        return f"{self.base}open/{self.access.new_code(read_only=read_only)}"

    def session(self, *, read_only: bool = False) -> Session:
        token = self.access.redeem(self.access.new_code(read_only=read_only))
        assert token
        return Session(self, token)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(20)
        assert self.process.stderr
        self.process.stderr.close()


class Session:
    """Requests with a cookie; every header may be another one."""

    def __init__(self, pages: PagesProcess, token: str = "") -> None:
        self.pages, self.token = pages, token
        found = pages.access.session(token)
        self.csrf = found.csrf if found else ""

    def get(self, path: str = "", **headers: str) -> tuple[int, dict[str, str], str]:
        return self.request("GET", f"/{self.pages.access.prefix}/{path}", headers)

    def post(self, path: str, form: dict[str, str], **headers: str) -> tuple[int, dict[str, str], str]:
        from urllib.parse import urlencode

        known = {"Origin": f"http://127.0.0.1:{self.pages.port}", "Content-Type": "application/x-www-form-urlencoded"}
        body = urlencode({"csrf": self.csrf, **form})
        return self.request("POST", f"/{self.pages.access.prefix}/{path}", {**known, **headers}, body)

    def request(
        self, method: str, path: str, headers: dict[str, str], body: str = ""
    ) -> tuple[int, dict[str, str], str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.pages.port, timeout=30)
        cookie = {"Cookie": f"nightlatch={self.token}"} if self.token else {}
        sent = {name: text for name, text in {**cookie, **headers}.items() if text is not None}
        connection.request(method, path, body or None, sent)
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
        connection.close()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, text


def raw(port: int, data: bytes, seconds: float = 20.0) -> bytes:
    """What comes back to these bytes, until the other side closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        connection.sendall(data)
        found = b""
        while piece := connection.recv(65536):
            found += piece
    return found


__all__ = ["PagesProcess", "Session", "raw", "until"]
