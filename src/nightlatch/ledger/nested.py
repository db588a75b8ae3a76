"""Runs inside a run: one process that handles many pieces of work, each with its own key, steps and verdict.

They are begun and ended under the grant of the outer run. Nothing is written when a nested run begins: its beginning
is written with its first step, or with its end, so that a short piece of work costs two commits. Several nested runs
are written in one commit, only if the outer run still has this grant and every nested run is as it was last seen. Ends
are linked into the job's chain, which advances only from where this process last saw it.
"""

from __future__ import annotations

from ..core import statuses
from ..core.units import UNITS
from ..core.value import replace
from ..errors import RunEnded, StaleToken, StoreUnreachable, UsageError
from . import kinds, tally
from .chain import clean, head_text, job_chain, link
from .opening import find, new_id
from .records import ATTEMPT, ENTRY, RUN, Attempt, RunRow
from .run_fence import RunFence
from .sealing import RunEntries, ended_attempt, lost_attempt, stale, why_closed
from .step_chain import head_of
from .step_log import StepWriter
from .tally import TALLY, Tally
from .typed_table import TypedTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..core.model import Holder
    from .step_log import Step
    from .tables import Row, Tables

MOST = 8  # runs in one commit

# Never overwritten: the run's identity, what people write into its row, and what was used.
_KEPT = ("id", "job", "key", "created", "cancel", "parent", *UNITS)
_ROW = TypedTable(
    "run",
    RunRow,
    "ON CONFLICT (id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in RUN.columns if name not in _KEPT),
)

_OUTER = "id = :fence AND token = :token AND grant_id = :grant AND status = 'running'"
_SEEN = """
AND EXISTS (SELECT 1 FROM {prefix}run WHERE id = :id# AND head = :head# AND status = :status# AND attempt = :attempt#
            {share})"""
# The index is how many of the runs in the commit already had a row.
_CONDITIONS = [
    _OUTER + "".join(_SEEN.replace("#", str(number)) for number in range(seen)) + " {share}" for seen in range(MOST + 1)
]
_GUARDS = [f"SELECT id FROM {{prefix}}run WHERE {condition}" for condition in _CONDITIONS]
# The chain is locked before the runs, as everywhere: the runs are checked once the chain's row, `held`, is locked. (A
# condition that did not name `held` would be checked before that.)
_ADVANCES = [
    "UPDATE {prefix}chain SET seq = :seq, head = :head "
    "FROM (SELECT name AS held FROM {prefix}chain WHERE name = :chain AND head = :was {lock}) AS first "
    f"WHERE name = first.held AND EXISTS (SELECT id FROM {{prefix}}run WHERE first.held = :chain AND {condition}) "
    "RETURNING seq"
    for condition in _CONDITIONS
]
_EXISTS = "SELECT seq FROM {prefix}journal WHERE chain = :chain AND seq = :seq AND hash = :hash"


