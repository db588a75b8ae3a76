"""What the ledger tells, as plain values. Times are wall clock, in seconds."""

from __future__ import annotations

from ..core.model import Holder
from ..core.value import value
from .amounts import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Row = tuple[Any, ...]


@value(frozen=True, kw_only=True)
class Usage:
    """What was used: by a run, or by a job on a day."""

    job: str = ""
    day: str = ""  # a local date, as in 2026-07-31; "": not by day
    usd: float = 0.0
    tokens: float = 0
    calls: float = 0
    units: float = 0.0


@value(frozen=True, kw_only=True)
class Run:
    """One piece of work for a key. The same key comes back to the same run; each try is an attempt."""

    id: str
    job: str
    key: str
    slot: str
    command: str
    definition: str  # hash of the job definition it was started under
    host: str
    state: str  # core.states
    attempt: int  # 0: none yet
    token: int  # of the newest attempt
    grant: str
    holder: Holder
    cancel: str  # who asked for its end; "" if nobody did
    exit_code: int | None
    reason: str
    created: float
    changed: float  # of its state
    started: float | None  # of the newest attempt
    ended: float | None
    due: float | None  # when a waiting run's next attempt may start
    elapsed: float  # seconds, of the newest attempt that ended
    done: int  # progress
    total: int  # 0: unknown
    message: str
    usage: Usage
    seq: int  # of its newest journal entry
    head: str  # and that entry's hash
    anchor: str  # its job's chain when it was last linked there: the head for log lines
    parent: str = ""  # the run that it is handled in; "" for one with a supervisor of its own


@value(frozen=True, kw_only=True)
class Attempt:
    """One try, with the grant and token it had."""

    run: str
    attempt: int
    token: int
    grant: str
    holder: Holder
    state: str
    exit_code: int | None
    reason: str
    started: float
    ended: float | None
    elapsed: float


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
    """What retention removed; whoever keeps logs of these runs may remove those too."""

    runs: tuple[str, ...]
    entries: int  # of the journal
    complete: bool = True  # False: there was no time for the rest


RUN = (
    "id, job, key, slot, command, definition, host, state, attempt, token, grant_id, holder, cancel, exit_code, "
    "reason, created, changed, started, ended, due, elapsed, done, total, message, usd, tokens, calls, units, seq, "
    "head, anchor, parent"
)
ATTEMPT = "run, attempt, token, grant_id, holder, state, exit_code, reason, started, ended, elapsed"
ENTRY = "chain, seq, at, kind, body, hash"


def run_of(row: Row) -> Run:
    return Run(
        id=row[0],
        job=row[1],
        key=row[2],
        slot=row[3],
        command=row[4],
        definition=row[5],
        host=row[6],
        state=row[7],
        attempt=row[8],
        token=row[9],
        grant=row[10],
        holder=Holder.unpack(row[11]),
        cancel=row[12],
        exit_code=row[13],
        reason=row[14],
        created=row[15] / 1000,
        changed=row[16] / 1000,
        started=_seconds(row[17]),
        ended=_seconds(row[18]),
        due=_seconds(row[19]),
        elapsed=row[20] / 1000,
        done=row[21],
        total=row[22],
        message=row[23],
        usage=usage_of(row[1], row[24:28]),
        seq=row[28],
        head=row[29],
        anchor=row[30],
        parent=row[31],
    )


def attempt_of(row: Row) -> Attempt:
    run, attempt, token, grant, holder, state, exit_code, reason, started, ended, elapsed = row
    return Attempt(
        run=run,
        attempt=attempt,
        token=token,
        grant=grant,
        holder=Holder.unpack(holder),
        state=state,
        exit_code=exit_code,
        reason=reason,
        started=started / 1000,
        ended=_seconds(ended),
        elapsed=elapsed / 1000,
    )


def entry_of(row: Row) -> Entry:
    from .chain import unpack

    chain, seq, at, kind, body, hash_ = row
    return Entry(chain=chain, seq=seq, at=at / 1000, kind=kind, facts=unpack(body), hash=hash_)


def usage_of(job: str, counts: Row, day: str = "") -> Usage:
    usd, tokens, calls, units = counts
    return Usage(job=job, day=day, usd=shown("usd", usd), tokens=tokens, calls=calls, units=shown("units", units))


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000
