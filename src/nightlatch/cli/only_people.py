"""Decisions that only a person may take: a run must not approve itself."""

from __future__ import annotations

import os

from ..errors import Error, NotAllowed
from ..ledger import kinds, open_for
from ..store import url
from ..system import ancestry
from ..system.identity import person

_NAMES = ("NIGHTLATCH_RUN", "NIGHTLATCH_SOCKET")  # any of them: below a supervisor


def require_person(what: str, job: str, store: str | None) -> None:
    """Raise `NotAllowed`, and journal it on the job's chain, if this is inside a run: judged by the environment, and by
    whether an ancestor is a warden. `what`: the command as typed. `job`: whose chain; "": the caller's."""
    if not any(os.environ.get(name) for name in _NAMES) and not ancestry.is_below_warden():
        return
    run = os.environ.get("NIGHTLATCH_RUN", "")
    try:
        facts = {"what": what, "by": person()} | ({"run": run} if run else {})
        open_for(url.resolve(store)).note(
            job or os.environ.get("NIGHTLATCH_JOB") or "nightlatch", kinds.NOT_ALLOWED, **facts
        )
    except Error:
        pass  # it is not allowed, journaled or not
    raise NotAllowed(
        f"only a person may use `nightlatch {what}`, and this is inside {f'run {run}' if run else 'a run'}: nothing "
        f"was done. Type it outside the run"
    )