class NestedLedger:
    """Made by `Ledger.nested_runs`. For one thread at a time."""

    def __init__(self, tables: Tables, outer: RunRow) -> None:
        self._tables, self._outer = tables, outer
        self._skew = tables.skew()
        self._chain = job_chain(outer.job)
        self._seq, self._head = self._chain_head()

    def begin(self, key: str, holder: Holder) -> NestedRun | RunRow:
        """The key's next attempt, of which nothing is written yet; or the run, if it is done or waits for a person."""
        outer, run = self._outer, find(self._tables, self._outer.job, key)
        if run and (run.id == outer.id or (run.status == statuses.RUNNING and run.grant == outer.grant)):
            raise UsageError(f"the key {key} of {outer.job} is being worked on in this very run: {run.title}")
        if run and (run.status == statuses.SUCCEEDED or statuses.needs_person(run.status)):
            return run
        if run and (run.token > outer.token or (run.token == outer.token and run.grant != outer.grant)):
            raise stale(self._tables.database.identity(), run, outer.token, outer.grant)
        at = int((self._tables.local_now() + self._skew) * 1000)
        return NestedRun(self._tables, outer, run or self._new(key, at), holder, at, self._skew)

    def commit(self, writes: Sequence[PendingWrite], *, lazy: bool = False) -> None:
        """Commit these writes; durable when this returns. After `StaleToken` or `RunEnded` nothing was written."""
        if len(writes) > MOST:
            raise ValueError(f"{len(writes)} runs are too many for one commit: at most {MOST}")
        while writes:
            try:
                written, begun = self._write(writes, lazy), False
            except StoreUnreachable:
                written = self._is_written(writes)  # only the reply may have been lost
                begun = not written and (self._has_begun(writes) or self._was_opened(writes))
                if not written and not begun:
                    raise
            if written:
                break
            RunFence(self._tables, self._outer, self._skew).check()
            if begun or self._has_begun(writes):
                writes = [write for write in (write.again() for write in writes) if write.journal]
            for write in writes:
                self._judge(write)
            self._seq, self._head = self._chain_head()  # only the job's chain has changed: another process wrote to it
        for write in writes:
            write.nested.note_commit(write)

    def _write(self, writes: Sequence[PendingWrite], lazy: bool) -> bool:
        """Returns False, and has written nothing, if a run or the job's chain has changed."""
        seq, head, rows, journal, attempts = self._seq, self._head, [], [], []
        ended: list[Tally] = []
        for write in writes:
            for kind, facts in write.links:
                seq, body = seq + 1, kinds.body(kind, kinds.JOB, facts)
                head = link(head, self._chain, seq, write.at, kind, body)
                journal.append((self._chain, seq, write.at, str(kind), body, head))
            if write.links:
                write.run = replace(write.run, anchor=head_text(self._chain, seq, head))
            rows.append(_ROW.row(write.run))
            journal += write.journal
            attempts += write.attempts
            for attempt in write.attempts:
                if attempt.ended is not None:
                    run_ended, day = attempt.attempt == write.run.attempt, self._tables.day(write.at)
                    ended.append(tally.of_attempt(write.run, day, attempt.status, attempt.elapsed, run_ended=run_ended))
        seen = [write for write in writes if write.was.head]
        values: dict[str, object] = {
            "chain": self._chain, "seq": seq, "head": head, "was": self._head, "fence": self._outer.id,
            "token": self._outer.token, "grant": self._outer.grant,
        }  # fmt: skip
        for number, write in enumerate(seen):
            was = {"head": write.was.head, "status": write.was.status, "attempt": write.was.attempt}
            values |= {f"{word}{number}": what for word, what in {"id": write.run.id, **was}.items()}
        counted = list(map(TALLY.row, tally.merged_by_key(ended)))
        tables = ((_ROW, rows), (ATTEMPT, list(map(ATTEMPT.row, attempts))), (ENTRY, journal), (TALLY, counted))
        inserts = [(table, new) for table, new in tables if new]
        guard = (_GUARDS if seq == self._seq else _ADVANCES)[len(seen)]
        hit = bool(self._tables.guarded(guard, values, inserts, lazy=lazy))
        if hit:
            self._seq, self._head = seq, head
        return hit

    def _is_written(self, writes: Sequence[PendingWrite]) -> bool:
        """Is the last entry of each write in the journal? A commit is there as a whole, or not at all."""
        last = (dict(zip(ENTRY.columns, write.journal[-1], strict=True)) for write in writes)
        return all(
            self._tables.read(_EXISTS, chain=entry["chain"], seq=entry["seq"], hash=entry["hash"]) for entry in last
        )

    def _has_begun(self, writes: Sequence[PendingWrite]) -> bool:
        """Was a beginning written after all, though the reply was lost? Then it is not written again."""
        found = False
        for nested in (write.nested for write in writes if write.nested.unwritten):
            now = self._found(nested.run)
            if now and (now.head, now.token, now.grant) == (nested.run.head, nested.run.token, nested.run.grant):
                nested.unwritten, found = None, True
        return found

    def _was_opened(self, writes: Sequence[PendingWrite]) -> bool:
        """Has a person opened a run for the same key before ours was written? It waits for the lease, which we have, so
        it is begun instead of ours."""
        found = False
        for nested in (write.nested for write in writes if not write.was.head):
            other = find(self._tables, nested.run.job, nested.run.key)
            if other is None or other.id == nested.run.id:
                continue
            if other.attempt or not statuses.may_seal(other.status):
                raise RunEnded(why_closed(other), other)
            nested.begin_as(other)
            found = True
        return found

    def _judge(self, write: PendingWrite) -> None:
        """Raise if the nested run has changed since it was seen."""
        if not write.was.head:
            return
        now, was = self._found(write.run), write.was
        if now is None:
            raise StaleToken(f"{write.run.title} is gone: retention has removed it. Nothing was written")
        if (now.head, now.status, now.attempt) == (was.head, was.status, was.attempt):
            return
        if (now.token, now.grant) in ((write.run.token, write.run.grant), (was.token, was.grant)):
            raise RunEnded(why_closed(now), now)
        raise stale(self._tables.database.identity(), now, write.run.token, write.run.grant)

    def _found(self, run: RunRow) -> RunRow | None:
        return self._tables.first(RUN, "WHERE id = :id", id=run.id)

    def _chain_head(self) -> tuple[int, str]:
        ((seq, head),) = self._tables.read("SELECT seq, head FROM {prefix}chain WHERE name = :chain", chain=self._chain)
        return seq, head  # the chain exists: the outer run is linked there

    def _new(self, key: str, at: int) -> RunRow:
        outer = self._outer
        return RunRow(
            id=new_id(), job=outer.job, key=clean(key), host=outer.host, holder=outer.holder, created=at / 1000,
            changed=at / 1000, parent=outer.id,
        )  # fmt: skip


