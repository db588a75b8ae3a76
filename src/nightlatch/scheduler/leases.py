"""The holders of the jobs' leases, as one look sees them."""

from __future__ import annotations

from collections.abc import Collection

from ..core.model import Record
from ..core.protocols import Store
from ..store import proof, sightings

_MOST_SINGLE_READS = 50  # of leases; if more are wanted, all are read at once


class JobLeases:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._held: dict[str, Record] = {}

    def look(self, jobs: Collection[str]) -> None:
        """Read these jobs' leases; all others count as free."""
        if len(jobs) > _MOST_SINGLE_READS or (jobs and self._store.lists_begun):  # on git each read is a request
            wanted = set(jobs)
            found = [record for record in self._store.records() if record.name in wanted]
        else:
            found = [record for job in jobs if (record := self._store.read(job))]
        self._held = {record.name: record for record in found if record.grant}

    def holder(self, job: str) -> str:
        """The grant that has the job's lease; "": it is free, its holder is gone, or it has expired."""
        record = self._held.get(job)
        return "" if record is None or self._is_over(record) else record.grant

    def _is_over(self, record: Record) -> bool:
        if record.left is not None:
            return record.left <= 0 or proof.gone(record)
        return proof.gone(record) or sightings.lapsed(self._store.folder, record)
