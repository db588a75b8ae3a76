"""Runs inside a run: one process that handles many pieces of work, each with its own key, steps and verdict.

They are begun and ended under the grant of the outer run. Nothing is written when one is begun: its
beginning goes with its first step, or with its end, so that a short piece of work costs two commits. What several of
them have to write is one commit, made only if the outer run still has this grant and every run is as it was seen. Ends
are linked into the job's chain, which advances only from where this process left it.
"""

from __future__ import annotations

from ..core import statuses
from ..core.units import UNITS
from ..core.value import replace
from ..errors import RunEnded, StaleToken, StoreUnreachable, UsageError
from ..system import clock
from . import kinds, tally
from .chain import clean, head_text, job_chain, link
from .decisions import title
from .opening import find, new_id
from .records import ATTEMPT, ENTRY, RUN, Attempt, RunRow
from .run_fence import RunFence
from .sealing import RunEntries, closed, ended_attempt, lost_attempt, stale
from .step_chain import head_of
from .step_log import StepWriter
from .tally import TALLY
from .typed_table import TypedTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..core.model import Holder
    from .step_log import Step
    from .tables import Row, Tables
    from .tally import Tally

MOST = 8  # runs in one commit

# What people write into a row, and what was used, stays as it is.
_KEPT = ("id", "job", "key", "created", "cancel", "parent", *UNITS)
_ROW = TypedTable(
    "run",
    RunRow,
    "ON CONFLICT (id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in RUN.columns if name not in _KEPT),
)

_HOLDS = "id = :fence AND token = :token AND grant_id = :grant AND status = 'running'"
_SEEN = """
AND EXISTS (SELECT 1 FROM {prefix}run WHERE id = :id# AND head = :head# AND status = :status# AND attempt = :attempt#
            {share})"""
# By the number of runs that existed before.
_CONDITIONS = [
    _HOLDS + "".join(_SEEN.replace("#", str(number)) for number in range(seen)) + " {share}" for seen in range(MOST + 1)
]
_GUARDS = [f"SELECT id FROM {{prefix}}run WHERE {condition}" for condition in _CONDITIONS]
# The chain is locked before the runs, as everywhere: the runs are checked for each row of `held`, once it is locked. (A
# condition that did not name `held` would be checked before.)
_ADVANCES = [
    "UPDATE {prefix}chain SET seq = :seq, head = :head "
    "FROM (SELECT name AS held FROM {prefix}chain WHERE name = :chain AND head = :was {lock}) AS first "
    f"WHERE name = first.held AND EXISTS (SELECT id FROM {{prefix}}run WHERE first.held = :chain AND {condition}) "
    "RETURNING seq"
    for condition in _CONDITIONS
]
_THERE = "SELECT seq FROM {prefix}journal WHERE chain = :chain AND seq = :seq AND hash = :hash"


