"""Reads the jobs' rows and brings this ledger up to date with them: copies other machines' records, journals changes
of a stage, strikes out what was recorded while a clock was ahead."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping

from ..core import row as rows
from ..core.row import Cursor, Row
from ..errors import StoreUnreachable
from ..ledger.ledger import Ledger
from ..runtime.supervisor.run.counting import journal_stage
from .scheduled import Scheduled


class RowReader:
    def __init__(self, ledger: Ledger, *, separate_ledgers: bool, say: Callable[[str], None]) -> None:
        """`separate_ledgers`: does each machine have its own ledger?"""
        self._ledger, self._separate_ledgers, self._say = ledger, separate_ledgers, say
        self._known: dict[str, Row] = {}  # job → its row as this process last read or moved it
        self.unreadable: set[str] = set()  # jobs whose rows only a newer program can read
        self._copied: dict[str, Row] = {}  # job → the row whose records this ledger has
        self._staged: dict[str, object] = {}  # job → id of the last change of its stage in this ledger
        self._struck: dict[str, tuple[int, str]] = {}  # job → era and id of the row when records were last struck

    def read(self, cursors: Iterable[Cursor], wanted: Container[str]) -> list[Row]:
        """The rows of these jobs, as far as this program can read them."""
        return [row for cursor in cursors if cursor.job in wanted and (row := self._row(cursor))]

    def remember(self, row: Row) -> None:
        """Remember a row that we have moved, so that it need not be parsed when it is read."""
        self._known[row.job] = row

    def update_ledger(self, found: Iterable[Row], jobs: Mapping[str, Scheduled], *, again: bool = False) -> None:
        """`again`: strike out once more for rows that have moved, because a process that was frozen during a set-back
        may have recorded what it had read before the set-back."""
        if self._separate_ledgers:
            self._copy_records(found)
        for row in found:
            if row.change and self._staged.get(row.job) != row.change["id"]:
                journal_stage(self._ledger, row)
                self._staged[row.job] = row.change["id"]
            if row.struck:
                era, move = self._struck.get(row.job, (0, ""))
                if row.era != era or (again and row.id != move):
                    self._strike(row, jobs[row.job])

    def _row(self, cursor: Cursor) -> Row | None:
        """None: a newer program has written the row, and a move of ours would drop fields that it added."""
        known = self._known.get(cursor.job)
        if known is not None and known.id == cursor.id:
            return known
        try:
            row = self._known[cursor.job] = rows.read(cursor)
        except StoreUnreachable as error:
            if cursor.job not in self.unreadable:
                self._say(f"nothing is started for it here: {error}")
            self.unreadable.add(cursor.job)
            return None
        return row

    def _copy_records(self, found: Iterable[Row]) -> None:
        """Copy other machines' records from the rows: their ledgers are separate."""
        moved = [(row, known) for row in found if (known := self._copied.get(row.job)) is None or known.id != row.id]
        self._ledger.slots.put(
            (row.job, record)
            for row, known in moved
            for record in (row.records_missing_in(known) if known else row.records)
        )
        self._copied |= {row.job: row for row, _ in moved}

    def _strike(self, row: Row, job: Scheduled) -> None:
        """Strike out this ledger's records that do not count since a set-back, before anything else is read."""
        for time, era in row.struck:
            self._ledger.slots.strike(row.job, time, era, job.cut)
        self._struck[row.job] = row.era, row.id
