"""The simulator: the real scheduler and the real moves of claims, on simulated clocks, stores and processes.

A seed is a course: machines and daemons are killed, frozen, put to sleep, their clocks are stepped, replies are lost,
jobs are edited on one machine and pulled by the others, programs are upgraded one machine after the other.
The same seed is the same course, to the last move. `Simulation(seed, kind).run()` raises `Violation` with the course.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest import mock

from nightlatch.core import row as rows
from nightlatch.core.job import Job
from nightlatch.core.row import Claim
from nightlatch.ledger.slots import merged
from nightlatch.runtime.supervisor.run import claim as claims
from nightlatch.runtime.supervisor.run import rows as moving
from nightlatch.scheduler import ahead, scheduler
from tests.support.scheduling import sim_checks
from tests.support.scheduling.sim_files import JOBS, Files
from tests.support.scheduling.sim_processes import (
    DAY,
    EPOCH,
    POLL,
    ByHand,
    Daemon,
    Killed,
    Machine,
    Process,
    Supervisor,
)
from tests.support.scheduling.sim_store import Shared, SimLedger, packed, parsed, unreachable

SQLITE, POSTGRES, GIT = KINDS = ("sqlite", "postgres", "git")


class Violation(AssertionError):
    """A promise was broken; the message has the end of the course."""


class Simulation:
    def __init__(self, seed: int, kind: str, *, days: float = 2.0, machines: int = 2, faults: float = 1.0) -> None:
        self.seed, self.kind, self.days, self._faults = seed, kind, days, faults
        self.chance = random.Random(f"{kind} {seed}")
        self.time = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._depth = 0
        self._calm = False
        self.course: list[str] = []
        self.server_offset = 0.0
        self.shared = Shared(clockless=kind == GIT, server=self._server if kind == POSTGRES else None)
        self.shared.now = lambda: self.time
        self.shares_files = kind != SQLITE  # each machine has one, and a commit reaches the others later
        self.files = Files(self.chance)
        if self.shares_files:
            self.shared.commit = lambda job: self.file[job]
        self.ledger = SimLedger(self._ledger_fault)
        self.machines = [Machine(f"m{place}", self) for place in range(1 if kind == SQLITE else machines)]
        if kind == GIT:
            for machine in self.machines:
                machine.ledger = SimLedger(self._ledger_fault)
        self.acts: dict[tuple[str, str], int] = {}
        self.sealed: set[tuple[str, str]] = set()
        self.at_work: dict[str, Supervisor] = {}
        self._daemons: list[Daemon] = []
        self._supervisors: list[Process] = []  # and people's runs
        self.host = ""  # of the process that is working
        self.file = self.files.first()  # that it has read last
        self.dies_at_work = ""  # a job whose supervisors die at work
        self.lead = self.chance.choice((ahead.LEAD, 60.0))  # with the longer one, faults hit what is prepared

    def run(self) -> Simulation:
        identity = SimpleNamespace(new_id=self.new_id, host=lambda: self.host)
        pauses = SimpleNamespace(sleep=lambda _: None)
        with (
            mock.patch.object(claims, "identity", identity),
            mock.patch.object(moving, "identity", identity),
            mock.patch.object(moving, "clock", pauses),
            mock.patch.object(scheduler, "POLL", POLL),
            mock.patch.object(scheduler, "POLL_CLAIMED", POLL / 2),
            mock.patch.object(ahead, "LEAD", self.lead),
            mock.patch.object(rows, "read", parsed),
            mock.patch.object(rows.Row, "pack", packed),
        ):
            for machine in self.machines:
                for _ in range(2 if self.kind == SQLITE else 1):
                    self._daemons.append(Daemon(self, machine))
            self._plan_faults()
            self._go_on(self.days * DAY)
            self._calm, calm = True, self.time
            self._settle()
            self._go_on(self.time + 6 * 3600)
        self.check(calm)
        return self

    # ── time ──

    def at(self, time: float, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (max(time, self.time), self._count, action))

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        self.at(self.time + seconds, action)

    def _go_on(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            self.time, _, action = heapq.heappop(self._events)
            action()
        self.time = max(self.time, until)

    def new_id(self) -> str:
        return f"{self.chance.getrandbits(64):016x}"

    def _server(self) -> float:
        return EPOCH + self.time + self.server_offset

    def say(self, text: str) -> None:
        self.course.append(f"{self.time:10.1f} {text}")

    # ── faults ──

    def fault(self, process: Process) -> Callable[[str], None]:
        def strike(moment: str) -> None:
            if self._calm:
                return
            if moment == "stall" and self._depth < 2 and self.chance.random() < 0.01 * self._faults:
                # Frozen between its look and its move: others go on meanwhile.
                self._depth += 1
                busy, process.frozen_until = process.frozen_until, float("inf")
                host, file = self.host, self.file
                self.say(f"{process.machine.name}: frozen in front of a move")
                self._go_on(self.time + self.chance.choice((5.0, 40.0, 200.0, 4000.0)))
                process.frozen_until, self.host, self.file = busy, host, file
                self._depth -= 1
                return
            if moment == "stall":
                return
            dice = self.chance.random() / self._faults
            if dice < 0.004:
                raise unreachable()
            if dice < 0.007:
                process.gone = True
                self.say(f"{process.machine.name}: killed {moment} an act")
                raise Killed

        return strike

    def _ledger_fault(self, moment: str) -> None:
        if not self._calm and self.chance.random() < 0.001 * self._faults:
            raise unreachable()

    def _plan_faults(self) -> None:
        def again(every: float, action: Callable[[], None]) -> None:
            def act() -> None:
                if not self._calm:
                    action()
                    self.after(self.chance.expovariate(1 / every), act)

            self.after(self.chance.expovariate(1 / every), act)

        again(2 * 3600 / self._faults, self._kill_somebody)
        again(3 * 3600 / self._faults, self._freeze_somebody)
        again(12 * 3600 / self._faults, self._sleep)
        again(DAY / self._faults, self._step_a_clock)
        again(6 * 3600 / self._faults, self._edit)
        again(8 * 3600 / self._faults, self._run_by_hand)
        self.at(self.chance.uniform(0, 2 * self.days * DAY), self._upgrade)

    def _run_by_hand(self) -> None:
        self._supervisors.append(ByHand(self, self.chance.choice(self.machines), self.chance.choice(sorted(JOBS))))

    def _edit(self) -> None:
        """A person edits the newest file on a machine; the others pull later."""
        machine, job = self.chance.choice(self.machines), self.chance.choice(sorted(JOBS))
        self.files.edit(job)
        machine.file = self.files.newest()
        self.say(f"{machine.name}: an edit makes {job} {self.files.definition(job)}")
        for other in self.machines:
            if other is not machine:
                self.after(self.chance.expovariate(1 / 7200), partial(self._pull, other))

    def _pull(self, machine: Machine) -> None:
        machine.file = self.files.newest()

    def _upgrade(self) -> None:
        """A machine gets a newer program, whose rows the older one cannot read; the others get it later. A daemon goes
        on with the old one until it is started again."""
        if self._calm:
            return
        for place, machine in enumerate(self.chance.sample(self.machines, len(self.machines))):
            delay = self.chance.expovariate(1 / 7200) if place else 0.0
            self.after(delay, partial(self._install, machine))

    def _install(self, machine: Machine) -> None:
        machine.program = 2
        self.say(f"{machine.name} is upgraded")
        for daemon in self._daemons:
            if daemon.machine is machine:
                self.after(self.chance.expovariate(1 / 600), partial(setattr, daemon, "gone", True))

    def _somebody(self) -> Process | None:
        self._supervisors = [one for one in self._supervisors if not one.gone]
        alive = [one for one in (*self._daemons, *self._supervisors) if not one.gone]
        return self.chance.choice(alive) if alive else None

    def _kill_somebody(self) -> None:
        if one := self._somebody():
            one.gone = True
            self.say(f"{one.machine.name}: killed {type(one).__name__}")

    def _freeze_somebody(self) -> None:
        if one := self._somebody():
            one.frozen_until = self.time + self.chance.choice((10.0, 50.0, 300.0, 5000.0))
            self.say(f"{one.machine.name}: froze {type(one).__name__} until {one.frozen_until:.0f}")

    def _sleep(self) -> None:
        machine = self.chance.choice(self.machines)
        seconds = self.chance.choice((60.0, 1800.0, 8 * 3600.0))
        machine.asleep_until, machine.slept = self.time + seconds, machine.slept + seconds
        self.say(f"{machine.name} sleeps for {seconds:.0f}")

    def _step_a_clock(self) -> None:
        step = self.chance.choice((3600.0, -3600.0, 400 * DAY, -400 * DAY))
        hours = self.chance.choice((0.5, 3.0))
        if self.kind == POSTGRES:
            self.server_offset = step
            self.after(hours * 3600, lambda: setattr(self, "server_offset", 0.0))
        machine = self.chance.choice(self.machines)
        machine.offset = step
        self.say(f"{machine.name}: its clock steps by {step:+.0f}")
        self.after(hours * 3600, lambda: setattr(machine, "offset", 0.0))

    def _settle(self) -> None:
        """The end: everything works again."""
        self.server_offset = 0.0
        upgraded = any(machine.program == 2 for machine in self.machines)
        for machine in self.machines:
            machine.offset = machine.asleep_until = 0.0
            self._pull(machine)
            if upgraded:
                self._install(machine)
        for one in (*self._daemons, *self._supervisors):
            one.frozen_until = 0.0
        self.say("calm")

    # ── supervisors ──

    def start(self, daemon: Daemon, job: Job, claim: Claim) -> None:
        again = (job.name, job.key) in self.shared.done and not claim.attempted and claim.starts == 1
        if again and self.kind != GIT:  # there a machine that was away may not know of it, and finds the done key
            raise self._violation(f"{job.name}: {job.key} is done, and was claimed again")
        process = Supervisor(self, daemon, job, claim.id)
        self._supervisors.append(process)
        delay = self.chance.choice((0.1, 0.1, 0.1, 1.0, 45.0 if not self._calm else 0.1))
        self.after(delay, process.step)

    # ── what must hold ──

    def act(self, process: Supervisor) -> None:
        key = process.job.name, process.job.key
        self.acts[key] = self.acts.get(key, 0) + 1
        if self.acts[key] > 1:
            raise self._violation(f"{key} was done twice")

    def begin_work(self, process: Supervisor) -> None:
        other = self.at_work.get(process.job.name)
        if other and other is not process and other.works(self.time):
            raise self._violation(f"two are at work on {process.job.name}")
        self.at_work[process.job.name] = process

    def check(self, calm: float) -> None:
        for job in JOBS:
            row = parsed(self.shared.read(job, program=2))
            stretches, acts = self.shared.stretches[job], [key for name, key in self.acts if name == job]
            due, (definition, minutes) = stretches.due(int(row.slot)), self.files.definition(job)
            ledgers = list({id(machine.ledger): machine.ledger for machine in self.machines}.values())
            known: list[Any] = []
            for ledger in ledgers:
                known = merged(known, ledger.slots.of(job))
            wrong = [
                *sim_checks.wrong_outcomes(
                    job, row, merged(known, row.records), due, self.shared.passed[job], self.sealed, acts
                ),
                *sim_checks.silence(job, row, stretches.period, EPOCH + self.time, EPOCH + calm),
                *self.shared.wrong,
            ]
            left = self.shared.left.get(job, ())
            for machine in self.machines if len(ledgers) > 1 else ():
                alone = merged(machine.ledger.slots.of(job), row.records)
                lacks = sim_checks.missing(job, row, alone, due, left, machine.looks[job])
                wrong += [f"{machine.name} alone: {one}" for one in lacks]
            if (row.definition, stretches.period) != (definition, 60 * minutes):
                wrong.append(f"{job}: {row.definition} is in force, and the newest is {definition}")
            if wrong:
                raise self._violation(wrong[0])

    def _violation(self, what: str) -> Violation:
        end = "\n".join(self.course[-60:])
        return Violation(f"seed {self.seed} on {self.kind}: {what}\n{end}")
