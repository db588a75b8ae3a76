"""The stage machine: no way to `unattended` without the evidence or a journaled force, and counters that a replay of the
journal comes to."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from nightlatch.cli import demote, promote
from nightlatch.config.load import load
from nightlatch.core import statuses
from nightlatch.core.job import Job
from nightlatch.core.row import Claim, Row
from nightlatch.core.schedule import name_of
from nightlatch.core.stage import MANUAL, PROMOTE_AFTER, STAGES, SUPERVISED, UNATTENDED, End, counted
from nightlatch.core.value import replace
from nightlatch.errors import NotAllowed
from nightlatch.ledger import kinds, open_for
from nightlatch.runtime.shared.job import definition
from nightlatch.runtime.supervisor.run import counting
from nightlatch.runtime.supervisor.run.claim import Claimed
from nightlatch.runtime.supervisor.run.rows import move_row, read_row
from nightlatch.store import url
from tests.support.ledgers import begun

ENDS = st.sampled_from([statuses.SUCCEEDED, statuses.FAILED, statuses.STALLED, statuses.OVER_BUDGET, statuses.IN_DOUBT,
                        statuses.CANCELLED])  # fmt: skip
MEMORY = "/dev/shm"  # this is not about disks


def row(**facts: Any) -> Row:
    return Row(job="job", slot=0.0, next_due=1.0, definition="d", **facts)


class Machine(RuleBasedStateMachine):
    """A job of a file, with its real row and ledger: its runs end, people edit, promote and demote it."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=MEMORY if os.path.isdir(MEMORY) else None))
        self.file = self.folder / "nightlatch.toml"
        self.url = f"sqlite:///{self.folder}/state.db"
        self.environment = mock.patch.dict(os.environ, NIGHTLATCH_CONFIG=str(self.file), NIGHTLATCH_STORE=self.url)
        self.environment.start()
        self.store, self.ledger = url.connect(self.url), open_for(self.url)
        self.number = 0
        self.job = self._written()
        self.first = counting.ensure_row(self.store, self.ledger, self.job).definition
        self.ends: dict[str, End] = {}  # by run

    def teardown(self) -> None:
        self.store.close()
        self.ledger.close()
        self.environment.stop()
        shutil.rmtree(self.folder)

    def _written(self) -> Job:
        keys = [
            'schedule = "every 1h"',
            'timeout = "1m"',
            f'stage = "{MANUAL}"',
            f'command = ["echo", "{self.number}"]',
        ]
        self.file.write_text("\n".join(['timezone = "UTC"', "[jobs.job]", *keys]))
        return load(str(self.file)).jobs["job"]

    @property
    def row(self) -> Row:
        found = read_row(self.store, "job")
        assert found
        return found

    # ── what happens to it ──

    @rule(status=ENDS, by_slot=st.booleans(), clean=st.booleans(), own_cap=st.booleans(), edited=st.booleans())
    def a_run_ends(self, status: str, by_slot: bool, clean: bool, own_cap: bool, edited: bool) -> None:
        self.number += 1
        slot, before = 3600.0 * self.number, self.row
        job = replace(self.job, defined_as="another") if edited else self.job
        end = End(
            id=f"e{self.number}", status=status, slot=name_of(slot) if by_slot else "", stage=before.stage,
            definition=definition(job), clean=clean and status == statuses.SUCCEEDED,
            own_cap=own_cap and status == statuses.OVER_BUDGET,
        )  # fmt: skip
        writer = begun(self.ledger, key=end.id)
        self.ends[writer.run.id] = end
        doubt = status == statuses.IN_DOUBT
        packed = "" if by_slot else counting.pack(end)
        writer.finish(statuses.LOST if doubt else status, doubt=doubt, uncounted=packed)
        if by_slot:
            self._end_claim(job, slot, end, writer.run.id)
        else:
            counting.count_uncounted(self.store, self.ledger, "job", self.job.stage)
        assert STAGES.index(before.stage) - STAGES.index(self.row.stage) in (0, 1), "by itself, it falls by one stage"

    def _end_claim(self, job: Job, slot: float, end: End, run: str) -> None:
        before = self.row
        assert move_row(self.store, self.ledger, before, replace(before, claim=Claim(id=end.id, slot=slot)))
        claimed = Claimed(job, end.id)
        claimed.stage, claimed.clean, claimed.own_cap = end.stage, end.clean, end.own_cap
        claimed.end(self.store, self.ledger, end.status, ran=True, run=run)

    @rule()
    @precondition(lambda self: self.ends)
    def an_end_is_counted_again(self) -> None:
        before, entries = self.row, len(list(self.ledger.journal.of_job("job")))
        run, end = list(self.ends.items())[-1]
        counting.count(self.store, self.ledger, "job", end, self.job.stage, run)
        assert self.row == before and len(list(self.ledger.journal.of_job("job"))) == entries

    @rule()
    def a_person_edits_and_looks(self) -> None:
        self.number += 1
        self.job = self._written()
        counting.ensure_row(self.store, self.ledger, self.job)

    @rule()
    def a_person_decides_what_is_in_doubt(self) -> None:
        for run in self.ledger.history.runs(job="job", status=statuses.IN_DOUBT):
            self.ledger.decisions.resolve(run.id, statuses.FAILED, "me")

    @rule(force=st.booleans())
    @precondition(lambda self: self.row.stage != UNATTENDED)
    def a_person_promotes_it(self, force: bool) -> None:
        try:
            promote.main(["job", *(["--force"] if force else [])])
        except NotAllowed:
            assert not force

    @rule()
    @precondition(lambda self: self.row.stage != MANUAL)
    def a_person_demotes_it(self) -> None:
        demote.main(["job"])

    # ── what must hold ──

    @invariant()
    def the_row_is_what_the_journal_comes_to(self) -> None:
        """By rules that are written out here once more, without the code of the machine."""
        at, clean, strikes, current = MANUAL, 0, 0, self.first[:12]
        ends: Counter[str] = Counter()
        for entry in self.ledger.journal.of_job("job"):
            facts = entry.facts
            if entry.kind == kinds.DEFINED:
                current, clean = facts["definition"], 0
            elif entry.kind == kinds.STAGED:
                if STAGES.index(facts["stage"]) > STAGES.index(at):
                    assert facts.get("forced") or clean >= PROMOTE_AFTER[STAGES.index(at)], "promoted without evidence"
                if facts["by"] == "nightlatch":
                    assert facts["stage"] == at, "demoted without a reason"
                at, clean, strikes = facts["stage"], 0, 0
            elif entry.kind == kinds.COUNTED:
                assert (int(facts["clean"]), int(facts["strikes"])) == (clean, strikes)
            elif entry.kind == kinds.ENDED:
                end = self.ends[facts["run"]]
                status = self._ended(facts["run"])
                ends[status] += 1
                bad = status == "stalled" or end.own_cap
                strikes = strikes + 1 if bad else 0 if status == "succeeded" else strikes
                if end.clean and end.definition[:12] == current and end.stage == at and (at == MANUAL or end.slot):
                    clean += 1
                if at != MANUAL and (status == "in-doubt" or (bad and strikes >= 2)):
                    at, clean, strikes = STAGES[STAGES.index(at) - 1], 0, 0
        found = self.row
        assert (found.stage, found.clean, found.strikes) == (at, clean, strikes)
        assert (found.counters or {}) == ends

    def _ended(self, run: str) -> str:
        """How it ended, by its own chain."""
        (facts,) = [entry.facts for entry in self.ledger.journal.of_run(run) if entry.kind == kinds.ENDED]
        return statuses.IN_DOUBT if facts.get("doubt") else facts["status"]


TestMachine = Machine.TestCase
TestMachine.settings = settings(
    max_examples=int(os.environ.get("NIGHTLATCH_ROUNDS", "15")), stateful_step_count=25, deadline=None
)


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
