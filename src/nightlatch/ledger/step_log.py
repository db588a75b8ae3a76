"""A run's steps: a separate chain of the journal, to which nothing but steps is appended.

The entry is the step: no row is changed and no index kept for it, so that a checkpoint costs what an INSERT
costs. The run's row is the fence, read in the statement that appends; and since a chain has one entry of each
number, two writers cannot both append the next one. The head goes into the run's own chain when the run ends.
"""

from __future__ import annotations

from . import kinds, step_chain
from .chain import clean, head_text, line, link, storable, unpack
from .records import ENTRY, Entry, RunRow
from .run_fence import RunFence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .tables import Row, Tables

    Step = tuple[str, str, str, int, str, str]  # digest, key, status, tries, result, reason

_STATUS = {str(kind): status for status, kind in kinds.STEP.items()}  # by kind

_RESULT = "\nresult="  # the rest of the body is the result, not escaped
_HEX = frozenset("0123456789abcdef")
_PAGE = 5_000  # entries in one page: results may be long
_NEXT_PAGE = """
SELECT seq, kind, body FROM {prefix}journal WHERE chain = :chain AND seq > :after ORDER BY seq LIMIT :most
"""
_ENTRIES = f"{ENTRY.select} WHERE chain = :chain ORDER BY seq"
_NEWEST_OF_STEP = """
SELECT body FROM {prefix}journal WHERE chain = :chain AND kind = :kind AND body LIKE :begin ORDER BY seq DESC LIMIT 1
"""

# The next number must be free: a commit of this writer whose reply was lost may have landed meanwhile.
_FENCE = """
SELECT id FROM {prefix}run WHERE id = :id AND token = :token AND grant_id = :grant AND status = 'running'
  AND NOT EXISTS (SELECT 1 FROM {prefix}journal WHERE chain = :chain AND seq = :next)
"""
_OUTER = """
  AND EXISTS (SELECT 1 FROM {prefix}run WHERE id = :outer AND token = :token AND grant_id = :grant
              AND status = 'running' {share})
"""


def step(digest: str, key: str, status: str, tries: int, result: str, reason: str) -> Step:
    """A step, checked and cleaned for the journal; `ValueError` if it cannot be recorded."""
    if status not in kinds.STEP:
        raise ValueError(f"a step cannot be {status!r}")
    if len(digest) != 32 or not _HEX.issuperset(digest):
        raise ValueError(f"{digest!r} is not a digest: 32 hexadecimal digits are needed")
    # The next attempt reads one step per line, and JSON means the same without its line breaks.
    return digest, clean(key), status, int(tries), storable(str(result)).replace("\n", " "), clean(reason)


class StepLog:
    """Made by `Ledger.step_log`: what was recorded of runs' steps."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def chain_of(self, run: str, *, before: bool = False) -> str:
        """The chain of a run's steps since its last success; `before`: of the steps that led to that success."""
        return step_chain.chain_of(self._tables.read, run, before=before)

    def facts(self, chain: str) -> Iterator[tuple[str, str, int, int, str]]:
        """(digest, status, tries, attempt, result) of every entry of the chain, in order, read in pages."""
        found = self._tables.in_pages(_NEXT_PAGE, _PAGE, {"after": 0}, chain=chain)
        return (_facts(kind, body) for _, kind, body in found)

    def entries(self, run: str) -> Iterator[Entry]:
        """Every entry of a run's steps."""
        for chain in step_chain.chains_of(self._tables.read, run):
            yield from map(_entry, self._tables.read(_ENTRIES, chain=chain))

    def newest(self, run: str, most: int) -> tuple[list[Entry], int]:
        """The last entries of a run's steps, in order, and how many there are in all."""
        chain = step_chain.chain_of(self._tables.read, run)
        if not step_chain.tail(self._tables.read, chain)[0]:
            chain = step_chain.chain_of(self._tables.read, run, before=True)
        rows = self._tables.read(f"{_ENTRIES} DESC LIMIT :most", chain=chain, most=most)
        return [_entry(row) for row in reversed(rows)], rows[0][1] if rows else 0

    def result(self, chain: str, digest: str) -> str:
        """The result of a step that is done; "" if the step is not."""
        rows = self._tables.read(_NEWEST_OF_STEP, chain=chain, kind=str(kinds.STEP_DONE), begin=f"digest={digest}\n%")
        return _facts(kinds.STEP_DONE, rows[0][0])[-1] if rows else ""


