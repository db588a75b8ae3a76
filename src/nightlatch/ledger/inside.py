"""Runs inside a run: one process that handles many pieces of work, each with its own key, steps and verdict.

They are begun and ended under the grant of the run around them, each by one statement: it advances the job's
chain where that is as it was left, and only if the run around still has this grant and the run is as it was seen.
"""

from __future__ import annotations

from ..core import states
from ..core.value import replace
from ..database.guarded import Table
from ..errors import RunEnded, StaleToken, UsageError
from ..system import clock
from .chain import clean, head_text, job_chain, link, pack
from .deciding import title
from .model import RUN, Run, Usage, run_of
from .opening import find, new_id
from .sealing import ATTEMPT, _attempt, _Entries, closed, stale
from .steps import STEP
from .tables import JOURNAL
from .writer import Writer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.model import Holder
    from ..database.guarded import Rows
    from .tables import Tables

_NUMBERS = (
    "attempt", "token", "exit_code", "created", "changed", "started", "ended", "due", "elapsed", "done", "total",
    "usd", "tokens", "calls", "units", "seq",
)  # fmt: skip
_COLUMNS = RUN.split(", ")
# What people write into a row, and what was used, stays as it is.
_KEPT = ("id", "job", "key", "created", "cancel", "usd", "tokens", "calls", "units", "parent")
_ROW = Table(
    "run",
    {name: "BIGINT" if name in _NUMBERS else "TEXT" for name in _COLUMNS},
    "ON CONFLICT (id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS if name not in _KEPT),
)

_ADVANCE = """
UPDATE {{prefix}}chain SET seq = :seq, head = :head WHERE name = :chain AND head = :was_chain
  AND EXISTS (SELECT 1 FROM {{prefix}}run WHERE id = :fence AND token = :token AND grant_id = :grant
              AND state = 'running' {share})
  AND (:id = '' OR EXISTS (SELECT 1 FROM {{prefix}}run WHERE id = :id AND head = :was {share}))
RETURNING seq
"""


