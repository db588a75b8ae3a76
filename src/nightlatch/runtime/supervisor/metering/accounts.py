"""The accounts of one attempt: a call is held before it is forwarded, and settled after.

Used (reported), held (in flight) and doubt (nobody saw the whole reply) together never pass a cap. The supervisor
keeps the accounts, not the gateway: if a gateway is killed nothing is lost, and its calls in flight are in doubt.

Where only the run's own caps count, nothing else uses them up. The gateway then learns how much room they leave
(`room`), and a call that fits into it need not wait for an answer.
"""

from __future__ import annotations

from collections import deque

from ....core.metering.call import AMPLE, Call, fit, is_lowered
from ....core.units import METERED
from ....errors import StoreUnreachable
from ....ledger.holds import Hold
from ....system import clock
from ...shared import call_slots
from .book import Book, HeldCall
from .caps import Caps, in_whole_parts, why_refused
from .left_calls import LeftCalls, granted_hold, names_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from ....core.budget import Cap
    from ....ledger.ledger import Ledger
    from ....ledger.writer import Writer
    from ...shared.leases.lease import Lease
    from ..run.spending import Spending
    from .caps import Shared

_SERVE_AGAIN = 0.25  # seconds until waiting calls are looked at again


class Accounts:
    """Used by one thread. `take` handles a message of the gateway; `answers` collects what to send back."""

    def __init__(
        self,
        spending: Spending,
        item_caps: Iterable[Cap],
        lease: Lease,
        ledger: Ledger,
        writer: Writer,
        used: Callable[[dict[str, float], str], None],
        folder: str,
    ) -> None:
        """`used`: called with every amount, and its item. `folder`: the run's."""
        self._spending, self._lease = spending, lease
        self._ledger, self._writer, self._run = ledger, writer, writer.run
        before = spending.before
        taken = {unit: in_whole_parts(unit, before(unit, "run")) for unit in METERED}  # by earlier attempts of the run
        taken["usd"] += in_whole_parts("doubt", before("doubt", "run"))
        self._book = Book(writer, ledger.holds, taken, used)
        self._caps = Caps(spending, item_caps, self._book, self._run.job)
        self._folder = folder
        self.slots = call_slots.path_of(folder, self._run.attempt)  # file of calls that the gateway grants by itself
        self._waiting: deque[dict[str, Any]] = deque()
        self._serve_at = float("inf")  # when to look at the waiting calls again
        self._unsure: set[tuple[str, int, int]] = set()  # waiting calls that may be held: a try got no reply
        self.answers: list[dict[str, Any]] = []
        self.last = 0  # number of the last call
        self.called = False  # the gateway has answered a client
        self.has_login = False  # a client has used its own login, not a key that we know
        self.refusals = 0
        self.ignored_refusals = 0  # refused calls that a client began although one had been refused before
        self.refused_at = 0.0
        self.refused = ""  # why the first call was refused, for people
        self.refused_otherwise = ""  # the first reason other than a cap for which a call was refused
        self.is_capped = bool(self._caps.of_job or self._caps.of_items or self._caps.of_all_jobs)
        self._known_caps = self._caps.of_job
        self._room_is_stale = False
        self._recover()

    @property
    def is_metering(self) -> bool:
        """Has a call of this attempt been charged, or may one be? Calls in flight count: a client may report its usage
        before the call is settled."""
        return bool(self._book.settled or self._book.in_flight)

    def _recover(self) -> None:
        """Count calls that earlier attempts of the run left in flight."""
        left = LeftCalls(self._ledger, self._run, self._folder, self._writer.now())
        for hold, seconds in left.calls:
            self._book.doubt_hold(hold, seconds=seconds)
        self._book.write()
        self._book.begin()
        left.forget()

    # ── messages from the gateway ──

    def take(self, message: dict[str, Any]) -> None:
        self.last = max(self.last, message.get("id", 0))
        getattr(self, f"_do_{message['do']}")(message)

    def _do_hold(self, message: dict[str, Any]) -> None:
        message["call"] = Call(**message["call"])
        self._waiting.append(message)
        self.serve()

    def _do_called(self, message: dict[str, Any]) -> None:
        """A client has called the gateway, which may have more to report when the command has ended."""
        self.called = True

    def _do_held(self, message: dict[str, Any]) -> None:
        """The gateway has granted a call by itself."""
        hold = granted_hold(message, self._run, self._run.attempt)
        self.has_login = self.has_login or bool(message["login"])
        self._book.hold(HeldCall(hold, began=message["began"], fee=message["fee"]), recorded=False)

    def spent(self, amounts: dict[str, float], item: str) -> None:
        """The command has reported usage, its own or an agent's."""
        self._book.count(amounts, item)
        self._room_is_stale = True

    def _do_drop(self, message: dict[str, Any]) -> None:
        """The client of a waiting call has disconnected."""
        for one in self._waiting:
            if one["id"] == message["id"] and (self._run.id, self._run.attempt, one["id"]) in self._unsure:
                self._book.settle(self._hold_for(one["call"], 0, one), [])  # removes what may be held
        self._waiting = deque(one for one in self._waiting if one["id"] != message["id"])
        self._do_free(message)

    def _do_free(self, message: dict[str, Any]) -> None:
        self._do_settle(message | {"rows": []})

    def _do_settle(self, message: dict[str, Any]) -> None:
        in_flight = self._book.land(message["id"])
        if in_flight:
            self._book.settle(in_flight.hold, message["rows"])
        if self._waiting:
            self.serve()

    def _do_doubt(self, message: dict[str, Any]) -> None:
        in_flight = self._book.land(message["id"])
        if in_flight:
            self._book.doubt(in_flight, message["known"])
        if self._waiting:
            self.serve()

    def _do_refused(self, message: dict[str, Any]) -> None:
        self.refused_otherwise = self.refused_otherwise or str(message["why"])

    def _refuse(self, why: str, at: float) -> None:
        self.refusals += 1
        if not self.refused:
            self.refused, self.refused_at = why, clock.now()
        elif at > self.refused_at:
            self.ignored_refusals += 1

    # ── hold ──

    def serve(self) -> None:
        """Answer the calls that wait, in turn: one that does not fit yet keeps the later ones waiting too."""
        if self._caps.of_job != self._known_caps:  # a person has changed the caps
            self._known_caps, self.refused, self.refusals, self.ignored_refusals = self._caps.of_job, "", 0, 0
            self._room_is_stale = True
        while self._waiting:
            if not self._lease.is_sure:  # calls are frozen, as the command is, until a renewal is confirmed
                self._serve_at = clock.now() + _SERVE_AGAIN / 5
                return
            message = self._waiting[0]
            try:
                answer = self._decide(message)
                if self._book.waits_for_commit and (answer is None or "output" not in answer):
                    self._book.write()  # frees what is held for settled calls
                    answer = self._decide(message)
            except StoreUnreachable:
                answer = None
                self._unsure.add((self._run.id, self._run.attempt, message["id"]))
            if answer is None:
                self._serve_at = clock.now() + _SERVE_AGAIN  # other runs may settle calls, and people raise budgets
                return
            if "refused" in answer and not message.get("again"):  # again: it will ask for less, so this is not final
                self._refuse(f"the budget {answer['cap']} is spent: {answer['refused']}", message["at"])
                answer["refused"] = f"the budget is spent: {answer['refused']}"
            self._waiting.popleft()
            self.answers.append({"id": message["id"], **answer})

    @property
    def room_is_stale(self) -> bool:
        """Does the gateway have outdated figures? Something other than its own calls has changed them."""
        if self._caps.of_job != self._known_caps:
            self.serve()
        return self._room_is_stale

    def room(self) -> dict[str, Any]:
        """What the gateway may grant by itself (`room`; None: nothing), until when, and up to which call.

        The gateway itself subtracts the calls that it has granted since (after `seen`). Where another machine may
        continue the run, or other runs share a cap, a call has to be in the ledger before it is forwarded.
        """
        self._room_is_stale = False
        others = self._caps.of_items or self._caps.shared or self._ledger.many_machines
        if self._waiting or others or not self._lease.is_sure:
            return {"room": None, "seen": self.last}
        left, _ = self._caps.left("", {})
        return {
            "room": left,
            "seen": self.last,
            "until": self._lease.sure_until,
            "to": self._book.recorded_to + call_slots.SLOTS,
        }

    def _decide(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """The answer to a call; None: the call waits."""
        call: Call = message["call"]
        item = message.get("item", "")
        not_held: dict[str, Any] = {}

        def decide(taken: dict[Shared, int]) -> Hold | None:
            left, binding = self._caps.left(item, taken)
            output = fit(call, left)
            ample = min(call.wanted, max(AMPLE, call.lowest))
            short = output is None or output < ample
            if short and self._book.in_flight and self._caps.fits_later(call, left):
                not_held["answer"] = None
            elif (output is None or is_lowered(call, output)) and not call.counted:
                not_held["answer"] = {"count": True}  # the vendor counts its tokens first; then it is decided again
            elif output is None:
                not_held["answer"] = {"refused": why_refused(call, left), "cap": str(binding)}
            else:
                return self._hold_for(call, output, message)
            return None

        shared = self._caps.shared
        if shared:
            number = self._run.id, self._run.attempt, message["id"]
            hold = self._ledger.holds.put_within(shared, decide, call=number if number in self._unsure else None)
        else:
            hold = decide({})
            if hold:
                self._ledger.holds.put(hold)
        if hold is None:
            answer: dict[str, Any] | None = not_held["answer"]
            return answer
        if not self._lease.is_sure:  # a successor may have looked before the hold was put
            self._ledger.holds.forget([hold])
            return None
        if self._spending.days:
            try:
                by_attempt = {unit: self._book.taken_now(unit) + getattr(hold, unit) for unit in METERED}
                self._spending.days.open_for(by_attempt, self._caps.of_job)
            except StoreUnreachable:
                self._ledger.holds.forget([hold])
                raise
        self.has_login = self.has_login or bool(message.get("login"))
        self._book.hold(HeldCall(hold, began=clock.now(), fee=call.fee), recorded=True)
        return {"output": hold.output}

    def _hold_for(self, call: Call, output: int, message: dict[str, Any]) -> Hold:
        bound = call.bound(output)
        return Hold(
            run=self._run.id,
            attempt=self._run.attempt,
            call=message["id"],
            job=self._run.job,
            at=self._writer.now(),
            usd=bound["usd"],
            tokens=bound["tokens"],
            calls=bound["calls"],
            fixed=call.fixed,
            output_rate=call.output_rate * call.times,
            output=output,
            **names_of(message),
        )

    # ── time ──

    def tick(self, now: float) -> float:
        """Write the usage that has gathered, look at waiting calls again; returns when to call this again."""
        again = self._book.tick(now)
        if now >= self._serve_at:
            self._serve_at = float("inf")
            self.serve()
        return min(again, self._serve_at)

    def write(self) -> None:
        """Write all usage now: what was held for it is free when this returns."""
        self._book.write()

    def abandon(self) -> None:
        """The gateway is gone: its calls in flight may have been charged until now, so they are in doubt. Waiting calls
        are dropped: their clients call again."""
        for call in call_slots.read(self.slots):
            if call["id"] > self.last:  # the gateway granted it, and was killed before it could report that
                self.take(call)
        self._waiting.clear()
        for number in list(self._book.in_flight):
            in_flight = self._book.land(number)
            assert in_flight
            self._book.doubt(in_flight, None)

    @property
    def held(self) -> int:
        return len(self._book.in_flight)
