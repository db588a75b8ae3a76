"""Sealing the ledger, the last seal before the work: from then on the run has one writer."""

from __future__ import annotations

from ..core import advice, statuses
from ..core.model import Holder, Mark
from ..errors import RunEnded, StaleToken
from . import kinds
from .chain import clean, link
from .changing import anchor
from .records import ATTEMPT, ENTRY, RUN, Attempt, RunRow
from .step_chain import head_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .tables import ChainTransaction, Row, Tables

# Everything that was read before is compared again: if anything has changed since, this matches no row.
_SEEN = """
WHERE id = :id AND status = :was_status AND attempt = :was_attempt AND token = :was_token AND grant_id = :was_grant
  AND head = :was_head
"""

_SEAL = f"""
UPDATE {{prefix}}run SET status = 'running', attempt = :attempt, token = :token, grant_id = :grant, holder = :holder,
  host = :host, command = :command, definition = :definition, seq = :seq, head = :head, changed = :at, started = :at,
  ended = NULL, due = NULL, exit_code = NULL, reason = '', done = 0, total = 0, message = ''
{_SEEN} {{run_row}}
"""

_REAP = f"""
UPDATE {{prefix}}run SET status = :status, token = :token, grant_id = :grant, seq = :seq, head = :head,
  changed = :at, ended = :at, reason = :reason
{_SEEN} {{matched}}
"""

_LOSE = """
UPDATE {prefix}attempt SET status = 'lost', reason = :reason, ended = :at, elapsed = :at - started
WHERE run = :run AND attempt = :attempt
"""

NO_FACTS: Mapping[str, str] = {}
HOLDER_GONE = "its holder is gone"


def judge(store: str, run: RunRow, token: int, grant: str) -> None:
    """Raise StaleToken or RunEnded if this grant may not begin an attempt."""
    newer = run.token > token or (run.token == token and run.grant != grant)
    if newer:
        raise stale(store, run, token, grant)
    if not statuses.may_seal(run.status) or run.held is not None:
        raise RunEnded(why_closed(run), run)


def stale(store: str, run: RunRow, token: int, grant: str) -> StaleToken:
    return StaleToken(
        f"{run.title} refused token {token}: attempt {run.attempt} with token {run.token} by {run.holder} is newer "
        f"there. Nothing was written. A newer holder has taken over; stop this one",
        offered=Mark(store=store, name=run.job, token=token, grant=grant),
        current=Mark(store=store, name=run.job, token=run.token, grant=run.grant),
    )


def why_closed(run: RunRow) -> str:
    """Why no attempt of the run can begin, and what to type."""
    if run.status == statuses.SUCCEEDED:
        return f"{run.title} succeeded already"
    if run.held is not None:
        return held_message(run)
    if statuses.needs_person(run.status):
        return f"{run.title} is {run.status} ({run.reason}). Look, then: {advice.command('resolve', run.id)}"
    return f"{run.title} has ended: {run.status}. To start it again: {advice.command('retry', run.id)}"


def held_message(run: RunRow) -> str:
    return (
        f"{run.title} waits for your approval: {advice.command('approve', run.id)}; refuse it: "
        f"{advice.command('cancel', run.id)}"
    )


def take(
    tables: Tables, run: RunRow, token: int, grant: str, holder: Holder, command: str, definition: str, at: int,
    facts: Mapping[str, str] = NO_FACTS,
) -> RunRow | None:  # fmt: skip
    """Begin the next attempt, if the run is still as it was seen; None if not."""
    started_with = run, token, grant, holder, clean(command), clean(definition), facts
    if run.status != statuses.RUNNING or run.grant == grant:
        entries = RunEntries(run, at)
        values, attempt = _begin(entries, *started_with)
        rows = tables.guarded(_SEAL, values, [(ATTEMPT, [ATTEMPT.row(attempt)]), (ENTRY, entries.rows)])
        return RUN.read(rows[0]) if rows else None
    # The holder of the last attempt is gone: that is recorded on the job's chain too.
    with tables.on_chain(run.job) as chain:
        entries = RunEntries(run, chain.at)
        link = entries.lose(run, head_of(chain, run.id))
        values, attempt = _begin(entries, *started_with)
        if not chain(_SEAL, **values):
            return None
        chain.insert(ATTEMPT, [ATTEMPT.row(attempt)])
        _close_lost(tables, chain, run, entries, run_ended=False)
        return anchor(chain, run.id, kinds.LOST, **link)


