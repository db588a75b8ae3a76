"""Speaking to the run's supervisor, from inside a run."""

from __future__ import annotations

import os

from ..errors import BudgetSpent, Cancelled, Error, LeaseLost, StaleToken, Stop, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def tell(**request: Any) -> dict[str, Any]:
    """Send one request and wait for the answer; raises what the supervisor answers with."""
    import json
    import socket

    path, grant = os.environ.get("NIGHTLATCH_SOCKET"), os.environ.get("NIGHTLATCH_GRANT", "")
    for outer in os.environ.get("NIGHTLATCH_LINEAGE", "").split():
        if path and outer.startswith(os.path.basename(path)):
            grant = outer  # under `once` or `lock` inside the run, whose own grant the socket does not know
    item = os.environ.get("NIGHTLATCH_STEP")
    if not path:
        raise UsageError("this works inside a run only: nightlatch run NAME -- CMD …")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        try:
            line.connect(path)
            whose = {"grant": grant, "item": item} if item else {"grant": grant}
            line.sendall(json.dumps({**whose, **request}).encode() + b"\n")
            with line.makefile("rb") as answers:
                answer = json.loads(answers.readline() or b'{"error": "the supervisor hung up"}')
        except OSError as error:
            raise Error(f"the run's supervisor does not answer: {error.strerror}") from error
    if not answer.get("ok"):
        raise _refused(answer.get("error", "refused"), answer.get("exit_code", Error.exit_code))
    return dict(answer)


def _refused(said: str, exit_code: int) -> Error | Stop:
    """A stop stays a stop on this side: a broad `except Exception` in the work does not swallow it."""
    if exit_code == LeaseLost.exit_code:
        return LeaseLost(said, reason="taken")
    for kind in (Cancelled, BudgetSpent, StaleToken, UsageError):
        if exit_code == kind.exit_code:
            return kind(said)
    refused = Error(said)
    refused.exit_code = exit_code
    return refused
