"""The processes of the simulator: a daemon has the real scheduler, a supervisor the real moves of its claim."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from nightlatch.core import statuses
from nightlatch.core.job import Job
from nightlatch.core.retry import GAVE_UP, is_due
from nightlatch.errors import Busy, InDoubt, StoreUnreachable
from nightlatch.runtime.supervisor.run.claim import Claimed
from nightlatch.scheduler.scheduler import Scheduler
from tests.support.scheduling.sim_checks import LONGEST_RUN
from tests.support.scheduling.sim_store import TTL, SimLeases, SimStore

if TYPE_CHECKING:
    from tests.support.scheduling.simulation import Simulation

EPOCH = 1_800_000_000.0
DAY = 86_400.0
POLL = 240.0  # seconds between two looks; the real two would fill a day with looks at nothing
RENEWAL = TTL * 2 / 3  # seconds; a third would double the events of a course


class Killed(BaseException):
    """The process is gone in the middle of something."""


class Machine:
    def __init__(self, name: str, world: Simulation) -> None:
        self.name, self._world = name, world
        self.offset = 0.0  # of its wall clock
        self.asleep_until = 0.0
        self.slept = 0.0
        self.ledger = world.ledger
        self.file = world.files.first()
        self.served: dict[str, str] = {}  # kept on its disk
        self.program = 1  # an upgrade makes it 2
        self.looks: dict[str, list[float]] = {job: [] for job in self.file}  # by job: when its row was seen

    def now(self) -> float:
        return self._world.time

    def wall(self) -> float:
        return EPOCH + self._world.time + self.offset

    def awake(self) -> float:
        return self._world.time - self.slept


class Process:
    """A daemon or a supervisor: what may be killed and frozen."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.program = machine, machine.program
        self.gone = False
        self.frozen_until = 0.0
        self.key = ""

    def held_up(self, now: float) -> float:
        return max(self.frozen_until, self.machine.asleep_until, now)


class Daemon(Process):
    def __init__(self, world: Simulation, machine: Machine) -> None:
        super().__init__(machine)
        self._world = world
        self._boot()
        self._turn = 0  # of the step that comes next; a run that ends brings it forward
        self._ended: set[str] = set()
        self._again(world.chance.uniform(0, POLL))

    def _boot(self) -> None:
        world, machine = self._world, self.machine
        self.program = machine.program
        store = SimStore(world.shared, machine.wall, world.fault(self), self.program)
        self._scheduler = Scheduler(
            store,  # type: ignore[arg-type]
            machine.ledger,  # type: ignore[arg-type]
            host=machine.name,
            at_once=3,
            clocks=machine,  # type: ignore[arg-type]
            new_id=world.new_id,
            start=lambda job, claim: world.start(self, job.start(claim), claim),
            leases=SimLeases(store, machine, lambda: world.time),  # type: ignore[arg-type]
        )
        self._scheduler.shared = world.shares_files
        self._scheduler.served = machine.served
        self._file: dict[str, int] = {}

    def run_ended(self, job: str) -> None:
        self._ended.add(job)
        if not self.gone:
            self._again(0.0)

    def _again(self, pause: float) -> None:
        self._turn += 1
        self._world.after(pause, partial(self._step, self._turn))

    def _step(self, turn: int) -> None:
        world = self._world
        if turn != self._turn:
            return
        if self.gone:
            self.gone = False
            self._boot()  # it is started again, and remembers nothing
            self._ended.clear()
            self._again(world.chance.choice((1.0, 60.0, 4000.0)))
            return
        if (until := self.held_up(world.time)) > world.time:
            self._again(min(until - world.time, 300))
            return
        pause = POLL
        world.host = self.machine.name
        if self._file != self.machine.file:
            self._file = dict(self.machine.file)
            self._scheduler.serve(world.files.jobs(self._file))
        world.file = self._file
        ended, self._ended = self._ended, set()
        try:
            pause = self._scheduler.start_waiting(ended) if ended else self._scheduler.look()
        except StoreUnreachable:
            pause = 5.0
        except Killed:
            pass
        else:
            for job in self._file.keys() - self._scheduler._reader.unreadable:
                self.machine.looks[job].append(world.time)
        self._again(max(pause, 0.01))


class Supervisor(Process):
    """The way of one run, as the pipeline has it, with the real moves of its claim."""

    def __init__(self, world: Simulation, daemon: Daemon, job: Job, claim: str) -> None:
        machine = daemon.machine
        super().__init__(machine)
        self._daemon = daemon  # that has started it
        self.job, self._world = job, world
        self.key = job.key
        self._claimed = Claimed(job, claim)
        self._store: Any = SimStore(world.shared, machine.wall, world.fault(self), self.program)
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
            self._daemon.run_ended(self.job.name)
            return
        if (until := self.held_up(world.time)) > world.time:
            world.at(min(until, world.time + 300), self.step)
            return
        world.host = self.machine.name
        try:
            pause = next(self._steps)
        except (StopIteration, Killed, StoreUnreachable):
            self.gone, self._working = True, False
            self._daemon.run_ended(self.job.name)
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
                claimed.note_not_begun(store, ledger, InDoubt("decide"))
                return
            if not after and claimed.closed_by(known):
                claimed.settle(store, ledger, self._verdict(known.status, known))
                return
            if known and known.status == statuses.WAITING and not after and not is_due(known.due, store.clock()):
                claimed.note_not_begun(store, ledger, Busy("not due"))
                return
            yield 0.1
            self.grant = world.new_id()
            try:
                token = store.acquire(job.name, self.grant, self, world.time)
            except Busy as busy:
                claimed.note_not_begun(store, ledger, busy)
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
                if job.name == world.dies_at_work:
                    raise Killed
                world.begin_work(self)
                self._working = True
                yield from self._work()
                if not self._held():
                    return  # the lease is lost, the tree is ended; what became of it, the next holder finds out
                self._working = False
                verdict = self._finish(token)
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
            run.status, run.reason = statuses.NEEDS_ATTENTION, GAVE_UP
            return self._verdict(run.status, run)
        self._world.sealed.add((self.job.name, self.job.key))
        return None

    def _work(self) -> Generator[float]:
        left = self._world.chance.choice((5.0, 60.0, 900.0, LONGEST_RUN))
        while left > 0:
            pause = min(left, RENEWAL)
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


class ByHand(Process):
    """A person's run: it holds the job's lease for a while, and no slot is its."""

    def __init__(self, world: Simulation, machine: Machine, job: str) -> None:
        super().__init__(machine)
        self._world, self._job, self._grant = world, job, world.new_id()
        self._store: Any = SimStore(world.shared, machine.wall, lambda _: None, self.program)
        self._until = world.time + world.chance.choice((30.0, 1500.0, 4000.0))
        try:
            self._store.acquire(job, self._grant, self, world.time)
        except Busy:
            return
        world.say(f"{machine.name}: {job} is run by hand")
        self.step()

    def step(self) -> None:
        world = self._world
        if self.gone or not self._store.renew(self._job, self._grant, world.time):
            return
        if (until := self.held_up(world.time)) > world.time:
            world.at(min(until, world.time + 300), self.step)
        elif world.time >= self._until:
            self._store.release(self._job, self._grant)
        else:
            world.after(RENEWAL, self.step)
