"""Start a command and serve it (requests, output, bounds) until its tree is proven empty."""

from __future__ import annotations

import os
import select

from ....config import place
from ....core import statuses
from ....core.job import GATEWAY, Job
from ....core.target import DRIVER
from ....store import url
from ....system import clock, redaction, warden
from ....system.warden_messages import Ended
from ...shared import trace
from .. import backoff
from ..socket.server import Socket
from ..supervision import BY_HAND, Supervision
from . import output, watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ....ledger.ledger import Ledger
    from ....ledger.writer import Writer
    from ...shared.leases.lease import Lease
    from ...shared.replies import DeferredReply, Request
    from ..agents.at_work import AgentsAtWork
    from ..batches.batch import Checkpoints
    from ..metering.gateway_process import GatewayProcess
    from ..publishing.delivery import Delivery
    from ..socket.listener import Listener
    from ..socket.reported import Reported
    from .ending import Ending
    from .spending import Spending

INTERRUPTED, SHUT_DOWN, TAKEN = "interrupted", "shut-down", "taken"  # why a command is ended, besides the statuses
LEFT_ALONE = (TAKEN, SHUT_DOWN, statuses.LOST)  # agents at a vendor then go on: the next holder reattaches

_IDLE = 0.2  # seconds without a request, after which what may be needed later is loaded
_BUSY = 5.0  # seconds after which that is loaded even if the command sends requests all the time


