"""Decisions that only a person may take: a run must not approve itself."""

from __future__ import annotations

import os

from ..errors import Error, NotAllowed
from ..ledger import kinds, open_for
from ..store import url
from ..system import ancestry
from ..system.identity import person

_RUN_VARIABLES = ("NIGHTLATCH_RUN", "NIGHTLATCH_SOCKET")  # set by a supervisor for its command


def require_person(what: str, job: str, store: str | None) -> None:
    """If this is inside a run (by the environment, or because an ancestor is a warden), journal that on the job's chain
    and raise `NotAllowed`. `what`: the command as typed. `job`: "" means the run's job."""
    if not any(os.environ.get(name) for name in _RUN_VARIABLES) and not ancestry.is_below_warden():
        return
    run = os.environ.get("NIGHTLATCH_RUN", "")
    try:
        facts = {"what": what, "by": person()} | ({"run": run} if run else {})
        open_for(url.resolve(store)).journal.note(
            job or os.environ.get("NIGHTLATCH_JOB") or "nightlatch", kinds.NOT_ALLOWED, **facts
        )
    except Error:
        pass  # refused even if it cannot be journaled
    raise NotAllowed(
        f"only a person may use `nightlatch {what}`, and this is inside {f'run {run}' if run else 'a run'}: nothing "
        f"was done. Type it outside the run"
    )
