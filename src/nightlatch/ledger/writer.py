"""A run's one writer: every verb checks token, grant and head where it writes, in the same statement."""

from __future__ import annotations

from ..core import statuses
from ..core.units import UNITS, Amounts
from ..core.value import replace
from ..errors import RunEnded, UsageError
from . import kinds
from .chain import clean, link
from .group_commit import GroupCommit
from .records import ENTRY, RUN, USED, RunRow
from .run_fence import WHERE, RunFence
from .step_chain import head_of
from .typed_table import amounts as amounts_of
from .typed_table import counts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from ..database.guarded import Rows, Table
    from .step_log import StepWriter
    from .tables import Tables

    Records = Sequence[tuple[Table, Rows]]

NOTHING: dict[str, str] = {}  # nothing is known about a usage report
_ABOUT = tuple(USED.columns)[-6:]  # model, kind, source, item, tag, agent
_NOTHING_KNOWN = ("",) * len(_ABOUT)

_PROGRESS = ", done = :done, total = :total, message = :message"
_USED = "".join(f", {unit} = {unit} + :{unit}" for unit in UNITS)
_ADVANCE = {  # by (there is progress, there is usage)
    (moved, used): "UPDATE {prefix}run SET seq = :seq, head = :head"
    + (_PROGRESS if moved else "")
    + (_USED if used else "")
    + f" {WHERE} {{matched}}"
    for moved in (False, True)
    for used in (False, True)
}

_FINISH = f"""
UPDATE {{prefix}}run SET seq = :seq, head = :head, status = :status, exit_code = CAST(:exit_code AS BIGINT),
  reason = :reason, elapsed = :elapsed, changed = :at, ended = :at, due = CAST(:due AS BIGINT), anchor = :anchor,
  held = CAST(:held AS BIGINT), approved = CASE WHEN :keep_plan = 1 THEN approved ELSE '' END, uncounted = :uncounted
{WHERE} {{run_row}}
"""
_END = """
UPDATE {prefix}attempt SET status = :status, exit_code = CAST(:exit_code AS BIGINT), reason = :reason, ended = :at,
  elapsed = :elapsed
WHERE run = :id AND attempt = :attempt
"""


_MOMENT = 2.0  # seconds that the run's other bounds may wait for the read of a cancel request