class Inside:
    """Made by `Ledger.inside`. For one thread at a time."""

    def __init__(self, tables: Tables, watching: Tables, around: Writer) -> None:
        self._tables, self._watching, self._around = tables, watching, around.run
        self._skew = tables.now() / 1000 - clock.wall()
        self._chain = job_chain(around.run.job)
        self._update = _ADVANCE.format(share=tables.database.share)
        self._seq, self._head = self._look()

    def begin(self, key: str, holder: Holder) -> Writer | Run:
        """The writer of the key's next attempt; or the run, if it is done or waits for a person."""
        around = self._around
        while True:
            run = find(self._tables, around.job, key)
            at = self._now()
            if run and (run.id == around.id or (run.state == states.RUNNING and run.grant == around.grant)):
                raise UsageError(f"the key {key} of {around.job} is being worked on in this very run: {title(run)}")
            if run and (run.state == states.SUCCEEDED or states.needs_person(run.state)):
                return run
            if run and run.token >= around.token:
                raise stale(self._tables.database.identity(), run, around.token, around.grant)
            seen = run
            if run is None:
                run = self._new(key, at)
            entries, attempts = _Entries(run, at), []
            if seen is None:
                entries.add("opened", job=run.job, key=run.key, parent=run.parent)
            first = entries.seq, entries.head
            if run.state == states.RUNNING:
                entries.add("lost", attempt=run.attempt, token=run.token, holder=run.holder)
                attempts.append(_attempt(run, states.LOST, "its holder is gone", at))
            entries.add("started", attempt=run.attempt + 1, token=around.token, grant=around.grant, holder=holder)
            attempts.append(
                (run.id, run.attempt + 1, around.token, around.grant, holder.pack(), "running", None, "", at, None, 0)
            )
            begun = replace(
                run, state=states.RUNNING, attempt=run.attempt + 1, token=around.token, grant=around.grant,
                holder=holder, host=holder.host, changed=at / 1000, started=at / 1000, ended=None, due=None,
                exit_code=None, reason="", seq=entries.seq, head=entries.head, done=0, total=0, message="",
            )  # fmt: skip
            kind = "opened-again" if seen else "opened"
            # Not waited for: its first step, or its end, brings it to the disk, and without them nothing is promised.
            written = self._write(begun, kind, first, seen, entries, attempts, lazy=True)
            if written:
                return Writer(self._tables, self._watching, written, lost=run.state == states.RUNNING, skew=self._skew)

    def finish(self, writer: Writer, state: str, *, reason: str, elapsed: float, steps: Rows = ()) -> Run:
        """End it, with its last steps. `StaleToken`, `RunEnded`: nothing was written."""
        fence, at = writer._fence, self._now()
        while True:
            run = replace(writer.run, seq=fence.seq, head=fence.head)
            entries = _Entries(run, at)
            entries.add("ended", attempt=run.attempt, state=state, reason=reason or None, elapsed=elapsed)
            ended = replace(
                run, state=state, reason=clean(reason), elapsed=elapsed, changed=at / 1000, ended=at / 1000,
                exit_code=0 if state == states.SUCCEEDED else 1, seq=entries.seq, head=entries.head,
            )  # fmt: skip
            attempts = [_attempt(run, state, clean(reason), at)]
            written = self._write(ended, "ended", (entries.seq, entries.head), run, entries, attempts, steps)
            if written:
                return written
            now = fence.look()
            if (now.token, now.grant) != (run.token, run.grant):
                raise stale(self._tables.database.identity(), now, run.token, run.grant)
            if now.state != states.RUNNING:
                raise RunEnded(closed(now), now)

    def _write(
        self,
        run: Run,
        kind: str,
        place: tuple[int, str],
        seen: Run | None,
        entries: _Entries,
        attempts: Rows,
        steps: Rows = (),
        *,
        lazy: bool = False,
    ) -> Run | None:
        """The run's row, its attempts, its entries and the job's, at once; None if something has moved."""
        body = pack({"run": run.id, "attempt": run.attempt, "state": run.state, "seq": place[0], "head": place[1]})
        seq, at = self._seq + 1, entries.at
        head = link(self._head, self._chain, seq, at, kind, body)
        run = replace(run, anchor=head_text(self._chain, seq, head))
        values: dict[str, object] = {
            "chain": self._chain, "seq": seq, "head": head, "was_chain": self._head, "fence": self._around.id,
            "token": self._around.token, "grant": self._around.grant, "id": seen.id if seen else "",
            "was": seen.head if seen else "",
        }  # fmt: skip
        journal = [*entries.rows, (self._chain, seq, at, kind, body, head)]
        inserts = [(_ROW, [_row(run)]), (ATTEMPT, attempts), (JOURNAL, journal)]
        if self._tables.guarded(self._update, values, [*inserts, (STEP, steps)] if steps else inserts, lazy=lazy):
            self._seq, self._head = seq, head
            return run
        self._judge()
        return None

    def _judge(self) -> None:
        """Something missed: is it only that another wrote on the job's chain?"""
        around = run_of(self._tables.read(f"SELECT {RUN} FROM {{prefix}}run WHERE id = :id", id=self._around.id)[0])
        if (around.token, around.grant) != (self._around.token, self._around.grant):
            raise stale(self._tables.database.identity(), around, self._around.token, self._around.grant)
        if around.state != states.RUNNING:
            raise StaleToken(f"{title(around)} has ended: nothing more is recorded inside it")
        self._seq, self._head = self._look()

    def _look(self) -> tuple[int, str]:
        rows = self._tables.read("SELECT seq, head FROM {prefix}chain WHERE name = :chain", chain=self._chain)
        return rows[0][0], rows[0][1]  # the run around is on it

    def _now(self) -> int:
        return int((clock.wall() + self._skew) * 1000)

    def _new(self, key: str, at: int) -> Run:
        around = self._around
        return replace(
            around, id=new_id(), key=clean(key), slot="", command="", definition="", state=states.PENDING, attempt=0,
            token=0, grant="", cancel="", created=at / 1000, elapsed=0.0, usage=Usage(job=around.job), seq=0, head="",
            anchor="", parent=around.id,
        )  # fmt: skip


def _row(run: Run) -> tuple[object, ...]:
    """In the columns' order. What was used is written by nobody here."""
    given = {
        **run.__dict__, "grant_id": run.grant, "holder": run.holder.pack(), "usd": 0, "tokens": 0, "calls": 0,
        "units": 0, "elapsed": round(run.elapsed * 1000),
    }  # fmt: skip
    for moment in ("created", "changed", "started", "ended", "due"):
        given[moment] = None if given[moment] is None else round(given[moment] * 1000)
    return tuple(given[name] for name in _COLUMNS)
