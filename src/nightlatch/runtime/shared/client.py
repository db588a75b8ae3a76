"""Speaking to the run's supervisor, from inside a run. Each thread has a line of its own, which stays open."""

from __future__ import annotations

import os
from _thread import _local

from ...errors import Error, UsageError
from .replies import raised

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_mine = _local()


def tell(**request: Any) -> dict[str, Any]:
    """Send one request and wait for the answer; raises what the supervisor answers with."""
    line: Line | None = getattr(_mine, "line", None)
    if line is None or line.made_for != place() or line.is_cut:
        line = _mine.line = Line()
    try:
        return judged(line.ask(request))
    except OSError as error:
        _mine.line = None
        raise unheard(error) from error


def place() -> tuple[str, str, int]:
    """Where the supervisor listens, the grant, and who asks: a fork needs a line of its own."""
    return os.environ.get("NIGHTLATCH_SOCKET", ""), os.environ.get("NIGHTLATCH_GRANT", ""), os.getpid()


def whose() -> dict[str, str]:
    """What goes into every line: the grant, and the batch's item that this works on."""
    path, grant, _ = place()
    if not path:
        raise UsageError("this works inside a run only: nightlatch run NAME -- CMD …")
    for outer in os.environ.get("NIGHTLATCH_LINEAGE", "").split():
        if outer.startswith(os.path.basename(path)):
            grant = outer  # under `once` or `lock` inside the run, whose own grant the socket does not know
    item = os.environ.get("NIGHTLATCH_STEP")
    return {"grant": grant, "item": item} if item else {"grant": grant}


def packed(whose: dict[str, str], request: dict[str, Any]) -> bytes:
    import json

    return json.dumps({**whose, **request}).encode() + b"\n"


def judged(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer, if it is one; else raises what it says."""
    if answer.get("ok"):
        return answer
    raise raised(answer)


def unheard(error: OSError) -> Error:
    return Error(f"the run's supervisor does not answer: {error.strerror or error}")


class Line:
    """A connection to the supervisor. For one thread at a time."""

    def __init__(self) -> None:
        import json
        import socket

        self.made_for = place()
        self._whose = whose()
        self._loads, self._at_once = json.loads, socket.MSG_DONTWAIT
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(self.made_for[0])
        except OSError as error:
            self._socket.close()
            raise unheard(error) from error

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        self._socket.sendall(packed(self._whose, request))
        text = self._socket.recv(1 << 16)
        while text[-1:] != b"\n":
            more = self._socket.recv(1 << 16)
            if not more:
                raise ConnectionResetError("it hung up")
            text += more
        return dict(self._loads(text))

    @property
    def is_cut(self) -> bool:
        """Has the supervisor hung up, as it does on silent lines when there are too many? Or is there an answer that
        nobody waited for, since the question was interrupted?"""
        try:
            self._socket.recv(1, self._at_once)
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True

    def __del__(self) -> None:
        made = getattr(self, "_socket", None)
        if made is not None:
            made.close()