class StepWriter:
    """Made by `Writer.steps`. For one thread at a time."""

    def __init__(self, tables: Tables, run: RunRow, skew: float, outer: RunRow | None = None) -> None:
        """`outer`: the run that this one is nested in; it must still have its grant, too."""
        self.run = run
        # The first attempt has no steps of an earlier one to look for.
        first = run.attempt <= 1
        self.chain = step_chain.chain_after(run.id) if first else step_chain.chain_of(tables.read, run.id)
        self._tables = tables
        self._outer = outer or run
        self._condition = _FENCE + (_OUTER if outer else "") + "{share}"
        self._fence = _StepsFence(tables, run, skew, self.chain, self._outer)

    def head_after(self, rows: Sequence[Row] = ()) -> str | None:
        """The chain's head after these rows, as it is kept in the run's own chain; None if there is no entry."""
        seq, hash_ = _last(rows) if rows else (self._fence.seq, self._fence.head)
        return head_text(self.chain, seq, hash_) if seq else None

    def append(self, steps: Sequence[Step]) -> None:
        """Append steps in one commit, durable when this returns. Raises as the run's writer does."""
        if steps:
            self._fence.advance(lambda seq, head: self._composed(seq, head, steps))

    def rows(self, steps: Sequence[Step], at: int) -> list[Row]:
        """The steps as rows of the journal, for a commit with another fence; call `note_commit` after it."""
        self._fence.settle()
        return self._rows(self._fence.seq, self._fence.head, at, steps)

    def note_commit(self, rows: Sequence[Row]) -> None:
        if rows:
            self._fence.seq, self._fence.head = _last(rows)

    def _composed(self, seq: int, head: str, steps: Sequence[Step]) -> tuple[int, str, Callable[[], bool]]:
        rows = self._rows(seq, head, self._fence.now(), steps)
        values = self._fence.values() | {"chain": self.chain, "next": seq + 1, "outer": self._outer.id}
        return *_last(rows), lambda: bool(self._tables.guarded(self._condition, values, [(ENTRY, rows)]))

    def _rows(self, seq: int, head: str, at: int, steps: Sequence[Step]) -> list[Row]:
        rows: list[Row] = []
        for digest, key, status, tries, result, reason in steps:
            body = f"digest={digest}\ntries={tries}\nattempt={self.run.attempt}\nkey={line(key)}"
            if reason:
                body += f"\nreason={line(reason)}"
            body += _RESULT + result
            seq, kind = seq + 1, str(kinds.STEP[status])
            head = link(head, self.chain, seq, at, kind, body)
            rows.append((self.chain, seq, at, kind, body, head))
        return rows


class _StepsFence(RunFence):
    """A fence that advances the end of the steps' chain, not the head in the run's row.

    The supervisor appends to that chain, and so do processes of the run that write directly: all have the run's grant.
    """

    def __init__(self, tables: Tables, run: RunRow, skew: float, chain: str, outer: RunRow) -> None:
        super().__init__(tables, run, skew)
        self._chain, self._outer = chain, outer
        self.seq, self.head = step_chain.tail(tables.read, chain) if run.attempt > 1 else (0, "")

    def current_head(self, run: RunRow) -> str:
        return step_chain.tail(self._tables.read, self._chain)[1]

    def settle(self) -> None:
        """Find out what became of a write that was not confirmed."""
        if self._unconfirmed:
            self._go_on(self._run)

    def _has_gone_on(self, found: str) -> bool:
        return found != self.head

    def _go_on(self, run: RunRow) -> None:
        if self._outer.id != run.id:
            RunFence(self._tables, self._outer, self.skew).check()
        self.seq, self.head = step_chain.tail(self._tables.read, self._chain)
        self._unconfirmed.clear()


def _last(rows: Sequence[Row]) -> tuple[int, str]:
    """(seq, hash) of the last of these rows of the journal."""
    _, seq, _, _, _, hash_ = rows[-1]
    return seq, hash_


def _facts(kind: str, body: str) -> tuple[str, str, int, int, str]:
    digest, tries, attempt, rest = body.split("\n", 3)
    return digest[7:], _STATUS[kind], int(tries[6:]), int(attempt[8:]), rest.partition(_RESULT)[2]


def _entry(row: Row) -> Entry:
    chain, seq, at, kind, body, hash_ = row
    words, _, result = body.partition(_RESULT)
    return Entry(chain=chain, seq=seq, at=at / 1000, kind=kind, facts={**unpack(words), "result": result}, hash=hash_)
