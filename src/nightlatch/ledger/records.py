"""What the ledger returns, as plain values. Times are wall clock, in seconds."""

from __future__ import annotations

from ..core import statuses
from ..core.model import Holder
from ..core.units import Amounts
from ..core.value import value
from .typed_table import TypedTable

NOBODY = Holder.unpack("")


@value(frozen=True, kw_only=True)
class RunRow:
    """One piece of work for a key. A job and a key always mean the same run; each try of it is an attempt."""

    id: str
    job: str
    key: str
    slot: str = ""
    command: str = ""
    definition: str = ""  # hash of the job's definition when it was started
    host: str = ""
    status: str = statuses.PENDING
    attempt: int = 0  # 0: none yet
    token: int = 0  # of the newest attempt
    grant: str = ""
    holder: Holder = NOBODY
    cancel: str = ""  # the person that requested its end; "": none
    exit_code: int | None = None
    reason: str = ""
    created: float
    changed: float  # when its status last changed
    started: float | None = None  # when the newest attempt started
    ended: float | None = None
    due: float | None = None  # when a waiting run's next attempt may start
    elapsed: float = 0.0  # seconds that the newest ended attempt took
    done: int = 0  # progress: how many are done
    total: int = 0  # out of how many; 0: unknown
    message: str = ""
    usage: Amounts = Amounts()
    seq: int = 0  # of its newest journal entry
    head: str = ""  # and that entry's hash
    anchor: str = ""  # head of its job's chain when the run was last linked there; log lines show it
    parent: str = ""  # the run that it is nested in; "": none
    held: float | None = None  # until when it waits for an approval; None: it does not
    approved: str = ""  # head of the approved plan, until the run has ended
    uncounted: str = ""  # how it ended, until its job's row has counted that; "": nothing to count

    @property
    def title(self) -> str:
        return f"run {self.id} of {self.job}"


@value(frozen=True, kw_only=True)
class Attempt:
    """One try, with the grant and token it had."""

    run: str
    attempt: int
    token: int
    grant: str
    holder: Holder
    status: str = statuses.RUNNING
    exit_code: int | None = None
    reason: str = ""
    started: float
    ended: float | None = None
    elapsed: float = 0.0


@value(frozen=True, kw_only=True)
class Entry:
    """One entry of the journal."""

    chain: str  # a run's id, or job:NAME
    seq: int
    at: float
    kind: str
    facts: dict[str, str]
    hash: str


@value(frozen=True, kw_only=True)
class Pruned:
    """What retention removed; the logs of these runs may be deleted too."""

    runs: tuple[str, ...]
    entries: int  # of the journal
    slots: int = 0  # records of what became of slots
    complete: bool = True  # False: there was no time for the rest


@value(frozen=True, kw_only=True)
class Used:
    """One report of usage, and what it is about; "": unknown."""

    run: str
    seq: int  # of its journal entry
    job: str
    at: float
    amounts: Amounts
    attempt: int
    model: str = ""
    kind: str = ""  # of tokens: input, output, …
    source: str = ""  # where the figure comes from: a report of the command, or its final output
    item: str = ""  # of a batch, or a step
    tag: str = ""
    agent: str = ""  # the subagent that made the call


RUN = TypedTable("run", RunRow)
ATTEMPT = TypedTable(
    "attempt",
    Attempt,
    "ON CONFLICT (run, attempt) DO UPDATE SET token = excluded.token, status = excluded.status, "
    "exit_code = excluded.exit_code, reason = excluded.reason, ended = excluded.ended, elapsed = excluded.elapsed",
)
ENTRY = TypedTable("journal", Entry)
USED = TypedTable("usage", Used)
