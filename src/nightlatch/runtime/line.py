"""The way from a batch's driver to its supervisor: one request, one answer."""

from __future__ import annotations

import json
import os
import socket
from typing import Any


class Refused(Exception):
    """The supervisor does not record any more: nothing may be started."""


class Line:
    def __init__(self) -> None:
        self._grant = os.environ["NIGHTLATCH_GRANT"]
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(os.environ["NIGHTLATCH_SOCKET"])
        self._answers = self._socket.makefile("rb")

    def ask(self, **request: Any) -> dict[str, Any]:
        try:
            self._socket.sendall(json.dumps({"grant": self._grant, **request}).encode() + b"\n")
            answer = json.loads(self._answers.readline() or b'{"error": "the supervisor hung up"}')
        except OSError as error:
            raise Refused(f"the supervisor does not answer: {error.strerror}") from error
        if not answer.get("ok"):
            raise Refused(answer.get("error", "refused"))
        return dict(answer)
