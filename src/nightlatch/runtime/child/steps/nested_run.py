"""`run.handle`: a piece of work as a nested run, in the child."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

from ....core import statuses
from ..planned import loads
from .direct import RecordRequest
from .mapping import needs_person
from .step import as_recorded, reason_of, serialised

if TYPE_CHECKING:
    from ..context import Run
    from .drive import UserCall, Work


def handle(run: Run, key: str, call: UserCall) -> Work[Any]:
    reply = yield RecordRequest(do="open", key=key)
    if reply["status"] == "done":
        return loads(reply["result"]) if reply["result"] else None
    run_id = reply["run"]
    try:
        with run._nested(run_id, key, reply["attempt"]):
            result = yield call
        text = serialised("run", key, result)
    except BaseException as error:
        status = statuses.NEEDS_ATTENTION if needs_person(error) else statuses.FAILED
        trace = "".join(traceback.format_exception(error))
        yield RecordRequest(do="close", run=run_id, status=status, reason=reason_of(error), traceback=trace)
        raise
    yield RecordRequest(do="close", run=run_id, status=statuses.SUCCEEDED, result=text)
    return as_recorded(result, text)
