"""A real S3 server on loopback (moto), one that ignores the conditions of a put, and a network that loses replies."""

from __future__ import annotations

import http.client
import logging
import os
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.servers.http import QuietHandler, serving

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
_SIGNED = {"Authorization": "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request"}


@contextmanager
def server() -> Iterator[str]:
    """The endpoint of a server with one bucket, `bucket`; credentials are in the environment meanwhile."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for each request
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    before = {name: os.environ.get(name) for name in CREDENTIALS}
    os.environ.update(CREDENTIALS)
    try:
        request = urllib.request.Request(f"{endpoint}/bucket", method="PUT", headers=_SIGNED)
        urllib.request.urlopen(request).close()
        yield endpoint
    finally:
        moto.stop()
        for name, text in before.items():
            os.environ.pop(name) if text is None else os.environ.update({name: text})


class _Careless(QuietHandler):
    """Stores what it is given, whatever the conditions: as some small servers do."""

    objects: dict[str, bytes]

    def do_PUT(self) -> None:
        self.objects[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(200)

    def do_GET(self) -> None:
        self._answer(200 if self.path in self.objects else 404, self.objects.get(self.path, b""))

    def do_DELETE(self) -> None:
        self.objects.pop(self.path, None)
        self._answer(204)

    def do_POST(self) -> None:
        self._answer(200, b"<DeleteResult></DeleteResult>")

    def _answer(self, code: int, body: bytes = b"") -> None:
        etag = f'"{hash(self.objects.get(self.path))}"'
        self.answer(code, body, ETag=etag, Last_Modified="Thu, 01 Jan 2026 00:00:00 GMT")


@contextmanager
def careless_server() -> Iterator[tuple[str, dict[str, bytes]]]:
    """(endpoint, what it holds)"""
    objects: dict[str, bytes] = {}
    os.environ.update(CREDENTIALS)
    with serving(type("Careless", (_Careless,), {"objects": objects})) as endpoint:
        yield endpoint, objects


class _Lossy(QuietHandler):
    """Passes requests on to a real server, and loses replies on demand."""

    protocol_version = "HTTP/1.1"
    endpoint: str
    one_at_a_time: threading.Lock  # moto compares and replaces in two steps, which is one in S3
    lost: list[str]  # how the paths end whose next put is answered by nobody; one that was lost is taken off

    def do_GET(self) -> None:
        self._hand_on()

    do_PUT = do_DELETE = do_POST = do_HEAD = do_GET

    def _hand_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or None
        with self.one_at_a_time:
            server = http.client.HTTPConnection(self.endpoint.removeprefix("http://"))
            server.request(self.command, self.path, body, dict(self.headers))
            reply = server.getresponse()
            content = reply.read()
            server.close()
        ends = next((end for end in self.lost if self.command == "PUT" and self.path.endswith(end)), None)
        if ends and reply.status == 200:
            self.lost.remove(ends)
            self.close_connection = True
            return
        self.send_response_only(reply.status)
        for name, text in reply.getheaders():
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                self.send_header(name, text)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def lossy(endpoint: str) -> Iterator[tuple[str, list[str]]]:
    """A network in front of a server: (endpoint, how the paths end whose next put happens and is not answered)"""
    lost: list[str] = []
    with serving(
        type("Lossy", (_Lossy,), {"endpoint": endpoint, "lost": lost, "one_at_a_time": threading.Lock()})
    ) as in_front:
        yield in_front, lost
