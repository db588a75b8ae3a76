"""The stage machine: no way to `unattended` without the evidence or a journaled force, and counters that a replay of the
journal comes to."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from nightlatch.core import definition, stage, statuses
from nightlatch.core.row import Row
from nightlatch.core.stage import MANUAL, PROMOTE_AFTER, STAGES, SUPERVISED, UNATTENDED, End, counted
from nightlatch.core.value import replace

ENDS = st.sampled_from([statuses.SUCCEEDED, statuses.FAILED, statuses.STALLED, statuses.OVER_BUDGET, statuses.IN_DOUBT,
                        statuses.CANCELLED])  # fmt: skip


def row(**facts: Any) -> Row:
    return Row(job="job", slot=0.0, next_due=1.0, definition="d", **facts)


class Machine(RuleBasedStateMachine):
    """What happens to a job, with a journal of it that is kept beside the row."""

    def __init__(self) -> None:
        super().__init__()
        self.row = row(stage=MANUAL)
        self.journal: list[tuple[str, Any]] = []
        self.number = 0
        self.last: End | None = None

    @rule(status=ENDS, by_slot=st.booleans(), clean=st.booleans(), own_cap=st.booleans(), edited=st.booleans())
    def a_run_ends(self, status: str, by_slot: bool, clean: bool, own_cap: bool, edited: bool) -> None:
        self.number += 1
        end = End(
            id=f"e{self.number}", status=status, slot=str(self.number) if by_slot else "", stage=self.row.stage,
            definition="other" if edited else self.row.definition, clean=clean and status == statuses.SUCCEEDED,
            own_cap=own_cap and status == statuses.OVER_BUDGET,
        )  # fmt: skip
        before = self.row
        self.row = counted(self.row, end, float(self.number))
        self.journal.append(("end", end))
        if self.row.stage != before.stage:
            assert stage.was_demoted(self.row) and STAGES.index(self.row.stage) == STAGES.index(before.stage) - 1
        self.last = end

    @rule()
    @precondition(lambda self: self.last is not None)
    def an_end_is_counted_again(self) -> None:
        assert self.last
        assert counted(self.row, self.last, 1.0) == self.row

    @rule()
    def it_is_edited(self) -> None:
        self.number += 1
        self.row = definition.renewed(self.row, f"d{self.number}")
        self.journal.append(("edit", self.row.definition))

    @rule(force=st.booleans())
    @precondition(lambda self: self.row.stage != UNATTENDED)
    def a_person_promotes_it(self, force: bool) -> None:
        self.number += 1
        was = self.row.stage
        if self.row.clean < stage.needed(was, ()) and not force:
            return
        forced = self.row.clean < stage.needed(was, ())
        self._change(stage.up(was), was, forced)

    @rule()
    @precondition(lambda self: self.row.stage != MANUAL)
    def a_person_demotes_it(self) -> None:
        self.number += 1
        self._change(stage.down(self.row.stage), self.row.stage, False)

    def _change(self, to: str, was: str, forced: bool) -> None:
        self.row = stage.changed(self.row, to, was, by="me", why="", at=1.0, id=f"c{self.number}", forced=forced)
        self.journal.append(("stage", (to, forced)))

    @invariant()
    def the_row_is_what_the_journal_comes_to(self) -> None:
        """By rules that are written out here once more, without the code of the machine."""
        at, clean, strikes, current = MANUAL, 0, 0, "d"
        ends: dict[str, int] = {}
        for kind, fact in self.journal:
            if kind == "edit":
                current, clean = fact, 0
            elif kind == "stage":
                to, forced = fact
                if STAGES.index(to) > STAGES.index(at):
                    assert forced or clean >= PROMOTE_AFTER[STAGES.index(at)], "promoted without evidence"
                at, clean, strikes = to, 0, 0
            else:
                ends[fact.status] = ends.get(fact.status, 0) + 1
                bad = fact.status == "stalled" or fact.own_cap
                strikes = strikes + 1 if bad else 0 if fact.status == "succeeded" else strikes
                if fact.clean and fact.definition == current and fact.stage == at and (at == MANUAL or fact.slot):
                    clean += 1
                if at != MANUAL and (fact.status == "in-doubt" or (bad and strikes >= 2)):
                    at, clean, strikes = STAGES[STAGES.index(at) - 1], 0, 0
        assert (self.row.stage, self.row.clean, self.row.strikes) == (at, clean, strikes)
        assert (self.row.counters or {}) == ends


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_a_shared_cap_and_plain_failures_demote_nobody() -> None:
    found = row(stage=UNATTENDED)
    for number in range(6):
        status = statuses.OVER_BUDGET if number % 2 else statuses.FAILED
        found = counted(found, End(id=str(number), status=status, slot=str(number)), 1.0)
    assert found.stage == UNATTENDED and found.failures == 6


def test_a_run_in_doubt_costs_its_job_a_stage() -> None:
    found = counted(row(stage=UNATTENDED), End(id="1", status=statuses.IN_DOUBT, slot="1"), 5.0)
    assert found.stage == SUPERVISED and found.change
    assert found.change == {"id": "1", "stage": SUPERVISED, "was": UNATTENDED, "by": "nightlatch",
                            "why": "a run is in doubt", "at": 5.0}  # fmt: skip


def test_a_run_by_hand_as_supervised_is_no_evidence_for_its_slots() -> None:
    end = End(id="1", status=statuses.SUCCEEDED, clean=True, definition="d", stage=SUPERVISED)
    assert counted(row(stage=SUPERVISED), end, 1.0).clean == 0
    assert counted(row(stage=SUPERVISED), replace(end, slot="1"), 1.0).clean == 1


def test_paperclip_379_no_number_of_good_runs_promotes_by_itself() -> None:
    """That proposal promotes after twenty good runs without asking, and demotes by any three failures. Here good runs
    are only evidence, what was cancelled or timed out is none, and plain failures cost no stage."""
    found = row(stage=SUPERVISED)
    for number in range(40):
        end = End(id=str(number), status=statuses.SUCCEEDED, clean=True, definition="d", stage=SUPERVISED, slot="s")
        found = counted(found, end, 1.0)
    assert found.stage == SUPERVISED and found.clean == 40 and found.change is None
    for number, status in enumerate((statuses.CANCELLED, statuses.TIMED_OUT, statuses.FAILED) * 3):
        end = End(id=f"b{number}", status=status, definition="d", stage=SUPERVISED, slot="s")
        found = counted(found, end, 1.0)
    assert found.stage == SUPERVISED and found.clean == 40 and found.counters
    assert sum(found.counters.values()) == 49, "no end is lost"
