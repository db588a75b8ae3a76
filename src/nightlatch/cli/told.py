"""Speaking to the run's supervisor, from inside a run."""

from __future__ import annotations

import os

from ..errors import Error, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def store_of_run() -> str | None:
    """Inside a run: the run's store, which its supervisor keeps out of the environment. None elsewhere, and where
    the environment names one."""
    if "NIGHTLATCH_SOCKET" not in os.environ or os.environ.get("NIGHTLATCH_STORE"):
        return None
    return str(tell(do="store")["url"])


def tell(**request: Any) -> dict[str, Any]:
    """Send one request and wait for the answer."""
    import json
    import socket

    path, grant = os.environ.get("NIGHTLATCH_SOCKET"), os.environ.get("NIGHTLATCH_GRANT", "")
    if not path:
        raise UsageError("this works inside a run only: nightlatch run NAME -- CMD …")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        try:
            line.connect(path)
            line.sendall(json.dumps({"grant": grant, **request}).encode() + b"\n")
            with line.makefile("rb") as answers:
                answer = json.loads(answers.readline() or b'{"error": "the supervisor hung up"}')
        except OSError as error:
            raise Error(f"the run's supervisor does not answer: {error.strerror}") from error
    if not answer.get("ok"):
        refused = Error(answer.get("error", "refused"))
        refused.exit_code = answer.get("exit_code", 125)
        raise refused
    return dict(answer)
