"""A person's choices, as buttons: each is a form that carries the state it was drawn from."""

from __future__ import annotations

from ..core import statuses
from ..core.row import Row
from ..core.value import value
from ..ledger.decisions import state_of
from ..ledger.records import RunRow
from ..observe.open_decisions import OpenDecision
from ..observe.reader import NEEDS_DECISION, StoreReader
from ..observe.run_views import is_overdue
from ..runtime.supervisor.leases import unsealed

GO, STOP = "go", "stop"  # kinds of buttons: a prominent one, and one that ends something


@value(frozen=True, kw_only=True)
class Button:
    label: str
    action: str = ""  # "": a link
    kind: str = ""
    fields: tuple[tuple[str, str], ...] = ()
    href: str = ""  # only of a link: a path below the prefix


def of_run(reader: StoreReader, run: RunRow, status: str) -> list[Button]:
    """The run's buttons, the likeliest first. A button whose action cannot be undone is never prominent."""
    about = (("run", run.id), ("seen", state_of(run)))

    def button(label: str, action: str, kind: str = "", **more: str) -> Button:
        return Button(label=label, action=action, kind=kind, fields=(*about, *more.items()))

    if run.held is not None:
        approve = Button(label="Approve", action="approve", kind=GO, fields=(("run", run.id), ("head", run.head)))
        return [approve, button("Reject", "cancel")]
    if unsealed.waits(reader.ledger, run):
        return [button("Retry", "retry", GO)]
    if status in NEEDS_DECISION:
        decide = [button("It was done", "resolve", outcome="done"), button("It was not", "resolve", outcome="failed")]
        return [*decide, button("Retry", "retry")] if status == statuses.NEEDS_ATTENTION else decide
    if status == statuses.RUNNING:
        return [] if run.cancel else [button("Cancel", "cancel", STOP)]
    if status in statuses.OPEN:
        try_now = [button("Try now", "retry")] if status == statuses.WAITING and not is_overdue(run) else []
        return [*try_now, button("Cancel", "cancel", STOP)]
    if statuses.may_start(status):
        return [button("Retry", "retry")]
    return []


def of_decision(decision: OpenDecision) -> list[Button]:
    about = {"key": decision.key, "scope": decision.scope, "batch": decision.batch, "job": decision.job}
    given = (*((name, text) for name, text in about.items() if text), ("changed", f"{decision.changed:.3f}"))
    return [
        Button(label="It was done", action="resolve", fields=(*given, ("outcome", "done"))),
        Button(label="It was not", action="resolve", fields=(*given, ("outcome", "failed"))),
    ]


def of_slot(row: Row, slot: str, *, configured: bool) -> list[Button]:
    about = (("job", row.job), ("slot", slot), ("seen", row.id))
    skip = Button(label="Skip the slot", action="skip", fields=about)
    return [Button(label="Run now", action="run", kind=GO, fields=about), skip] if configured else [skip]