class Writer:
    """Made by `Ledger.seal`. Any thread may call it; verbs called at the same time are committed together.

    A verb is durable when it returns. `StaleToken`: a newer holder has sealed the run, and nothing was
    written. `RunEnded`: the run has ended. `StoreUnreachable`: nobody knows whether it was written.
    """

    def __init__(self, tables: Tables, watching: Tables, run: RunRow, *, lost: bool, skew: float) -> None:
        self.run = run  # as it was sealed
        self.lost = lost  # the attempt before this one was left behind by its holder: it may have acted
        self.tag = ""  # for usage that is reported without one
        self._tables, self._watching = tables, watching
        self._fence = RunFence(tables, run, skew)
        self._commits = GroupCommit(self._write)
        # What the run has used, in whole parts: only its writer adds to that. None: the run's row is to be asked, since
        # a commit was not confirmed, and may have landed after all.
        self._used: dict[str, int] | None = counts(run.usage.by_unit() if run.usage != Amounts() else {})
        self._used_after: dict[str, int] | None = None  # `_used` after the commit that is being written
        self._ended: RunRow | None = None  # as `finish` left it
        self._steps: StepWriter | None = None
        self._child_writes_steps = False  # a process of the run appends steps too

    def event(self, kind: str, /, **facts: object) -> None:
        """Put an entry of a declared kind into the run's journal. Facts are kept as text; None is left out."""
        self._commits.take(Verb(kind, facts))

    def progress(self, done: int, total: int = 0, message: str = "") -> None:
        """Record how far the run is; a total of 0 means unknown."""
        verb = Verb(kinds.PROGRESS, {"done": done, "total": total or None, "message": message or None})
        verb.progress = {"done": done, "total": total, "message": clean(message)}
        self._commits.take(verb)

    def usage(self, about: Mapping[str, str] = NOTHING, /, **amounts: float) -> Amounts:
        """Record how much was used of each unit. Returns what this run has used, all attempts together.

        `about` may name the model, the kind of token, the source of the figure, the item or step, and a tag.
        """
        self.take(self.used(amounts, about))
        return amounts_of(self._used) if self._used else self._fence.look().usage

    def used(self, amounts: Mapping[str, float], about: Mapping[str, str] = NOTHING, **facts: object) -> Verb:
        """A report of usage as a verb for `take`."""
        parts = counts(amounts)
        if about or self.tag:
            about = {name: clean(text) for name, text in {"tag": self.tag, **about}.items() if text}
        verb = Verb(kinds.USAGE, {**amounts, **about, **facts})
        verb.counts, verb.about = parts, about
        return verb

    def take(self, *verbs: Verb) -> None:
        """Write the verbs in one commit. After `StoreUnreachable` usage may be passed again: it is written once."""
        self._commits.take(*verbs)

    def record(self, kind: str, records: Records, /, **facts: object) -> None:
        """Put rows into tables of the ledger, and an entry, in the commit that checks the token.

        A row that violates a constraint fails every verb of that commit: give its table an ON CONFLICT tail.
        """
        verb = Verb(kind, facts)
        verb.records = records
        self._commits.take(verb)

    @property
    def steps(self) -> StepWriter:
        """The writer of the run's steps, on their chain."""
        from .step_log import StepWriter

        if self._steps is None:
            self._steps = StepWriter(self._tables, self.run, self._fence.skew)
        return self._steps

    def let_child_write_steps(self) -> None:
        """From now on a process of the run may write steps itself."""
        self.event(kinds.LENT)
        self._child_writes_steps = True

    def finish(
        self,
        status: str,
        *,
        exit_code: int | None = None,
        reason: str = "",
        elapsed: float = 0.0,
        again_at: float | None = None,
        doubt: bool = False,
        tries: int | None = None,
        held: float | None = None,
        uncounted: str = "",
    ) -> RunRow:
        """End the attempt as `status`, and the run with it. With `again_at` the run waits until then for its next
        attempt, with `held` until then for an approval; with `doubt` it is in doubt: the attempt may have acted, and a
        person decides. `uncounted`: this end, as the job's row is to count it.

        The verdict of an ended run is never overwritten. Called again after `StoreUnreachable`, it settles
        what became of the first call.
        """
        if status in statuses.OPEN or not statuses.may_follow(statuses.RUNNING, status):
            ends = ", ".join((*statuses.TERMINAL, *statuses.NEEDS_PERSON))
            raise UsageError(f"an attempt cannot end as {status!r}: use one of {ends}")
        body = kinds.body(
            kinds.ENDED,
            kinds.RUN,
            {
                "attempt": self.run.attempt,
                "status": status,
                "exit_code": exit_code,
                "reason": reason or None,
                "elapsed": elapsed,
                "again_at": again_at,
                "doubt": doubt or None,
                "tries": tries,
                "held": held,
                "steps": head_of(self._tables.read, self.run.id) if self._steps or self._child_writes_steps else None,
            },
        )
        values: dict[str, Any] = {
            "exit_code": exit_code,
            "reason": clean(reason),
            "elapsed": round(elapsed * 1000),
            "due": None if again_at is None else round(again_at * 1000),
            "held": None if held is None else round(held * 1000),
            "keep_plan": int(status in statuses.KEEPS_APPROVAL),
            "uncounted": uncounted,
        }
        waits = again_at is not None or held is not None
        run_status = statuses.WAITING if waits else statuses.IN_DOUBT if doubt else status
        with self._commits.exclusive():
            try:
                self._fence.advance(lambda seq, head: self._ending(seq + 1, head, status, run_status, body, values))
            except RunEnded as ended:
                if not self._fence.was_mine(ended.run):
                    raise
                return ended.run
            return self._ended or self._fence.look()

    def now(self) -> float:
        """The ledger's clock, in seconds."""
        return self._fence.now() / 1000

    def cancel_requested(self) -> str | None:
        """The person that requested the run's end; None: nobody. Reads one row, and waits for no writer."""
        sql = "SELECT cancel FROM {prefix}run WHERE id = :id"
        rows = self._watching.read(sql, patience=_MOMENT, id=self.run.id)
        return rows[0][0] or None if rows else None

    def _write(self, batch: Sequence[Verb]) -> None:
        """Write the verbs, in their order, in one commit."""
        self._used_after = None
        try:
            self._fence.advance(lambda seq, head: self._composed(seq, head, batch))
        finally:
            self._used = self._used_after

    def _composed(self, seq: int, head: str, batch: Sequence[Verb]) -> tuple[int, str, Callable[[], bool]]:
        run, at, values = self.run, self._fence.now(), self._fence.values()
        rows: dict[Table, list[tuple[object, ...]]] = {ENTRY: []}
        added: dict[str, int] = {}  # usage, in whole parts
        if self._fence.landed:
            batch = [verb for verb in batch if not verb.heads & self._fence.landed]
        if not batch:
            return seq, head, lambda: True
        for verb in batch:
            seq += 1
            head = link(head, run.id, seq, at, verb.kind, verb.body)
            rows[ENTRY].append((run.id, seq, at, verb.kind, verb.body, head))
            values |= verb.progress
            if verb.counts:
                about = [verb.about.get(name, "") for name in _ABOUT] if verb.about else _NOTHING_KNOWN
                row = run.id, seq, run.job, at, *verb.counts.values(), run.attempt, *about
                rows.setdefault(USED, []).append(row)
                added = {unit: added[unit] + count for unit, count in verb.counts.items()} if added else verb.counts
            for table, more in verb.records:
                rows.setdefault(table, []).extend(more)
        for verb in batch:
            if verb.counts:
                verb.heads.add(head)
        update = _ADVANCE["done" in values, bool(added)]
        values |= {"seq": seq, "head": head, **added}

        def write() -> bool:
            hit = bool(self._tables.guarded(update, values, list(rows.items())))
            if hit and self._used:
                self._used_after = {unit: count + added.get(unit, 0) for unit, count in self._used.items()}
            return hit

        return seq, head, write

    def _ending(
        self, seq: int, head: str, status: str, run_status: str, body: str, values: dict[str, Any]
    ) -> tuple[int, str, Callable[[], bool]]:
        """`status` is the attempt's, `run_status` the run's."""
        from . import tally

        run, at = self.run, self._fence.now()
        head = link(head, run.id, seq, at, kinds.ENDED, body)
        elapsed = values["elapsed"] / 1000
        values = self._fence.values() | values | {"seq": seq, "head": head, "at": at, "attempt": run.attempt}

        def write() -> bool:
            try:
                with self._tables.on_chain(run.job) as chain:
                    anchor = chain.append(
                        kinds.ENDED, run=run.id, attempt=run.attempt, status=run_status, seq=seq, head=head
                    )
                    hit = chain(_FINISH, **values, status=run_status, anchor=anchor)
                    if not hit:
                        raise _Missed  # rolls the link back
                    self._ended = RUN.read(hit[0])
                    chain.later(_END, **values, status=status)
                    chain.enter(run.id, seq, str(kinds.ENDED), body, head, at)
                    tally.close_attempt(
                        self._tables, chain, replace(run, done=self._ended.done), status, at=at,
                        elapsed=elapsed, run_ended=run_status != statuses.WAITING,
                        used=self._used is None or any(self._used.values()),
                    )  # fmt: skip
            except _Missed:
                return False
            return True

        return seq, head, write


class Verb:
    """One call of a verb, to be written in a commit."""

    def __init__(self, kind: str, facts: dict[str, object]) -> None:
        self.kind, self.facts, self.body = str(kind), facts, kinds.body(kind, kinds.RUN, facts)
        self.heads: set[str] = set()  # the run's head after each commit with this verb that was tried
        self.progress: dict[str, object] = {}
        self.counts: dict[str, int] = {}
        self.about: Mapping[str, str] = NOTHING
        self.records: Records = ()


class _Missed(Exception):
    """The run's row is not as the writer left it."""