def reap(tables: Tables, run: RunRow, token: int, grant: str, status: str) -> RunRow | None:
    """End an attempt that its holder left behind, as `lost` or `in-doubt`; None if the run moved meanwhile."""
    with tables.on_chain(run.job) as chain:
        entries = RunEntries(run, chain.at)
        entries.lose(run, head_of(chain, run.id), status=status, by_token=token, by_grant=grant)
        values = _seen(run) | {
            "status": status,
            "token": token,
            "grant": grant,
            "seq": entries.seq,
            "head": entries.head,
            "at": chain.at,
            "reason": f"attempt {run.attempt} was lost: {HOLDER_GONE}",
        }
        if not chain(_REAP, **values):
            return None
        _close_lost(tables, chain, run, entries, run_ended=True)
        return anchor(chain, run.id, kinds.ENDED, status=status, seq=entries.seq, head=entries.head)


def _close_lost(tables: Tables, chain: ChainTransaction, run: RunRow, entries: RunEntries, *, run_ended: bool) -> None:
    chain.later(_LOSE, run=run.id, attempt=run.attempt, reason=HOLDER_GONE, at=chain.at)
    elapsed = chain.at / 1000 - (run.started or 0.0)
    from . import tally

    tally.close_attempt(tables, chain, run, statuses.LOST, at=chain.at, elapsed=elapsed, run_ended=run_ended, used=True)
    for name, seq, _, kind, body, hash_ in entries.rows:
        chain.enter(name, seq, kind, body, hash_)


def _begin(
    entries: RunEntries, run: RunRow, token: int, grant: str, holder: Holder, command: str, definition: str,
    more: Mapping[str, str],
) -> tuple[dict[str, object], Attempt]:  # fmt: skip
    """Add the entry of the attempt that a seal begins; returns the values of `_SEAL`, and the attempt."""
    number = run.attempt + (run.grant != grant or run.status != statuses.RUNNING)
    facts = {"attempt": number, "token": token, "grant": grant, "holder": holder, "host": holder.host}
    started_with = ("command", command), ("definition", definition)
    facts |= {name: text for name, text in started_with if text and text != getattr(run, name)}
    entries.add(kinds.STARTED, **facts, **more)
    values = _seen(run) | {
        "attempt": number,
        "token": token,
        "grant": grant,
        "holder": holder.pack(),
        "host": holder.host,
        "command": command or run.command,
        "definition": definition or run.definition,
        "seq": entries.seq,
        "head": entries.head,
        "at": entries.at,
    }
    started = entries.at / 1000
    return values, Attempt(run=run.id, attempt=number, token=token, grant=grant, holder=holder, started=started)


class RunEntries:
    """Entries to be appended to a run's chain in one commit."""

    def __init__(self, run: RunRow, at: int) -> None:
        self._run, self.at = run.id, at
        self.seq, self.head = run.seq, run.head
        self.rows: list[Row] = []

    def add(self, kind: str, **facts: object) -> None:
        kind, body = str(kind), kinds.body(kind, kinds.RUN, facts)
        self.seq += 1
        self.head = link(self.head, self._run, self.seq, self.at, kind, body)
        self.rows.append((self._run, self.seq, self.at, kind, body, self.head))

    def lose(self, run: RunRow, steps: str | None, **more: object) -> dict[str, object]:
        """Record that the run's newest attempt was left behind; returns the facts for its job's chain."""
        facts = {"attempt": run.attempt, "token": run.token, "holder": run.holder}
        self.add(kinds.LOST, **facts, steps=steps, **more)
        return {**facts, "seq": self.seq, "head": self.head}


def lost_attempt(run: RunRow, at: int) -> Attempt:
    """The newest attempt of a run, ended because its holder is gone."""
    return ended_attempt(run, statuses.LOST, None, HOLDER_GONE, at, at / 1000 - (run.started or 0.0))


def ended_attempt(run: RunRow, status: str, exit_code: int | None, reason: str, at: int, elapsed: float) -> Attempt:
    """The newest attempt of a run as it ends."""
    return Attempt(
        run=run.id, attempt=run.attempt, token=run.token, grant=run.grant, holder=run.holder, status=status,
        exit_code=exit_code, reason=reason, started=run.started or 0.0, ended=at / 1000, elapsed=elapsed,
    )  # fmt: skip


def _seen(run: RunRow) -> dict[str, object]:
    return {
        "id": run.id,
        "was_status": run.status,
        "was_attempt": run.attempt,
        "was_token": run.token,
        "was_grant": run.grant,
        "was_head": run.head,
    }
