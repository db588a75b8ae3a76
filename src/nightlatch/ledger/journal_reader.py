"""How far readers have read the journal: the last entry that each has read of each job's chain. A chain's entries
are read in the order of their commits, so nothing is missed; what happened long before a reader began is not read."""

from __future__ import annotations

from .chain import job_chain
from .records import ENTRY, Entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .tables import Row, Tables

    Read = Callable[..., list[Row]]

_REGISTERED = ""  # in place of a chain's name: this row says that the reader has begun
_MOST = 2000  # entries read at once
_RECENT = 600_000  # ms; a new reader begins with the entries that are younger than this
_NEWS = """
SELECT chain.name, COALESCE(known.seq, 0) FROM {prefix}chain AS chain
LEFT JOIN {prefix}alert_cursor AS known ON known.reader = :reader AND known.chain = chain.name
WHERE chain.seq > COALESCE(known.seq, 0) ORDER BY chain.name
"""
_CURSOR = "SELECT seq FROM {prefix}alert_cursor WHERE reader = :reader AND chain = :chain"
_MOVE = """
INSERT INTO {prefix}alert_cursor (reader, chain, seq) VALUES (:reader, :chain, :seq)
ON CONFLICT (reader, chain) DO UPDATE SET seq = excluded.seq WHERE alert_cursor.seq < excluded.seq
"""
_SKIP = """
INSERT INTO {prefix}alert_cursor (reader, chain, seq)
SELECT CAST(:reader AS TEXT), name,
  COALESCE((SELECT MAX(seq) FROM {prefix}journal WHERE chain = name AND at < :before), 0)
FROM {prefix}chain WHERE 1 = 1 ON CONFLICT (reader, chain) DO NOTHING
"""
_ENTRIES = f"{ENTRY.select} WHERE chain = :chain AND seq > :seq ORDER BY seq LIMIT :most"


class JournalReader:
    """The position of one reader."""

    def __init__(self, tables: Tables, reader: str) -> None:
        self._tables, self._reader = tables, reader

    def begin(self) -> None:
        """Register the reader, if it is new: what happened long before that is not read."""
        if self._tables.read(_CURSOR, reader=self._reader, chain=_REGISTERED):
            return
        with self._tables.database.transaction() as execute:
            execute(self._tables.sql(_SKIP), reader=self._reader, before=self._tables.now() - _RECENT)
            execute(self._tables.sql(_MOVE), reader=self._reader, chain=_REGISTERED, seq=1)

    def news(self) -> list[str]:
        """The jobs whose chains have unread entries."""
        names = [name for name, _ in self._tables.read(_NEWS, reader=self._reader)]
        return [name.removeprefix("job:") for name in names if name.startswith("job:")]

    def unread(self, job: str, read: Read | None = None) -> list[Entry]:
        """The next unread entries of a job's chain; they stay unread. `read`: a transaction to read in, if any."""
        read = read or self._tables.read
        rows = read(_CURSOR, reader=self._reader, chain=job_chain(job))
        seq = rows[0][0] if rows else 0
        return list(map(ENTRY.read, read(_ENTRIES, chain=job_chain(job), seq=seq, most=_MOST)))

    def move(self, job: str, seq: int, write: Read | None = None) -> None:
        """Mark everything up to `seq` as read. `write`: a transaction to write in, if any."""
        values = {"reader": self._reader, "chain": job_chain(job), "seq": seq}
        if write:
            write(_MOVE, **values)
            return
        with self._tables.database.transaction() as execute:
            execute(self._tables.sql(_MOVE), **values)
