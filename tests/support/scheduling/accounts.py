"""What became of the slots of jobs, and what should have: the due times are computed apart."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

from nightlatch.core import row as rows
from nightlatch.core.row import COLLAPSED, RAN, SKIPPED, SlotRecord
from nightlatch.core.schedule import name_of
from nightlatch.ledger import open_for
from nightlatch.ledger.slots import merged
from nightlatch.store import url


def outcomes(store: str, job: str, period: int, homes: Sequence[Path] = ()) -> dict[int, list[str]]:
    """Slot → every outcome that it has; the slots of a range are multiples of the period. `homes`: of machines with a
    ledger each."""
    found: dict[int, list[str]] = {}
    known = records(store, job)
    for home in homes:
        with mock.patch.dict(os.environ, XDG_STATE_HOME=str(home)):
            known = merged(known, records(store, job))
    for record in known:
        for slot in range(int(record.first), int(record.last) + 1, period):
            found.setdefault(slot, []).append(record.outcome)
    return found


def records(store: str, job: str) -> list[SlotRecord]:
    the_store, ledger = url.connect(store), open_for(store)
    row = [rows.read(cursor) for cursor in the_store.cursors([job])]
    try:
        return merged(ledger.slots.of(job), row[0].records if row else ())
    finally:
        the_store.close()
        ledger.close()


def check(store: str, job: str, period: int, done: list[tuple[int, str]], homes: Sequence[Path] = ()) -> dict[str, int]:
    """Every slot from the first to the last one decided has one outcome, and ran if it acted: once, unless an attempt
    was lost after it had. `done`: slots, each with the token of the attempt that acted."""
    found = outcomes(store, job, period, homes)
    assert found, f"no slot of {job} was decided"
    twice = {slot: words for slot, words in found.items() if len(words) > 1}
    assert not twice, f"{job}: slots with several outcomes: {twice}"
    due = set(range(min(found), max(found) + 1, period))
    still = open_slots(store, job)
    assert due - found.keys() <= still, f"{job}: slots without an outcome: {sorted(due - found.keys())}"
    assert len(done) == len(set(done)), f"{job}: one attempt acted twice: {done}"
    acted = [slot for slot, _ in done]
    for slot in {slot for slot in acted if acted.count(slot) > 1}:
        places: Sequence[Path | None] = homes or [None]
        ended = {status for home in places for status in _attempts(store, job, slot, home)}
        assert "lost" in ended, f"{job}: {name_of(slot)} was done twice, and no attempt was lost: {ended}"
    ran = {slot for slot, words in found.items() if words == [RAN]}
    assert set(acted) <= ran | still, f"{job}: acted without an outcome: {sorted(set(acted) - ran)}"
    return {word: sum(words == [word] for words in found.values()) for word in (RAN, COLLAPSED, SKIPPED)}


def _attempts(store: str, job: str, slot: int, home: Path | None) -> list[str]:
    """How the attempts of a slot's run ended; of one whose machine is gone another ledger knows nothing."""
    with mock.patch.dict(os.environ, {"XDG_STATE_HOME": str(home)} if home else {}):
        ledger = open_for(store)
        run = ledger.find(job, name_of(slot))
        found = [attempt.status for attempt in ledger.attempts(run.id)] if run else []
        ledger.close()
    return ["lost" if status == "running" else status for status in found]


def open_slots(store: str, job: str) -> set[int]:
    """The slot whose claim is still open."""
    found = [rows.read(cursor) for cursor in url.connect(store).cursors([job])]
    return {int(row.claim.slot) for row in found if row.claim and row.claim.is_open}
