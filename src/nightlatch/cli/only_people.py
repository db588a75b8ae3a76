"""Decisions that only a person may take. A run that could vouch for itself would need nobody."""

from __future__ import annotations

import os

from ..errors import Error, NotAllowed
from ..ledger import kinds, open_for
from ..store import url
from ..system import ancestry
from .decisions import current_user
from .in_run import store_of_run

_NAMES = ("NIGHTLATCH_RUN", "NIGHTLATCH_SOCKET")  # any of them: below a supervisor


def require_person(what: str, job: str, store: str | None) -> None:
    """Raise `NotAllowed`, and journal it on the job's chain, if this is called from inside a run: by its environment,
    or by an ancestor that is a warden. `what`: the command, as it is typed. `job`: that it is about; "": the caller's.
    """
    if not any(os.environ.get(name) for name in _NAMES) and not ancestry.is_below_warden():
        return
    run = os.environ.get("NIGHTLATCH_RUN", "")
    try:
        facts = {"what": what, "by": current_user()} | ({"run": run} if run else {})
        open_for(url.resolve(store or store_of_run())).note(job or _job(), kinds.NOT_ALLOWED, **facts)
    except Error:
        pass  # that it cannot be journaled does not allow it
    raise NotAllowed(
        f"only a person may use `nightlatch {what}`, and this is inside {f'run {run}' if run else 'a run'}: nothing "
        f"was done. Type it outside the run"
    )


def _job() -> str:
    return os.environ.get("NIGHTLATCH_JOB") or "nightlatch"
