"""The ledger's statements, written once for every database, and transactions on a job's chain.

`{prefix}` is the schema of the tables, `{wall}` the clock that all users of the ledger share. `{share}` locks a row
that must not change before we commit, `{lock}` one that we change ourselves. `{unindexed}` keeps a column's index from
being used. A change that ends in `{matched}` returns a row if it has matched one; a change that ends in `{run_row}`
returns the run's changed row.
"""

from __future__ import annotations

from ..system import clock, zone
from . import kinds
from .chain import head_text, job_chain, link
from .records import ENTRY, RUN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from ..core.value import T
    from ..database.guarded import Inserts, Rows, Table
    from ..database.postgres import PostgresDatabase
    from ..database.sqlite import SqliteDatabase
    from .days import Days
    from .typed_table import TypedTable

    Row = tuple[Any, ...]


# Transactions that append to one chain take turns.
_LOCK = "SELECT seq, head, {wall} FROM {prefix}chain WHERE name = :chain {lock}"
# A new chain; if another process has just made it, an update that changes nothing locks its row.
_MAKE = """
INSERT INTO {prefix}chain (name, seq, head) VALUES (:chain, 0, '')
ON CONFLICT (name) DO UPDATE SET seq = chain.seq RETURNING seq, head, {wall}
"""
_ADVANCE = "UPDATE {prefix}chain SET seq = :seq, head = :head WHERE name = :chain"
_FRAGMENTS = ("prefix", "wall", "share", "lock", "unindexed", "matched")


class Tables:
    def __init__(self, database: SqliteDatabase | PostgresDatabase) -> None:
        self.database = database
        self._rendered: dict[str, str] = {}
        self._days: Days | None = None

    def sql(self, text: str) -> str:
        rendered = self._rendered.get(text)
        if rendered is None:
            words = {word: getattr(self.database, word) for word in _FRAGMENTS}
            words["run_row"] = self.database.row_after("run", RUN.names)
            rendered = self._rendered[text] = text.format(**words)
        return rendered

    def read(self, sql: str, **values: Any) -> list[Row]:
        return self.database.read(self.sql(sql), **values)

    def select(self, table: TypedTable[T], rest: str = "", **values: Any) -> list[T]:
        """The objects that `rest` (WHERE, ORDER BY, LIMIT) selects of a table."""
        return list(map(table.read, self.read(table.select + rest, **values)))

    def first(self, table: TypedTable[T], rest: str, **values: Any) -> T | None:
        rows = self.read(table.select + rest, **values)
        return table.read(rows[0]) if rows else None

    def in_pages(self, sql: str, most: int, after: dict[str, object], **values: Any) -> Iterator[Row]:
        """All rows of a statement, `most` at a time. Its first columns are the parameters in `after`: their values in
        the last row of a page select the next page."""
        while True:  # ends at a page that is not full: writers could put off an empty page for ever
            page = self.read(sql, **values, **after, most=most)
            yield from page
            if len(page) < most:
                return
            after = dict(zip(after, page[-1], strict=False))

    def read_for_each(self, jobs: Sequence[str], sql: str, **values: Any) -> list[list[Row]]:
        """What the statement finds with each of these as its `:job`; faster than a `read` for each."""
        return self.database.read_for_each(jobs, self.sql(sql), **values)

    def guarded(self, update: str, values: dict[str, object], inserts: Inserts, *, lazy: bool = False) -> list[Row]:
        return self.database.guarded(self.sql(update), values, inserts, lazy=lazy)

    def now(self) -> int:
        """The clock that all users of the ledger share, in ms."""
        if self.database.wall == ":wall":
            return int(clock.wall() * 1000)
        return int(self.read("SELECT {wall}")[0][0])

    def local_now(self) -> float:
        """Seconds on this machine's clock that goes with the ledger's. If that is a server's, it is the clock that
        nobody can set: a step of the wall clock would move a run's usage to another day, and out of that day's cap."""
        return clock.wall() if self.database.wall == ":wall" else clock.now()

    def skew(self) -> float:
        """How many seconds the ledger's clock is ahead of `local_now`."""
        return self.now() / 1000 - self.local_now()

    @property
    def days(self) -> Days:
        """The ledger's calendar; made at the first use, since few runs have anything to count by the day."""
        if self._days is None:
            from .days import Days

            self._days = Days(self.database.facts()["ledger.zone"], self.local_now, self.skew())
        return self._days

    def day(self, ms: int) -> str:
        """The day of a moment in the ledger's time zone, as in 2026-07-31."""
        return zone.day(self.database.facts()["ledger.zone"], ms)

    def on_chain(self, job: str, *, lazy: bool = False) -> ChainTransaction:
        """A transaction on a job's chain. `lazy`: it need not be on the disk yet; the next commit flushes it too."""
        return ChainTransaction(self, job, lazy)


class ChainTransaction:
    """One transaction that locks a job's chain: what it appends and what it changes happen together or not at all.

    Every transaction locks the chain before a run's row, so no two wait for each other.
    """

    at: int  # when it began, by the clock that all users of the ledger share, in ms

    def __init__(self, tables: Tables, job: str, lazy: bool) -> None:
        self._tables = tables
        self._transaction = tables.database.transaction(lazy=lazy)
        self._chain = job_chain(job)
        self._entries: list[Row] = []  # written at the end, by one statement
        self._appended = False

    def __enter__(self) -> ChainTransaction:
        self._transaction.__enter__()
        try:
            rows = self(_LOCK, chain=self._chain) or self(_MAKE, chain=self._chain)
            self._seq, self._head, self.at = rows[0]
        except BaseException as error:
            self._transaction.__exit__(type(error), error, None)
            raise
        return self

    def __call__(self, sql: str, **values: object) -> list[Row]:
        return self._transaction(self._tables.sql(sql), **values)

    def later(self, sql: str, **values: object) -> None:
        """Run a statement whose answer is not needed."""
        self._transaction.later(self._tables.sql(sql), **values)

    def insert(self, table: Table, rows: Rows) -> None:
        """Insert rows, each with its values in the columns' order."""
        self._transaction.insert(table, rows)

    def __exit__(self, kind: object, error: BaseException | None, *more: object) -> None:
        if error is None:
            try:
                self._write()
            except BaseException as failed:
                self._transaction.__exit__(type(failed), failed, None)
                raise
        self._transaction.__exit__(kind, error, *more)

    def _write(self) -> None:
        if self._entries:
            self.insert(ENTRY, self._entries)
        if self._appended:
            self.later(_ADVANCE, chain=self._chain, seq=self._seq, head=self._head)

    def append(self, kind: str, **facts: object) -> str:
        """Put an entry on the job's chain; returns the chain's head, for log lines and alerts."""
        kind, body = str(kind), kinds.body(kind, kinds.JOB, facts)
        self._seq += 1
        self._head = link(self._head, self._chain, self._seq, self.at, kind, body)
        self.enter(self._chain, self._seq, kind, body, self._head)
        self._appended = True
        return head_text(self._chain, self._seq, self._head)

    def enter(self, chain: str, seq: int, kind: str, body: str, hash_: str, at: int | None = None) -> None:
        """Put an entry, already linked, on a run's chain."""
        self._entries.append((chain, seq, self.at if at is None else at, kind, body, hash_))

    def forget(self) -> None:
        """Drop what was appended and entered so far."""
        self._entries, self._appended = [], False
