"""What the end of a run means for its job's row in the store: counters, evidence for a promotion, a demotion.

An end is counted once: the row keeps the ids of the ends that were counted. The end of a run by hand is "uncounted" in
the ledger until the row has counted it: if the supervisor is killed in between, the next process that looks counts it.
"""

from __future__ import annotations

from ....core import definition as definitions
from ....core import stage as stages
from ....core.row import NEVER, Row
from ....core.schedule import parse
from ....core.stage import End
from ....ledger import kinds
from ....system.zone import find
from ...shared.job import definition
from .rows import move_row, read_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ....core.job import Job
    from ....core.protocols import Store
    from ....ledger.ledger import Ledger


def new_row(job: Job, now: float) -> Row:
    """The row of a job that the store does not know yet: it begins with the next slot, in the job's declared stage."""
    begin = float(int(now))
    due = float(parse(job.schedule, find(job.tz)).next(begin)) if job.schedule else NEVER
    text = "\n".join((*job.schedule, job.tz)) if job.schedule else ""
    return Row(
        job=job.name, slot=begin, next_due=due, schedule=text, definition=definition(job),
        stage=job.stage or stages.UNATTENDED,
    )  # fmt: skip


def ensure_row(store: Store, ledger: Ledger, job: Job) -> Row:
    """Return the job's row; make it if there is none. A new definition is written to the row and journaled."""
    mine, shared = definition(job), ledger.many_machines or store.lists_begun
    while True:
        row = read_row(store, job.name)
        if row is None:
            new = new_row(job, store.clock())
        elif is_edited_by_hand(job) or definitions.judge(row, mine, "", shared=shared) != definitions.NEW:
            return row
        else:
            new = definitions.renewed(row, mine)
        if move_row(store, ledger, row or new, new):
            if row and row.definition:
                ledger.journal.note(job.name, kinds.DEFINED, definition=mine[:12], was=row.definition[:12])
            return read_row(store, job.name) or new


def is_edited_by_hand(job: Job) -> bool:
    """Was the job started with flags that change it? Then its runs are not evidence for the job in nightlatch.toml."""
    return "\nby hand:\n" in job.defined_as


def count(store: Store, ledger: Ledger, job: str, end: End, configured: str = "", run: str = "") -> Row | None:
    """Count an end, unless it is counted already; returns the row after that. None: the store does not know the job."""
    while True:
        row = read_row(store, job)
        if row is None:
            return None
        new = stages.counted(row, end, store.clock(), configured)
        if new == row:
            return row
        if move_row(store, ledger, row, new):
            journal(ledger, row, new, end, configured, run)
            return new


def journal(ledger: Ledger, row: Row, new: Row, end: End, configured: str = "", run: str = "") -> None:
    """Journal what an end has changed, if it is evidence for a stage: an unattended job has no stage left to earn."""
    stage = stages.of(row, configured)
    if stage != stages.UNATTENDED or new.strikes:
        ledger.journal.note(
            new.job, kinds.COUNTED, id=end.id, status=end.status, stage=stage, clean=new.clean, strikes=new.strikes,
            **({"run": run} if run else {}),
        )  # fmt: skip
    journal_stage(ledger, new)


def journal_stage(ledger: Ledger, row: Row) -> None:
    """Each ledger journals each change of a stage once, no matter which machine made it."""
    change = row.change
    if not change:
        return
    last = ledger.journal.last_note(row.job, kinds.STAGED)
    if last is None or last.facts.get("id") != str(change["id"]):
        ledger.journal.note(row.job, kinds.STAGED, **change)


# ── a run by hand ──


def pack(end: End) -> str:
    """An end as text, which the ledger keeps until it is counted."""
    words = (end.id, end.status, end.stage, end.definition, str(int(end.clean)), str(int(end.own_cap)))
    return " ".join(word or "-" for word in words)


def unpack(text: str) -> End:
    id_, status, stage, hash_, clean, own_cap = (word if word != "-" else "" for word in text.split(" "))
    return End(id=id_, status=status, stage=stage, definition=hash_, clean=clean == "1", own_cap=own_cap == "1")


def count_uncounted(store: Store, ledger: Ledger, job: str, configured: str = "") -> None:
    """Count the ends of runs by hand whose supervisor was killed before it could."""
    for run in ledger.uncounted(job):
        if count(store, ledger, job, unpack(run.uncounted), configured, run.id) is not None:
            ledger.count(run.id)


def change_stage(store: Store, ledger: Ledger, job: str, change: Callable[[Row], Row]) -> Row:
    """Change the stage in a job's row by `change`, and journal it. Returns the new row."""
    while True:
        row = read_row(store, job)
        assert row
        new = change(row)
        if move_row(store, ledger, row, new):
            journal_stage(ledger, new)
            return new