class NestedLedger:
    """Made by `Ledger.nested_runs`. For one thread at a time."""

    def __init__(self, tables: Tables, outer: RunRow) -> None:
        self._tables, self._outer = tables, outer
        self._skew = tables.now() / 1000 - clock.wall()
        self._chain = job_chain(outer.job)
        self._seq, self._head = self._look()

    def begin(self, key: str, holder: Holder) -> NestedRun | RunRow:
        """The key's next attempt, of which nothing is written yet; or the run, if it is done or waits for a person."""
        outer, run = self._outer, find(self._tables, self._outer.job, key)
        if run and (run.id == outer.id or (run.status == statuses.RUNNING and run.grant == outer.grant)):
            raise UsageError(f"the key {key} of {outer.job} is being worked on in this very run: {title(run)}")
        if run and (run.status == statuses.SUCCEEDED or statuses.needs_person(run.status)):
            return run
        if run and (run.token > outer.token or (run.token == outer.token and run.grant != outer.grant)):
            raise stale(self._tables.database.identity(), run, outer.token, outer.grant)
        at = int((clock.wall() + self._skew) * 1000)
        return NestedRun(self._tables, outer, run or self._new(key, at), holder, at, self._skew)

    def commit(self, dues: Sequence[PendingWrite], *, lazy: bool = False) -> None:
        """All of it, durable when this returns. `StaleToken`, `RunEnded`: nothing was written."""
        if len(dues) > MOST:
            raise ValueError(f"{len(dues)} runs are too many for one commit: at most {MOST}")
        while dues:
            try:
                hit, begun = self._write(dues, lazy), False
            except StoreUnreachable:
                hit = self._is_written(dues)  # only the reply may have been lost
                begun = not hit and (self._has_begun(dues) or self._was_opened(dues))
                if not hit and not begun:
                    raise
            if hit:
                break
            RunFence(self._tables, self._outer, self._skew).check()
            if begun or self._has_begun(dues):
                dues = [due for due in (due.again() for due in dues) if due.journal]
            for due in dues:
                self._judge(due)
            self._seq, self._head = self._look()  # only the job's chain has moved: another process wrote to it
        for due in dues:
            due.of.went_on(due)

    def _write(self, dues: Sequence[PendingWrite], lazy: bool) -> bool:
        """False if something has moved."""
        seq, head, rows, journal, attempts = self._seq, self._head, [], [], []
        ended: list[Tally] = []
        for due in dues:
            for kind, facts in due.links:
                seq, body = seq + 1, kinds.body(kind, kinds.JOB, facts)
                head = link(head, self._chain, seq, due.at, kind, body)
                journal.append((self._chain, seq, due.at, str(kind), body, head))
            if due.links:
                due.run = replace(due.run, anchor=head_text(self._chain, seq, head))
            rows.append(_ROW.row(due.run))
            journal += due.journal
            attempts += due.attempts
            for attempt in due.attempts:
                if attempt.ended is not None:
                    run_ended, day = attempt.attempt == due.run.attempt, self._tables.day(due.at)
                    ended.append(tally.of_attempt(due.run, day, attempt.status, attempt.elapsed, run_ended=run_ended))
        seen = [due for due in dues if due.was.head]
        values: dict[str, object] = {
            "chain": self._chain, "seq": seq, "head": head, "was": self._head, "fence": self._outer.id,
            "token": self._outer.token, "grant": self._outer.grant,
        }  # fmt: skip
        for number, due in enumerate(seen):
            was = {"head": due.was.head, "status": due.was.status, "attempt": due.was.attempt}
            values |= {f"{word}{number}": what for word, what in {"id": due.run.id, **was}.items()}
        counted = list(map(TALLY.row, tally.together(ended)))
        tables = ((_ROW, rows), (ATTEMPT, list(map(ATTEMPT.row, attempts))), (ENTRY, journal), (TALLY, counted))
        inserts = [(table, new) for table, new in tables if new]
        guard = (_GUARDS if seq == self._seq else _ADVANCES)[len(seen)]
        hit = bool(self._tables.guarded(guard, values, inserts, lazy=lazy))
        if hit:
            self._seq, self._head = seq, head
        return hit

    def _is_written(self, dues: Sequence[PendingWrite]) -> bool:
        """Is the last entry of each there? All of a commit is, or nothing."""
        last = (dict(zip(ENTRY.columns, due.journal[-1], strict=True)) for due in dues)
        return all(
            self._tables.read(_THERE, chain=entry["chain"], seq=entry["seq"], hash=entry["hash"]) for entry in last
        )

    def _has_begun(self, dues: Sequence[PendingWrite]) -> bool:
        """Has a beginning landed after all, though the reply was lost? Then it is not written again."""
        found = False
        for nested in (due.of for due in dues if due.of.unwritten):
            now = self._found(nested.run)
            if now and (now.head, now.token, now.grant) == (nested.run.head, nested.run.token, nested.run.grant):
                nested.unwritten, found = None, True
        return found

    def _was_opened(self, dues: Sequence[PendingWrite]) -> bool:
        """Has a person opened a run for a key whose own run is not written yet? It waits for the lease, which we have:
        so that run is begun instead."""
        found = False
        for nested in (due.of for due in dues if not due.was.head):
            other = find(self._tables, nested.run.job, nested.run.key)
            if other is None or other.id == nested.run.id:
                continue
            if other.attempt or not statuses.may_seal(other.status):
                raise RunEnded(closed(other), other)
            nested.begin_as(other)
            found = True
        return found

    def _judge(self, due: PendingWrite) -> None:
        if not due.was.head:
            return
        now, was = self._found(due.run), due.was
        if now is None:
            raise StaleToken(f"{title(due.run)} is gone: retention has removed it. Nothing was written")
        if (now.head, now.status, now.attempt) == (was.head, was.status, was.attempt):
            return
        if (now.token, now.grant) in ((due.run.token, due.run.grant), (was.token, was.grant)):
            raise RunEnded(closed(now), now)
        raise stale(self._tables.database.identity(), now, due.run.token, due.run.grant)

    def _found(self, run: RunRow) -> RunRow | None:
        return self._tables.first(RUN, "WHERE id = :id", id=run.id)

    def _look(self) -> tuple[int, str]:
        ((seq, head),) = self._tables.read("SELECT seq, head FROM {prefix}chain WHERE name = :chain", chain=self._chain)
        return seq, head  # the outer run is on it

    def _new(self, key: str, at: int) -> RunRow:
        outer = self._outer
        return RunRow(
            id=new_id(), job=outer.job, key=clean(key), host=outer.host, holder=outer.holder, created=at / 1000,
            changed=at / 1000, parent=outer.id,
        )  # fmt: skip


