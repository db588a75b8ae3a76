"""Every combination of what a due slot depends on has one outcome, and the page that tells of it is made of this table."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from nightlatch.core import definition, slots
from nightlatch.core.row import Claim, Pause, Row
from nightlatch.core.slots import Due, Observation, Policy, decide
from nightlatch.core.stage import NOTHING, START, WRITES, held_back

DOCS = Path(__file__).parents[2] / "docs"
HOUR = 3600.0
SLOT = 500_000 * HOUR


def table() -> Any:
    spec = importlib.util.spec_from_file_location("slot_table", DOCS / "slot_table.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def decided(cell: dict[str, str]) -> tuple[str, str]:
    """The outcome that the rules come to, in the table's words."""
    row = _row(cell)
    if definition.judge(row, "old" if cell["file"] == "old" else "new", "", shared=True) == definition.OLD:
        return "left", "another machine has a newer file, and starts it"
    now = SLOT + (2 * HOUR if cell["found"] == "late" else 10)
    due = Due(first=SLOT, newest=SLOT, following=SLOT + 3 * HOUR)
    at_work = cell["before"] in ("a slot's run", "a run by hand")
    policy = Policy(overlap=cell["overlap"], catch_up=cell["catch_up"])
    decision = decide(row, due, policy, Observation(now=now, holder="g" if at_work else ""))
    if decision.cancel:
        return "cancels", "that run, and waits for its end"
    if decision.claim:
        hold = held_back(cell["stage"], cell["hold"])
        return {
            WRITES: ("runs", "and what it would publish waits for an approval"),
            START: ("waits", "unstarted, for an approval"),
        }.get(hold) or (("runs", "alone") if cell["stage"] == "unattended" else ("runs", "and counts as evidence"))
    if decision.slot is None:
        return "queued", "until that has ended"
    assert decision.slot == SLOT and len(decision.records) == 1
    return "skipped", decision.records[0].reason


def _row(cell: dict[str, str]) -> Row:
    claim = None
    if cell["before"] == "a slot's run":
        claim = Claim(id="c", slot=SLOT - HOUR, grant="g", token=1, attempted=True)
    elif "plan" in cell["before"]:
        held = {"run": "r", "host": "elsewhere", "until": SLOT + 24 * HOUR, "head": "h", "what": "writes"}
        claim = Claim(
            id="c", slot=SLOT - HOUR, run="r", held=held | ({"word": "me"} if "approved" in cell["before"] else {})
        )
    return Row(
        job="job", id="m", slot=SLOT - HOUR, next_due=SLOT, stage=cell["stage"], claim=claim, definition="new",
        before=("old",), paused=Pause(by="me", at=0.0) if cell["paused"] == "yes" else None,
    )  # fmt: skip


def test_every_cell_has_the_outcome_of_the_table() -> None:
    rules = table()
    wrong = {
        str(cell): (decided(cell), rules.outcome(cell))
        for cell in rules.cells()
        if decided(cell) != rules.outcome(cell)
    }
    assert not wrong, list(wrong.items())[:3]
    assert len(rules.cells()) > 2000


def test_every_row_of_the_table_is_needed() -> None:
    rules = table()
    assert {rules.outcome(cell) for cell in rules.cells()} == {(word, reason) for _, word, reason in rules.ROWS}


def test_the_reasons_are_those_of_the_scheduler() -> None:
    reasons = {reason for _, word, reason in table().ROWS if word == "skipped"}
    assert reasons <= {slots.WAITS, slots.PAUSED, slots.STAGE, slots.OVERLAP, slots.MISSED}
    assert held_back("unattended", WRITES) == NOTHING


def test_the_page_has_the_table() -> None:
    assert table().markdown() in (DOCS / "stages.md").read_text(), "run `make docs`"
