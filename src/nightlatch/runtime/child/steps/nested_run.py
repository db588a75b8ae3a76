"""A piece of work as a run of its own, on the child's side."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

from ....core import statuses
from ..planned import loads
from .direct import RecordRequest
from .drive import Call, Work
from .mapping import error_waits
from .step import as_recorded, reason_of, serialised

if TYPE_CHECKING:
    from ..context import Run


def handle(run: Run, key: str, call: Call) -> Work[Any]:
    reply = yield RecordRequest(do="open", key=key)
    if reply["status"] == "done":
        return loads(reply["result"]) if reply["result"] else None
    name = reply["run"]
    try:
        with run._nested(name, key, reply["attempt"]):
            result = yield call
        text = serialised("run", key, result)
    except BaseException as error:
        status = statuses.NEEDS_ATTENTION if error_waits(error) else statuses.FAILED
        trace = "".join(traceback.format_exception(error))
        yield RecordRequest(do="close", run=name, status=status, reason=reason_of(error), traceback=trace)
        raise
    yield RecordRequest(do="close", run=name, status=statuses.SUCCEEDED, result=text)
    return as_recorded(result, text)
