"""Start a command and serve it: its words, its output, its bounds, until its tree is proven empty."""

from __future__ import annotations

import os
import select

from .... import exits
from ....core import states
from ....store import handle, url
from ....system import clock, redaction, warden
from ....system.light import signal
from .. import backoff
from ..leases import supervise
from ..socket.listener import Listener
from ..socket.server import Socket
from . import output, watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....core.job import Job
    from ....ledger.ledger import Ledger
    from ....ledger.writer import Writer
    from ....system.warden import Warden
    from ...both.leases.lease import Lease
    from ..batches.batch import Checkpoints
    from ..publishing.delivery import Delivery
    from ..socket.listener import Told
    from .ending import Ending
    from .spending import Spending

_IDLE = 0.2  # seconds without a word after which there is time to import what may be needed later


class Attendance:
    """One attempt's command. `ending` tells how it came out."""

    def __init__(
        self,
        job: Job,
        lease: Lease,
        ledger: Ledger,
        writer: Writer,
        told: Told,
        spending: Spending,
        ending: Ending,
        *,
        guard: Warden,
        streams: tuple[int, int],
        folder: str,
        delivery: Delivery | None,
        checkpoints: Checkpoints | None,
        where: str,
    ) -> None:
        """`streams`: where its standard output and error can be read. `folder`: where they are kept. `where`: the
        store's URL."""
        self._job, self._lease, self._ending, self._guard, self._delivery = job, lease, ending, guard, delivery
        self._watch = watch.Watch(
            now=clock.now(),
            stall=job.stall,
            paths=[os.path.join(delivery.path, path) if delivery else path for path in job.watched],
            caps=job.budget,
            spent_before=spending.before,
            cancelled_by=writer.cancel_requested,
        )
        self.began = False  # from here on the command may act
        self._kept = output.Kept(folder)
        self._told = told
        self._listener = Listener(told, lease, ledger, writer, self._watch, folder, checkpoints, guard)
        self._listener.passed = where if job.pass_store else ""
        self._socket = Socket(lease.grant, self._listener.answers)
        self._environment = supervise.environment(lease) | dict(job.env) | {
            "NIGHTLATCH_RUN": writer.run.id,
            "NIGHTLATCH_JOB": job.name,
            "NIGHTLATCH_KEY": writer.run.key,
            "NIGHTLATCH_SLOT": job.due,
            "NIGHTLATCH_ATTEMPT": str(writer.run.attempt),
            "NIGHTLATCH_SOCKET": self._socket.path,
        }  # fmt: skip
        if delivery:
            self._environment = delivery.environment(self._environment)
        else:
            self._environment.pop("NIGHTLATCH_WORKSPACE", None)  # of a run that this one is started in
        self._environment.pop(url.ENV, None)  # the store's password is not the agent's business
        if job.pass_store:
            self._environment[url.ENV] = f"{handle.PREFIX}{self._socket.path}"
        self._listener.hidden = hidden = redaction.secrets(self._environment)
        if checkpoints:
            checkpoints.hidden = hidden
        bar = checkpoints.bar if checkpoints else None
        self._streams = {fd: output.Stream(fd, screen, self._kept, hidden, bar) for screen, fd in enumerate(streams, 1)}

    def run(self, started: float) -> None:
        job = self._job
        if job.meter == "output":
            from ...both import usage  # before the command starts: an upgrade in mid-run changes nothing
        supervise.forward_signals(self._guard, job.grace)
        if job.timeout is not None:
            self._guard.tell("limit", started + job.timeout)
        if job.keep_awake:
            from ....system.awake import keep_awake

            keep_awake(os.getpid())  # a child of ours, ended with the rest when the warden is dismissed
        place = self._delivery.path if self._delivery else job.cwd
        self.began = True
        self._guard.start(job.command, self._environment, cwd=place, grace=job.grace)
        try:
            self._attend()
        finally:
            self._listener.over()
            self._ending.abandoned(self._listener.told)
            self._socket.close()
            self._kept.close()
        backoff.patiently(self._lease, self._listener.unwritten.write)
        if job.meter == "output":
            tail = next(iter(self._streams.values())).tail
            found = usage.from_output(tail)
            if found:
                backoff.patiently(self._lease, lambda: self._listener.spend(found, source="output"))
            elif job.budget:
                self._told.unmetered = "no usage found at the end of its output: its budget was not counted"
            if not self._ending.exit_code and (why := usage.complaint(tail)):
                self._ending.exit_code, self._told.failure = 1, self._told.failure or why

    def show_rest(self) -> None:
        """What the screen has not taken yet, however long it takes: the run is over."""
        for stream in self._streams.values():
            stream.finish()

    def _attend(self) -> None:
        """Serve the command until the warden has proven its tree empty and all its output is read."""
        reading, streams = set(self._streams), self._streams
        poll, polled = _polling(set(), set()), (set[int](), set[int]())
        while not self._ending.over or reading:
            now = clock.now()
            self._judge(now)
            if not self._ending.over and self._guard.silent():
                self._take_report()
            again = self._listener.tick(now)
            wanted = {*reading, *self._socket.descriptors}
            showing: set[int] = set()
            if not self._ending.over:
                wanted.add(self._guard.fileno())
                stopped = {fd for fd in reading if streams[fd].unshown}  # what is not shown yet is not read either
                wanted, showing = wanted - stopped, {streams[fd].screen for fd in stopped}
            sending = showing | set(self._socket.sending)
            if (wanted, sending) != polled:
                poll, polled = _polling(wanted, sending), (wanted, sending)
            pause = min(self._watch.next_at(now) - now, again - now, clock.SLICE if self._listener.warm else _IDLE)
            ready = [fd for fd, _ in poll.poll(max(pause, 0.0) * 1000 + 1)]
            if not ready:
                self._listener.warm_up()
            asking = []
            for fd in ready:
                if fd in showing:
                    for stream in streams.values():
                        stream.show()
                elif fd == self._guard.fileno():
                    self._take_report()
                elif fd not in reading:
                    asking.append(fd)
                elif not streams[fd].pump():
                    reading.discard(fd)
            self._socket.serve(asking)

    def _judge(self, now: float) -> None:
        if self._ending.over or self._ending.decided:
            return
        late = self._listener.overdue(now)
        judged = late[:2] if late else self._watch.judge(now)
        if judged:
            self._ending.decided = judged
            self._guard.tell("end", judged[0], late[2] if late else self._job.grace, int(signal.SIGTERM))

    def _take_report(self) -> None:
        match self._guard.report():
            case ("started", int()):
                pass
            case ("failed", int(number), str(where)):
                failure = supervise.not_started(self._job.command[0], number, where)
                self._ending.decide(states.FAILED, failure.said, failure.exit_code)
            case ("ended", int(status), str(why), int(left)):
                late = self._listener.overdue(clock.now()) if why == warden.OVERDUE else None
                self._ending.decided = self._ending.decided or (late[:2] if late else None)
                self._ending.report(status, why, left)
            case None:
                self._guard.dismiss()  # and with it whatever it left behind
                self._ending.decide(states.LOST, "its warden was killed; all it had started was ended", exits.OURS)


def _polling(wanted: set[int], sending: set[int]) -> select.poll:
    poll = select.poll()
    for fd in wanted:
        poll.register(fd, select.POLLIN)
    for fd in sending:
        poll.register(fd, select.POLLOUT)
    return poll