class Attendance:
    """One attempt's command. `ending` says how it ended."""

    def __init__(
        self,
        job: Job,
        supervision: Supervision,
        lease: Lease,
        ledger: Ledger,
        writer: Writer,
        reported: Reported,
        spending: Spending,
        ending: Ending,
        *,
        folder: str,
        variables: dict[str, str],
        delivery: Delivery | None,
        checkpoints: Checkpoints | None,
        where: str,
    ) -> None:
        """`folder`: the run's, where its output is kept. `variables`: for the command, besides NIGHTLATCH_*.
        `where`: the store's URL."""
        self._writer, self._spending = writer, spending
        self._job, self._lease, self._ending = job, lease, ending
        self._cwd = delivery.path if delivery else job.cwd
        self._supervision, self._warden = supervision, supervision.warden
        self._watch = watch.RunWatch(
            now=clock.now(),
            stall=job.stall,
            paths=[os.path.join(delivery.path, path) if delivery else path for path in job.watched],
            caps=lambda: spending.caps,
            used=reported.used,
            spent_before=spending.before,
            cancelled_by=self._check_requests,
        )
        self.began = False  # True as soon as the command may act
        self._kept = output.KeptOutput(folder)
        self._reported = reported
        self._opened_listener: Listener | None = None
        self._ledger, self._folder, self._until = ledger, folder, float("inf")
        self._where, self._checkpoints, self._holding = where, checkpoints, False
        self._agents: AgentsAtWork | None = None
        self._socket = Socket(lease.grant, self._answers)
        self._environment = supervision.environment() | variables | {
            "NIGHTLATCH_RUN": writer.run.id,
            "NIGHTLATCH_JOB": job.name,
            "NIGHTLATCH_KEY": writer.run.key,
            "NIGHTLATCH_SLOT": job.due,
            "NIGHTLATCH_MISSED": str(job.missed),
            "NIGHTLATCH_SINCE": job.since,
            "NIGHTLATCH_ATTEMPT": str(writer.run.attempt),
            "NIGHTLATCH_SOCKET": self._socket.path,
            trace.ENV: trace.for_command(ledger.id, writer.run.id, writer.run.attempt, trace.of_caller(os.environ)),
            place.ENV: place.of_a_run(job.file),
        }  # fmt: skip
        if delivery:
            self._environment = delivery.environment(self._environment)
        else:
            self._environment.pop("NIGHTLATCH_WORKSPACE", None)  # that of an outer run
        self._environment.pop(url.ENV, None)  # the command must not get the store's password
        if job.pass_store:
            from ....store.via_supervisor import PREFIX

            self._environment[url.ENV] = f"{PREFIX}{self._socket.path}"
        self._hidden = hidden = redaction.secrets(self._environment)
        self._gateway: GatewayProcess | None = None
        if spending.metered_by(job) == GATEWAY:
            from .. import metering

            self._gateway = metering.open_gateway(
                job, lease, ledger, writer, spending, self._environment, self._listener, folder
            )
            self._environment = self._gateway.masked.environment  # without the vendors' keys, which are still redacted
        if checkpoints:
            checkpoints.hidden, checkpoints.on_item_end = hidden, self._item_ended
        bar = checkpoints.bar if checkpoints else None
        self._streams = {
            fd: output.OutputStream(fd, screen, self._kept, hidden, bar) for screen, fd in supervision.streams.items()
        }

    def set_holding(self, holding: bool) -> None:
        """With `holding`, effects and publishing are refused: the run holds its writes for an approval."""
        self._holding = holding

    def _answers(self, requests: list[Request]) -> list[dict[str, Any] | DeferredReply]:
        return self._listener.answers(requests)

    @property
    def _listener(self) -> Listener:
        """Made at its first use: most commands send no request."""
        if self._opened_listener is None:
            from ..socket.listener import Listener

            listener = self._opened_listener = Listener(
                self._reported, self._lease, self._ledger, self._writer, self._watch, self._folder, self._checkpoints,
                self._warden.bound,
            )  # fmt: skip
            listener.passed_store = self._where if self._job.pass_store else ""
            listener.agents, listener.why_ending = self._at_work, self.why_ending
            listener.hidden, listener.holding = self._hidden, self._holding
        return self._opened_listener

    def run(self, started: float) -> None:
        """Start the command, attend it until it has ended, and record what it used."""
        job = self._job
        if job.keep_awake:
            from ....system.awake import keep_awake

            keep_awake(os.getpid())  # its process ends with the rest, when the warden is dismissed
        limit = None if job.timeout is None else started + job.timeout
        self._until = float("inf") if limit is None else limit
        self.began = True
        self._supervision.start(self._environment, cwd=self._cwd, grace=job.grace, limit=limit)
        from ....ledger import tally  # noqa: F401 - every run's end needs these: loaded while its command starts
        from ..afterwards import retention  # noqa: F401

        if DRIVER in job.command[:4]:
            self._at_work().warm_up()
        try:
            self._attend()
        finally:
            if self._gateway:
                self._gateway.close()
            if self._opened_listener:
                self._opened_listener.command_ended()
            self._ending.fail_if_abandoned(self._reported)
            self._socket.close()
            self._kept.close()
        if self._opened_listener:
            backoff.until_recorded(self._lease, self._opened_listener.unwritten.write)
        if self._gateway:
            backoff.until_recorded(self._lease, self._gateway.write)
            self._gateway.conclude(self._reported)
        if job.meter == "output":
            from ...shared.usage import complaint, from_output

            tail = next(iter(self._streams.values())).tail
            found = from_output(tail)
            if found:
                backoff.until_recorded(self._lease, lambda: self._listener.spend(found, source="output"))
            elif job.budget:
                self._reported.unmetered = "no usage found at the end of its output: its budget was not counted"
            self._ending.fail_if_complained(self._reported, complaint(tail))

    def _at_work(self) -> AgentsAtWork:
        if self._agents is None:
            from ..agents.at_work import AgentsAtWork

            self._agents = AgentsAtWork(
                self._lease, self._ledger, self._writer, self._spending, self._reported.used, self._listener.spend_with,
                self._hidden.text, folder=self._folder, again=self._job.again, environment=self._environment,
                cwd=self._cwd,
            )  # fmt: skip
        return self._agents

    def why_ending(self) -> str:
        """Why the command is being ended from outside: a status, INTERRUPTED, SHUT_DOWN or TAKEN; "" if it is not."""
        if self._lease.lost:
            return TAKEN
        if self._ending.decided:
            return self._ending.decided[0]
        if self._supervision.end_signal:
            return INTERRUPTED if self._supervision.end_signal in BY_HAND else SHUT_DOWN
        return statuses.TIMED_OUT if clock.now() >= self._until else ""

    def end_agents(self, *, will_retry: bool) -> str:
        """End the agents that would go on unwatched, now that their drivers are gone. Returns what a person has to do;
        "": nothing."""
        why = self.why_ending()
        if not self._agents or why in LEFT_ALONE or (not why and will_retry):
            return ""  # the next holder, or the next try, reattaches
        return self._agents.end(why or "its driver died")

    def _item_ended(self, item: str) -> None:
        """End the agents that the item's driver has left at a vendor now, not when the whole batch is over."""
        if self._agents and self.why_ending() not in LEFT_ALONE:
            self._agents.cancel(item)

    def show_rest(self) -> None:
        """Show the output that the screen has not taken yet, however long that takes: the run has ended."""
        for stream in self._streams.values():
            stream.finish()

    def _attend(self) -> None:
        """Serve the command until its tree is proven empty and all its output is read."""
        reading, streams, reports = set(self._streams), self._streams, self._warden.fileno()
        poll, polled = _polling(set(), set()), (set[int](), set[int]())
        warm, cold_until = False, clock.now() + _BUSY
        while not self._ending.over or reading:
            now = clock.now()
            self._judge(now)
            tick_at = self._opened_listener.tick(now) if self._opened_listener else float("inf")
            wanted = {*reading, *self._socket.descriptors}
            calls = self._gateway.descriptors if self._gateway else ()
            if self._gateway:
                tick_at = min(tick_at, self._gateway.tick(now))
                wanted.update(calls)
            showing: set[int] = set()
            if not self._ending.over:
                wanted.add(reports)
                stopped = {fd for fd in reading if streams[fd].unshown}  # what is not shown yet is not read either
                wanted, showing = wanted - stopped, {streams[fd].screen for fd in stopped}
            sending = showing | set(self._socket.sending) | set(self._gateway.sending if self._gateway else ())
            if (wanted, sending) != polled:
                poll, polled = _polling(wanted, sending), (wanted, sending)
            pause = min(self._watch.next_at(now) - now, tick_at - now, clock.SLICE if warm else _IDLE)
            ready = [fd for fd, _ in poll.poll(max(pause, 0.0) * 1000 + 1)]
            if self._gateway and any(fd in calls for fd in ready):
                self._gateway.serve()  # first: a call waits for it
            if not warm and (not ready or now > cold_until):
                from .warm_up import warm_up

                warm = True
                warm_up()
            requesting = []
            for fd in ready:
                if fd in showing:
                    for stream in streams.values():
                        stream.show()
                elif fd == reports or fd in calls:
                    continue
                elif fd not in reading:
                    requesting.append(fd)
                elif not streams[fd].pump():
                    reading.discard(fd)
            if not self._ending.over:
                self._take_report()
            self._socket.serve(requesting)

    def _check_requests(self) -> str | None:
        """Take over a budget that a person has set; returns the person who requested the run's end, if any."""
        self._spending.refresh(self._writer.run.id)
        return self._writer.cancel_requested()

    def _judge(self, now: float) -> None:
        if self._gateway and self._lease.lost:
            self._gateway.end_at_once()  # streams must not go on under a lost lease
        if self._ending.over or self._ending.decided:
            return
        late = self._overdue(now) or (self._gateway.overdue(now, self._job.grace) if self._gateway else None)
        judged = late[:2] if late else self._watch.judge(now)
        if judged:
            self._ending.decided = judged
            self._warden.ask_to_end(judged[0], late[2] if late else self._job.grace)

    def _overdue(self, now: float) -> tuple[str, str, float] | None:
        return self._opened_listener.overdue(now) if self._opened_listener else None

    def _take_report(self) -> None:
        report = self._warden.report()
        if isinstance(report, Ended):
            late = self._overdue(clock.now()) if report.why == warden.OVERDUE else None
            self._ending.decided = self._ending.decided or (late[:2] if late else None)
        if report:
            self._ending.take(report)


def _polling(wanted: set[int], sending: set[int]) -> select.poll:
    poll = select.poll()
    for fd in wanted:
        poll.register(fd, select.POLLIN)
    for fd in sending:
        poll.register(fd, select.POLLOUT)
    return poll
