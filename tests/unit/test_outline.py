"""A run's journal in outline: whatever its length, it says what the whole one says."""

from __future__ import annotations

import pytest

from nightlatch.core import statuses
from nightlatch.ledger import kinds, open_for, outline
from nightlatch.observe import changes, run_facts
from nightlatch.observe.details import details
from nightlatch.observe.reader import StoreReader
from nightlatch.system import clock
from nightlatch.web.made_up import MadeUp


@pytest.fixture
def small(monkeypatch):
    for name, number in (("BEGIN", 12), ("END", 20), ("_PER_ATTEMPT", 8)):
        monkeypatch.setattr(outline, name, number)


def long_run(url: str, entries: int = 60) -> str:
    """Three attempts, of which the second and the third begin in the middle of its chain."""
    made = MadeUp(url, clock.wall())
    run = made.open("articles", clock.wall(), "./write.sh")
    for attempt in range(3):
        bounds = {"bounds": f"timeout={attempt + 1}h retries=2", "program": f"program-{attempt}"}
        writer = made.seal(run, clock.wall(), facts=bounds)
        for number in range(entries):
            writer.progress(number, entries, f"part {number}") if number % 2 else writer.usage({}, usd=0.01)
        if attempt == 0:
            writer.event(kinds.INPUT, path="prompt.md", sha256="1b77")
    writer.event(kinds.PUBLISHED, attempt=3, target="main", landed="9f31c0a")
    writer.finish(statuses.SUCCEEDED, exit_code=0, elapsed=60.0)
    return run.id


def test_a_long_chain_says_in_outline_what_it_says_as_a_whole(ledger_url, small):
    run_id = long_run(ledger_url)
    reader = StoreReader(ledger_url)
    run = reader.run(run_id)
    shown = reader.ledger.journal.outline(run_id)
    assert len(shown) < 80 < len(list(reader.ledger.journal.of_run(run_id))) == run.seq
    assert [one.seq for one in shown] == sorted({one.seq for one in shown})
    assert [one.facts["attempt"] for one in shown if one.kind == kinds.STARTED] == ["1", "2", "3"]
    facts, program = run_facts.run_facts(reader, run, run.status), changes.inputs_of(reader, run_id)["program"]
    assert (facts.timeout, facts.tries, facts.landed_on, program) == (3 * 3600, 3, "main", "program-2")
    assert facts.reports >= 3
    seen, whole = details(reader, run, in_outline=True), details(reader, run)
    assert seen.entries_in_all == whole.entries_in_all == len(whole.entries) > len(seen.entries)


def test_a_short_chain_is_there_whole(ledger_url):
    run_id = long_run(ledger_url, entries=10)
    ledger = open_for(ledger_url)
    assert ledger.journal.outline(run_id) == list(ledger.journal.of_run(run_id))
