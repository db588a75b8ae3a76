"""A small server on loopback that speaks like Azure's and Google's object stores, as far as a gate asks: objects that
are put on conditions, and read. It checks no signature."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from tests.support.servers.http import QuietHandler, serving


class _Blobs(QuietHandler):
    protocol_version = "HTTP/1.1"
    objects: dict[str, tuple[int, bytes]]  # version and content
    numbers: Iterator[int]
    mutex: threading.Lock

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        with self.mutex:
            stands = self.objects.get(unquote(self.path), (0, b""))[0]
            wanted = self.headers.get("x-goog-if-generation-match") or self.headers.get("If-Match", "").strip('"')
            if (wanted and int(wanted) != stands) or (self.headers.get("If-None-Match") and stands):
                return self._answer(412)
            self.objects[unquote(self.path)] = (next(self.numbers), content)
            self._answer(201 if "x-ms-blob-type" in self.headers else 200)

    def do_GET(self) -> None:
        found = self.objects.get(unquote(self.path))
        self._answer(200 if found else 404, found[1] if found else b"")

    def do_DELETE(self) -> None:
        self.objects.pop(unquote(self.path), None)
        self._answer(204)

    def do_POST(self) -> None:
        """Azure's way to delete, of which a gate does not need the answer."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._answer(400)

    def _answer(self, code: int, body: bytes = b"") -> None:
        version = self.objects.get(unquote(self.path), (0, b""))[0]
        headers = {"ETag": f'"{version}"', "x_goog_generation": str(version)}
        self.answer(code, body, Last_Modified="Thu, 01 Jan 2026 00:00:00 GMT", **headers)


@contextmanager
def server() -> Iterator[tuple[str, dict[str, tuple[int, bytes]]]]:
    """(endpoint, what it holds by path)"""
    objects: dict[str, tuple[int, bytes]] = {}
    shared = {"objects": objects, "numbers": itertools.count(1), "mutex": threading.Lock()}
    with serving(type("Blobs", (_Blobs,), shared)) as endpoint:
        yield endpoint, objects
