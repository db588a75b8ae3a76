"""The simulator: the real scheduler and the real moves of claims, on simulated clocks, stores and processes.

A seed is a course: machines and daemons are killed, frozen, put to sleep, their clocks are stepped, replies are lost.
The same seed is the same course, to the last move. `Simulation(seed, kind).run()` raises `Violation` with the course.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Generator
from types import SimpleNamespace
from typing import Any
from unittest import mock

from nightlatch.core import row as rows
from nightlatch.core import statuses
from nightlatch.core.job import Job
from nightlatch.core.row import RAN
from nightlatch.core.schedule import name_of, named
from nightlatch.core.target import Command
from nightlatch.errors import Busy, InDoubt, StoreUnreachable
from nightlatch.ledger.slots import merged
from nightlatch.runtime.supervisor.run import claim as claims
from nightlatch.runtime.supervisor.run import rows as moving
from nightlatch.runtime.supervisor.run.claim import Claimed
from nightlatch.scheduler import scheduler
from nightlatch.scheduler.scheduled import Scheduled
from nightlatch.scheduler.scheduler import Scheduler
from tests.support.scheduling.sim_store import TTL, Shared, SimLeases, SimLedger, SimStore, unreachable

SQLITE, POSTGRES, GIT = KINDS = ("sqlite", "postgres", "git")
EPOCH = 1_800_000_000.0
DAY = 86_400.0
POLL = 120.0  # seconds between two looks; the real two would fill a day with looks at nothing

JOBS: dict[str, dict[str, Any]] = {
    "often": {"schedule": ("every 20m",), "retries": 1, "backoff": 60.0, "lost": "again"},
    "queued": {"schedule": ("every 45m",), "overlap": "queue", "lost": "doubt"},
    "replaced": {"schedule": ("every 1h",), "overlap": "cancel", "lost": "again"},
    "punctual": {"schedule": ("every 2h",), "catch_up": "none", "late": 1800.0, "lost": "again"},
}
PERIODS = {"often": 1200, "queued": 2700, "replaced": 3600, "punctual": 7200}


class Violation(AssertionError):
    """A promise was broken; the message has the end of the course."""


class Killed(BaseException):
    """The process is gone in the middle of something."""


class Machine:
    def __init__(self, name: str, world: Simulation) -> None:
        self.name, self._world = name, world
        self.offset = 0.0  # of its wall clock
        self.asleep_until = 0.0
        self.slept = 0.0
        self.ledger = world.ledger

    def now(self) -> float:
        return self._world.time

    def wall(self) -> float:
        return EPOCH + self._world.time + self.offset

    def awake(self) -> float:
        return self._world.time - self.slept


class Process:
    """A daemon or a supervisor: what may be killed and frozen."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.gone = False
        self.frozen_until = 0.0
        self.key = ""

    def held_up(self, now: float) -> float:
        return max(self.frozen_until, self.machine.asleep_until, now)


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
        self.ledger = SimLedger(self._ledger_fault)
        self.machines = [Machine(f"m{place}", self) for place in range(1 if kind == SQLITE else machines)]
        if kind == GIT:
            for machine in self.machines:
                machine.ledger = SimLedger(self._ledger_fault)
        self.acts: dict[tuple[str, str], int] = {}
        self.sealed: set[tuple[str, str]] = set()
        self.at_work: dict[str, list[Process]] = {}
        self._daemons: list[Daemon] = []
        self._supervisors: list[Process] = []
        self.host = ""  # of the process that is working
        self.released_before_end = False  # a measure that is taken away

    def run(self) -> Simulation:
        identity = SimpleNamespace(new_id=self.new_id, host=lambda: self.host)
        pauses = SimpleNamespace(sleep=lambda _: None)
        with (
            mock.patch.object(claims, "identity", identity),
            mock.patch.object(moving, "identity", identity),
            mock.patch.object(moving, "clock", pauses),
            mock.patch.object(scheduler, "POLL", POLL),
        ):
            for machine in self.machines:
                for _ in range(2 if self.kind == SQLITE else 1):
                    self._daemons.append(Daemon(self, machine))
            self._plan_faults()
            self._go_on(self.days * DAY)
            self._calm = True
            self._settle()
            self._go_on(self.time + 6 * 3600)
        self.check()
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
                self.say(f"{process.machine.name}: frozen in front of a move")
                self._go_on(self.time + self.chance.choice((5.0, 40.0, 200.0, 4000.0)))
                process.frozen_until = busy
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

    def _somebody(self) -> Process | None:
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
        for machine in self.machines:
            machine.offset = machine.asleep_until = 0.0
        for one in (*self._daemons, *self._supervisors):
            one.frozen_until = 0.0
        self.say("calm")

    # ── supervisors ──

    def start(self, machine: Machine, job: Job, claim: str) -> None:
        process = Supervisor(self, machine, job, claim)
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
        others = [one for one in self.at_work.get(process.job.name, []) if one is not process and one.works(self.time)]  # type: ignore[attr-defined]
        if others:
            raise self._violation(f"two are at work on {process.job.name}")
        self.at_work[process.job.name] = [process]

    def check(self) -> None:
        for job, period in PERIODS.items():
            row = rows.read(self.shared.rows[job])
            known: list[Any] = []
            for ledger in {id(machine.ledger): machine.ledger for machine in self.machines}.values():
                known = merged(known, ledger.slots.of(job))
            known = merged(known, row.records)
            self._check_outcomes(job, period, row, known)
            self._check_alive(job, period, row)

    def _check_outcomes(self, job: str, period: int, row: Any, known: list[Any]) -> None:
        found: dict[int, list[Any]] = {}
        for record in known:
            for slot in range(int(record.first), int(record.last) + 1, period):
                found.setdefault(slot, []).append(record)
        for slot, all_of_it in found.items():
            records = all_of_it
            # A range that was made after a set-back may reach over slots that ran before it: their own records count.
            own = [one for one in records if one.ran]
            if own and all(one.ran or one.era > own[0].era for one in records):
                found[slot] = records = own
            if len(records) > 1:
                raise self._violation(f"{job}: {name_of(slot)} has {len(records)} outcomes: {records}")
            if records[0].outcome == RAN and (job, name_of(slot)) not in self.sealed:
                raise self._violation(f"{job}: {name_of(slot)} ran, and no attempt began")
        still = int(row.claim.slot) if row.claim and row.claim.is_open else 0
        begin = int(EPOCH // period) * period + period
        missing = [slot for slot in range(begin, int(row.slot) + 1, period) if slot not in found and slot != still]
        if missing:
            raise self._violation(
                f"{job}: {len(missing)} slots without an outcome: {[name_of(one) for one in missing[:5]]}"
            )
        for name, key in self.acts:
            slot = named(key)
            if name == job and slot != still and (slot not in found or found[slot][0].outcome != RAN):
                raise self._violation(f"{job}: {key} was done, and its outcome is {found.get(slot)}")

    def _check_alive(self, job: str, period: int, row: Any) -> None:
        now = EPOCH + self.time
        newest = int((now - period - 600) // period) * period
        if not newest <= row.slot <= now:
            raise self._violation(f"{job} is silent: decided up to {name_of(row.slot)}, at {name_of(int(now))}")
        if row.claim and row.claim.is_open and now - row.claim.at > 2 * period + 3 * 3600:
            raise self._violation(f"{job}: the claim for {name_of(row.claim.slot)} does not end: {row.claim}")

    def _violation(self, what: str) -> Violation:
        end = "\n".join(self.course[-60:])
        return Violation(f"seed {self.seed} on {self.kind}: {what}\n{end}")


class Daemon(Process):
    def __init__(self, world: Simulation, machine: Machine) -> None:
        super().__init__(machine)
        self._world = world
        self._boot()
        world.after(world.chance.uniform(0, POLL), self.step)

    def _boot(self) -> None:
        world, machine = self._world, self.machine
        store = SimStore(world.shared, machine.wall, world.fault(self))
        jobs = {
            name: Job(name=name, target=Command(words=("true",)), tz="UTC", **options) for name, options in JOBS.items()
        }
        self._scheduler = Scheduler(
            store,  # type: ignore[arg-type]
            machine.ledger,  # type: ignore[arg-type]
            host=machine.name,
            at_once=3,
            clocks=machine,  # type: ignore[arg-type]
            new_id=world.new_id,
            start=lambda job, claim: world.start(machine, job.start(claim), claim.id),
            leases=SimLeases(store, machine, lambda: world.time),  # type: ignore[arg-type]
        )
        self._scheduler.shared = False
        self._scheduler.serve({name: Scheduled(job, "definition") for name, job in jobs.items()})

    def step(self) -> None:
        world = self._world
        if self.gone:
            self.gone = False
            world.after(world.chance.choice((1.0, 60.0, 4000.0)), self.step)
            self._boot()  # it is started again, and remembers nothing
            return
        if (until := self.held_up(world.time)) > world.time:
            world.at(min(until, world.time + 300), self.step)
            return
        pause = POLL
        world.host = self.machine.name
        try:
            pause = self._scheduler.look()
        except StoreUnreachable:
            pause = 5.0
        except Killed:
            pass
        world.after(max(pause, 0.5), self.step)


class Supervisor(Process):
    """The way of one run, as the pipeline has it, with the real moves of its claim."""

    def __init__(self, world: Simulation, machine: Machine, job: Job, claim: str) -> None:
        super().__init__(machine)
        self.job, self._world = job, world
        self.key = job.key
        self._claimed = Claimed(job, claim)
        self._store: Any = SimStore(world.shared, machine.wall, world.fault(self))
        self._ledger: Any = machine.ledger
        self.grant = ""
        self._confirmed = 0.0
        self._steps = self._run()
        self._working = False

    def works(self, now: float) -> bool:
        """Its tree is ended by its warden when it is killed, and at 0.9 of a TTL without a renewal."""
        return self._working and not self.gone and now < self._confirmed + 0.9 * TTL

    def step(self) -> None:
        world = self._world
        if self.gone:
            return
        if (until := self.held_up(world.time)) > world.time:
            world.at(min(until, world.time + 300), self.step)
            return
        world.host = self.machine.name
        try:
            pause = next(self._steps)
        except (StopIteration, Killed, StoreUnreachable):
            self.gone, self._working = True, False
            return
        world.after(pause, self.step)

    def _run(self) -> Generator[float]:
        world, job, ledger, store, claimed = self._world, self.job, self._ledger, self._store, self._claimed
        after = None
        while True:
            known = ledger.find(job.name, job.key)
            done = (job.name, job.key) in world.shared.done
            if done or (known and known.status == statuses.SUCCEEDED):
                claimed.settle(store, ledger, self._verdict("skipped", known))
                return
            if known and statuses.needs_person(known.status):
                claimed.closed_by(known)
                claimed.not_begun(store, ledger, InDoubt("decide"))
                return
            if not after and claimed.closed_by(known):
                claimed.settle(store, ledger, self._verdict(known.status, known))
                return
            if known and known.status == statuses.WAITING and not after and known.due > store.clock():
                claimed.not_begun(store, ledger, Busy("not due"))
                return
            yield 0.1
            self.grant = world.new_id()
            try:
                token = store.acquire(job.name, self.grant, self, world.time)
            except Busy as busy:
                claimed.not_begun(store, ledger, busy)
                return
            self._confirmed = world.time
            yield world.chance.choice((0.05, 0.05, 5.0))
            try:
                claimed.begin(store, ledger, self)  # type: ignore[arg-type]
            except Busy:
                store.release(job.name, self.grant)
                return
            yield 0.05
            verdict = self._seal(token)
            if verdict is None:
                world.begin_work(self)
                self._working = True
                yield from self._work()
                if not self._held():
                    return  # the lease is lost, the tree is ended; what became of it, the next holder finds out
                self._working = False
                verdict = self._finish(token)
            if world.released_before_end:
                store.release(job.name, self.grant)
            yield 0.05
            claimed.settle(store, ledger, verdict)
            yield 0.05
            store.release(job.name, self.grant)
            if verdict.status != statuses.WAITING:
                return
            after = verdict
            while store.clock() < verdict.due <= store.clock() + DAY:
                yield 30.0

    token = 0

    def _seal(self, token: int) -> Any:
        """None: the attempt has begun. Otherwise how it ended without one."""
        self.token = token
        run = self._ledger.open(self.job.name, self.job.key)
        if run.token > token or not self._held():
            raise Killed  # a newer holder has sealed it
        if run.status == statuses.RUNNING and self.job.when_lost == "doubt":
            run.status, run.token = statuses.IN_DOUBT, token
            return self._verdict(run.status, run)
        if run.status in (statuses.SUCCEEDED, *statuses.NEEDS_PERSON):
            return self._verdict(run.status, run)
        run.attempt, run.token, run.grant, run.status = run.attempt + 1, token, self.grant, statuses.RUNNING
        if self._claimed.gives_up:
            run.status = statuses.NEEDS_ATTENTION
            return self._verdict(run.status, run)
        self._world.sealed.add((self.job.name, self.job.key))
        return None

    def _work(self) -> Generator[float]:
        left = self._world.chance.choice((5.0, 60.0, 900.0, 4000.0))
        while left > 0:
            pause = min(left, TTL / 3)
            yield pause
            left -= pause
            if not self._held() or not self._store.renew(self.job.name, self.grant, self._world.time):
                return
            self._confirmed = self._world.time
            if (run := self._ledger.find(self.job.name, self.job.key)) and run.cancel:
                return

    def _held(self) -> bool:
        return self._store.holds(self.job.name, self.grant) and self._world.time < self._confirmed + 0.9 * TTL

    def _finish(self, token: int) -> Any:
        world, run = self._world, self._ledger.find(self.job.name, self.job.key)
        if run.token != token:
            raise Killed  # overtaken: its end is not recorded
        if run.cancel:
            run.status = statuses.CANCELLED
        elif world.chance.random() < 0.8:
            # What it does and that it is done land together, as through a gate.
            if (self.job.name, self.job.key) not in world.shared.done:
                world.act(self)
            world.shared.done.add((self.job.name, self.job.key))
            run.status = statuses.SUCCEEDED
        elif run.attempt <= self.job.retries:
            run.status, run.due = statuses.WAITING, self._store.clock() + 60.0
        else:
            run.status = statuses.FAILED
        return self._verdict(run.status, run)

    def _verdict(self, status: str, run: Any) -> Any:
        return SimpleNamespace(
            held=None,
            status=status,
            due=(run.due or 0.0) if run else 0.0,
            attempt=run.attempt if run else 0,
            run=run.id if run else "",
        )