class PendingWrite:
    """What is to be written for a nested run: its row as it will be, its entries and attempts."""

    def __init__(self, nested: NestedRun, run: RunRow, was: RunRow, at: int) -> None:
        self.nested, self.run, self.at = nested, run, at
        self.was = was  # the row as it was last seen
        self.again: Callable[[], PendingWrite] = lambda: self  # composes this write anew, from the run as it is now
        self.links: list[tuple[str, dict[str, object]]] = []  # on the job's chain: kind, facts
        self.journal: list[Row] = []
        self.attempts: list[Attempt] = []
        self.steps: list[Row] = []


class NestedRun:
    """One attempt of a nested run."""

    def __init__(self, tables: Tables, outer: RunRow, seen: RunRow, holder: Holder, at: int, skew: float) -> None:
        self._tables, self._outer, self._holder, self._at, self._skew = tables, outer, holder, at, skew
        self.begin_as(seen)

    def begin_as(self, seen: RunRow) -> None:
        """Compose the next attempt of the run `seen`; nothing of it is written yet."""
        tables, outer, holder, at = self._tables, self._outer, self._holder, self._at
        entries = RunEntries(seen, at)
        fresh, self.lost = not seen.head, seen.status == statuses.RUNNING
        if fresh:
            entries.add(kinds.OPENED, job=seen.job, key=seen.key, parent=seen.parent)
        attempts = [lost_attempt(seen, at)] if self.lost else []
        links: list[tuple[str, dict[str, object]]] = []
        if self.lost:
            links = [(str(kinds.LOST), {"run": seen.id, **entries.lose(seen, head_of(tables.read, seen.id))})]
        number = seen.attempt + 1
        facts = {"attempt": number, "token": outer.token, "grant": outer.grant, "holder": holder, "host": holder.host}
        entries.add(kinds.STARTED, **facts)
        attempts.append(
            Attempt(run=seen.id, attempt=number, token=outer.token, grant=outer.grant, holder=holder, started=at / 1000)
        )
        self.run = replace(
            seen, status=statuses.RUNNING, attempt=number, token=outer.token, grant=outer.grant, holder=holder,
            host=holder.host, changed=at / 1000, started=at / 1000, ended=None, due=None, exit_code=None, reason="",
            seq=entries.seq, head=entries.head, done=0, total=0, message="",
        )  # fmt: skip
        self._steps = StepWriter(tables, self.run, self._skew, outer)
        self.unwritten: PendingWrite | None = PendingWrite(self, self.run, seen, at)
        self.unwritten.links, self.unwritten.journal, self.unwritten.attempts = links, list(entries.rows), attempts

    @property
    def chain(self) -> str:
        return self._steps.chain

    def append(self, steps: Sequence[Step]) -> None:
        """Append steps in one commit, to a run whose beginning is written."""
        self._steps.append(steps)

    def beginning(self, steps: Sequence[Step] = ()) -> PendingWrite:
        """The write of the run's beginning, with its first steps."""
        write = self._next_write()
        write.steps = self._steps.rows(steps, write.at)
        write.journal += write.steps
        write.again = lambda: self.beginning(steps)
        return write

    def ending(
        self, status: str, *, reason: str, elapsed: float, steps: Sequence[Step] = (), traceback: str = ""
    ) -> PendingWrite:
        """The write of the run's end, with its last steps, and with its beginning if that is not written yet."""
        write = self._next_write()
        write.steps = self._steps.rows(steps, write.at)
        entries = RunEntries(write.run, write.at)
        if traceback:
            entries.add(kinds.EXCEPTION, traceback=traceback)
        head = self._steps.head_after(write.steps)
        code = 0 if status == statuses.SUCCEEDED else 1
        facts = {"attempt": self.run.attempt, "status": status, "exit_code": code, "reason": reason or None}
        entries.add(kinds.ENDED, **facts, elapsed=elapsed, steps=head)
        write.run = replace(
            write.run, status=status, reason=clean(reason), elapsed=elapsed, changed=write.at / 1000,
            ended=write.at / 1000, exit_code=code, seq=entries.seq, head=entries.head,
        )  # fmt: skip
        write.links.append((kinds.ENDED, _link(write.run, entries.seq, entries.head)))
        write.journal += [*entries.rows, *write.steps]
        write.attempts = [*write.attempts[:-1], ended_attempt(self.run, status, code, clean(reason), write.at, elapsed)]
        more = {"reason": reason, "traceback": traceback}
        write.again = lambda: self.ending(status, elapsed=elapsed, steps=steps, **more)
        return write

    def note_commit(self, write: PendingWrite) -> None:
        """Take note that `write` was committed."""
        self._steps.note_commit(write.steps)
        self.run, self.unwritten = write.run, None

    def _next_write(self) -> PendingWrite:
        at = int((self._tables.local_now() + self._skew) * 1000)
        write, before = PendingWrite(self, self.run, self.run, at), self.unwritten
        if before:
            write.was = before.was
            write.links, write.journal, write.attempts = list(before.links), list(before.journal), list(before.attempts)
        return write


def _link(run: RunRow, seq: int, head: str) -> dict[str, object]:
    return {"run": run.id, "attempt": run.attempt, "status": run.status, "seq": seq, "head": head}