class PendingWrite:
    """What is to be written for a nested run: its row as it will be, and what goes with it."""

    def __init__(self, of: NestedRun, run: RunRow, was: RunRow, at: int) -> None:
        self.of, self.run, self.at = of, run, at
        self.was = was  # as it was seen
        self.again: Callable[[], PendingWrite] = lambda: self  # composed anew, from its run as it is now
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
        """The next attempt of the run that was found; nothing of it is written yet."""
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
        """In one commit; for a run whose beginning is written."""
        self._steps.append(steps)

    def beginning(self, steps: Sequence[Step] = ()) -> PendingWrite:
        """What was not written yet, and its first steps."""
        due = self._due()
        due.steps = self._steps.rows(steps, due.at)
        due.journal += due.steps
        due.again = lambda: self.beginning(steps)
        return due

    def ending(
        self, status: str, *, reason: str, elapsed: float, steps: Sequence[Step] = (), traceback: str = ""
    ) -> PendingWrite:
        """Its end, with its last steps."""
        due = self._due()
        due.steps = self._steps.rows(steps, due.at)
        entries = RunEntries(due.run, due.at)
        if traceback:
            entries.add(kinds.EXCEPTION, traceback=traceback)
        head = self._steps.head_after(due.steps)
        code = 0 if status == statuses.SUCCEEDED else 1
        facts = {"attempt": self.run.attempt, "status": status, "exit_code": code, "reason": reason or None}
        entries.add(kinds.ENDED, **facts, elapsed=elapsed, steps=head)
        due.run = replace(
            due.run, status=status, reason=clean(reason), elapsed=elapsed, changed=due.at / 1000, ended=due.at / 1000,
            exit_code=code, seq=entries.seq, head=entries.head,
        )  # fmt: skip
        due.links.append((kinds.ENDED, _link(due.run, entries.seq, entries.head)))
        due.journal += [*entries.rows, *due.steps]
        due.attempts = [*due.attempts[:-1], ended_attempt(self.run, status, code, clean(reason), due.at, elapsed)]
        more = {"reason": reason, "traceback": traceback}
        due.again = lambda: self.ending(status, elapsed=elapsed, steps=steps, **more)
        return due

    def went_on(self, due: PendingWrite) -> None:
        """It is written."""
        self._steps.went_on(due.steps)
        self.run, self.unwritten = due.run, None

    def _due(self) -> PendingWrite:
        at = int((clock.wall() + self._skew) * 1000)
        due, before = PendingWrite(self, self.run, self.run, at), self.unwritten
        if before:
            due.was = before.was
            due.links, due.journal, due.attempts = list(before.links), list(before.journal), list(before.attempts)
        return due


def _link(run: RunRow, seq: int, head: str) -> dict[str, object]:
    return {"run": run.id, "attempt": run.attempt, "status": run.status, "seq": seq, "head": head}
