"""The accounts of one attempt: a call is held before it is forwarded, and settled after.

Used (reported), held (in flight) and doubt (nobody saw the whole reply) together never pass a cap. The supervisor
keeps them, not the gateway: one that is killed loses nothing, and what it had in flight is in doubt by its time.
"""

from __future__ import annotations

from _thread import allocate_lock, start_new_thread
from collections import deque

from ....core.metering.call import AMPLE, Call, fit, in_doubt, is_lowered
from ....core.units import METERED, UNITS
from ....errors import StoreUnreachable
from ....ledger.holds import EVERYTHING, SETTLED, Hold
from ....system import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from ....core.budget import Cap
    from ....ledger.ledger import Ledger
    from ....ledger.writer import Verb, Writer
    from ...shared.leases.lease import Lease
    from ..run.spending import Spending

    Shared = tuple[str, str, str]  # job (or EVERYTHING), period, unit

_TOGETHER = 0.2  # seconds in which usage gathers for one commit
_BUSY = 0.01  # seconds between two looks whether a commit is done
_AWAY = 1.0  # seconds until a ledger is tried again that does not answer
_AGAIN = 0.25  # seconds until a call that waits for other runs is looked at again


class _InFlight:
    def __init__(self, call: Call, hold: Hold, began: float) -> None:
        self.call, self.hold, self.began = call, hold, began

    def amount(self, unit: str) -> int:
        found: int = getattr(self.hold, unit)
        return found


class Accounts:
    """For one thread. `hold` and the others take the gateway's messages; `answers` has what to send back."""

    def __init__(
        self,
        spending: Spending,
        item_caps: Iterable[Cap],
        lease: Lease,
        ledger: Ledger,
        writer: Writer,
        used: Callable[[dict[str, float], str], None],
    ) -> None:
        """`used`: hears of every amount, and of which item."""
        self._spending, self._lease = spending, lease
        self._item_caps = [cap for cap in item_caps if cap.unit in METERED]
        self._everything = [cap for cap in spending.everything if cap.unit in METERED]
        self._ledger, self._writer, self._run, self._report = ledger, writer, writer.run, used
        before = spending.before
        self._taken = {unit: _parts(unit, before(unit, "run")) for unit in METERED}  # by the run, all attempts
        self._taken["usd"] += _parts("doubt", before("doubt", "run"))
        self._by_item: dict[str, dict[str, int]] = {}
        self._flying: dict[int, _InFlight] = {}
        self._landed: list[_InFlight] = []  # settled, and not written yet: what was held for them is not free before
        self._held = dict.fromkeys(METERED, 0)  # for both
        self._waiting: deque[dict[str, Any]] = deque()
        self._unwritten: list[Verb] = []
        self._write_at = self._look_at = float("inf")
        self._written = allocate_lock()  # held while a commit is under way
        self._writing: tuple[list[Verb], list[_InFlight]] | None = None
        self._failed: BaseException | None = None
        self._number = 0  # of the last call
        self._numbers: dict[int, int] = {}  # the gateway's → ours: a gateway that is started again begins at 1
        self.answers: list[dict[str, Any]] = []
        self.metered = 0  # calls
        self.has_login = False  # a client has used a login of its own, not a key that we know
        self.refusals = 0
        self.defied = 0  # of those: calls that were made after the first refusal
        self.refused_at = 0.0
        self.refused = ""  # why the first one was; for people
        self.unpriced = ""  # why a call was refused that no cap refused
        self.is_capped = bool(self._caps or self._item_caps or self._everything)
        self._seen = self._caps
        self._recover()

    @property
    def _caps(self) -> list[Cap]:
        return [cap for cap in self._spending.caps if cap.unit in METERED]

    def _recover(self) -> None:
        """Calls that earlier attempts of the run have left in flight: nobody saw their end."""
        for hold in self._ledger.holds.of_run(self._run):
            seconds = self._writer.now() - hold.at
            usd = in_doubt(fixed=hold.fixed, output_rate=hold.output_rate, output=hold.output, most=hold.usd,
                           seconds=seconds)  # fmt: skip
            self._gather(hold, [{"kind": "doubt", "tokens": hold.tokens, "doubt": usd, "calls": 1}])
        self.write()
        self.metered = 0

    # ── what the gateway says ──

    def take(self, message: dict[str, Any]) -> None:
        getattr(self, f"_do_{message['do']}")(message)

    def _do_hold(self, message: dict[str, Any]) -> None:
        message["call"] = Call(**message["call"])
        self._waiting.append(message)
        self.serve()

    def _do_drop(self, message: dict[str, Any]) -> None:
        """The client of a call that waits has left."""
        self._waiting = deque(one for one in self._waiting if one["id"] != message["id"])
        if message["id"] in self._numbers:
            self._do_free(message)
        self.serve()

    def _do_free(self, message: dict[str, Any]) -> None:
        flying = self._land(message["id"])
        if flying:
            self._gather(flying.hold, [])

    def _do_settle(self, message: dict[str, Any]) -> None:
        flying = self._land(message["id"])
        if flying:
            self._gather(flying.hold, message["rows"])

    def _do_doubt(self, message: dict[str, Any]) -> None:
        flying = self._land(message["id"])
        if flying:
            self._doubt(flying, message["known"])

    def _do_refused(self, message: dict[str, Any]) -> None:
        self.unpriced = self.unpriced or str(message["why"])

    def _refuse(self, why: str, at: float) -> None:
        self.refusals += 1
        if not self.refused:
            self.refused, self.refused_at = why, clock.now()
        elif at > self.refused_at:
            self.defied += 1

    # ── hold ──

    def serve(self) -> None:
        """Calls that wait, in turn: one that does not fit yet keeps the later ones waiting too."""
        if self._caps != self._seen:  # a person has set them anew
            self._seen, self.refused, self.refusals, self.defied = self._caps, "", 0, 0
        while self._waiting:
            if not self._lease.is_sure:  # as the command would be, calls are frozen until a renewal is confirmed
                self._look_at = clock.now() + _AGAIN / 5
                return
            message = self._waiting[0]
            try:
                answer = self._decide(message)
                if (self._landed or self._writing) and (answer is None or "output" not in answer):
                    self.write()  # what was held for calls that are settled is free then
                    answer = self._decide(message)
            except StoreUnreachable:
                answer = None
            if answer is None:
                self._look_at = clock.now() + _AGAIN  # other runs settle too, and people set budgets
                return
            if "refused" in answer and not message.get("again"):
                self._refuse(f"the budget {answer['cap']} is spent: {answer['refused']}", message["at"])
                answer["refused"] = f"the budget is spent: {answer['refused']}"
            self._waiting.popleft()
            self.answers.append({"id": message["id"], **answer})

    def _decide(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """What to answer to a call; None: it waits."""
        call: Call = message["call"]
        item = message.get("item", "")
        made: dict[str, Any] = {}

        def decide(taken: dict[Shared, int]) -> Hold | None:
            left, binding = self._left(item, taken)
            output = fit(call, left)
            ample = min(call.wanted, max(AMPLE, call.lowest))
            short = output is None or output < ample
            if short and self._flying and self._fits_later(call, left, item):
                made["answer"] = None
            elif (output is None or is_lowered(call, output)) and not call.counted:
                made["answer"] = {"count": True}
            elif output is None:
                made["answer"] = {"refused": self._explained(call, left), "cap": str(binding)}
            else:
                return self._made(call, output, message)
            return None

        shared = self._shared()
        if shared:
            hold = self._ledger.holds.put_within(shared, decide)
        else:
            hold = decide({})
            if hold:
                self._ledger.holds.put(hold)
                self._write_at = min(self._write_at, clock.now() + _TOGETHER)
        if hold is None:
            answer: dict[str, Any] | None = made["answer"]
            return answer
        self._number = hold.call
        self.has_login = self.has_login or bool(message.get("login"))
        self._numbers[message["id"]] = hold.call
        self._flying[hold.call] = flying = _InFlight(call, hold, clock.now())
        for unit in METERED:
            self._held[unit] += flying.amount(unit)
        return {"output": hold.output}

    def _made(self, call: Call, output: int, message: dict[str, Any]) -> Hold:
        bound = call.bound(output)
        return Hold(
            run=self._run.id,
            attempt=self._run.attempt,
            call=self._number + 1,
            job=self._run.job,
            at=self._writer.now(),
            usd=bound["usd"],
            tokens=bound["tokens"],
            calls=bound["calls"],
            fixed=call.fixed,
            output_rate=call.output_rate * call.times,
            output=output,
            model=_short(message, "model"),
            item=_short(message, "item"),
            agent=_short(message, "agent"),
        )

    def _shared(self) -> list[Shared]:
        mine = [(self._run.job, cap.period, cap.unit) for cap in self._caps if cap.period != "run"]
        return mine + [(EVERYTHING, cap.period, cap.unit) for cap in self._everything]

    def _left(self, item: str, taken: dict[Shared, int]) -> tuple[dict[str, int], Cap | None]:
        """What is left of each unit under all caps; and the cap that leaves the least of its amount."""
        left: dict[str, int] = {}
        binding: tuple[float, Cap] | None = None
        for cap, used in self._used(item, taken):
            rest = _parts(cap.unit, cap.amount) - used
            left[cap.unit] = min(left.get(cap.unit, rest), rest)
            part = rest / max(_parts(cap.unit, cap.amount), 1)
            if binding is None or part < binding[0]:
                binding = part, cap
        return left, binding[1] if binding else None

    def _used(self, item: str, taken: dict[Shared, int]) -> Iterable[tuple[Cap, int]]:
        for cap in self._caps:
            if cap.period == "run":
                yield cap, self._taken[cap.unit] + self._held[cap.unit]
            else:
                yield cap, taken[self._run.job, cap.period, cap.unit]
        for cap in self._everything:
            yield cap, taken[EVERYTHING, cap.period, cap.unit]
        for cap in self._item_caps if item else ():
            flying = [*self._flying.values(), *self._landed, *(self._writing[1] if self._writing else ())]
            own = [one.amount(cap.unit) for one in flying if one.hold.item == item]
            yield cap, self._by_item.get(item, {}).get(cap.unit, 0) + sum(own)

    def _fits_later(self, call: Call, left: dict[str, int], item: str) -> bool:
        """Would it fit, if all that is in flight here came to nothing?"""
        later = {unit: rest + sum(one.amount(unit) for one in self._flying.values()) for unit, rest in left.items()}
        return fit(call, later) is not None

    def _explained(self, call: Call, left: dict[str, int]) -> str:
        least = call.bound(min(call.wanted, call.lowest))
        parts = [f"{_shown(unit, rest)} left" for unit, rest in left.items() if least[unit] > rest]
        needed = [_shown(unit, least[unit]) for unit, rest in left.items() if least[unit] > rest]
        return f"{', '.join(parts)}, and a call may take {', '.join(needed)}"

    # ── settle ──

    def _land(self, number: int) -> _InFlight | None:
        flying = self._flying.pop(self._numbers.pop(number, -1), None)
        if flying:
            self._landed.append(flying)
        return flying

    def _doubt(self, flying: _InFlight, known: int | None) -> None:
        hold, call = flying.hold, flying.call
        usd = in_doubt(
            fixed=hold.fixed,
            output_rate=hold.output_rate,
            output=hold.output,
            most=hold.usd,
            seconds=clock.now() - flying.began,
            known=None if known is None else known + call.fee,
        )
        # A cap in tokens counts what may have been used.
        self._gather(hold, [{"kind": "doubt", "tokens": hold.tokens, "doubt": usd, "calls": 1}])

    def _gather(self, hold: Hold, rows: list[dict[str, Any]]) -> None:
        """Count it now, write it soon."""
        key = (hold.run, hold.attempt, hold.call)
        if not rows:
            self._unwritten.append(self._freed(key))
        for place, row in enumerate(rows):
            counts = {unit: int(row.get(unit, 0)) for unit in (*METERED, "doubt")}
            self._count(self._taken, counts)
            if hold.item:
                self._count(self._by_item.setdefault(hold.item, dict.fromkeys(METERED, 0)), counts)
            amounts = {unit: count / UNITS[unit].scale for unit, count in counts.items() if count}
            about = {
                "model": str(row.get("model") or hold.model), "kind": str(row["kind"]), "source": "gateway",
                "item": hold.item, "agent": hold.agent,
            }  # fmt: skip
            verb = self._writer.used(amounts, about, call=hold.call, began=round(hold.at, 3))
            if not place:
                verb.records = [(SETTLED, [key])]
            self._unwritten.append(verb)
            self._report(amounts, hold.item)
        self.metered += bool(rows)
        self._write_at = min(self._write_at, clock.now() + _TOGETHER)
        self.serve()

    @staticmethod
    def _count(taken: dict[str, int], counts: dict[str, int]) -> None:
        for unit in METERED:
            taken[unit] += counts[unit]
        taken["usd"] += counts["doubt"]

    def _freed(self, key: tuple[str, int, int]) -> Verb:
        verb = self._writer.used({}, {"source": "gateway"})
        verb.records = [(SETTLED, [key])]
        return verb

    # ── time ──

    def tick(self, now: float) -> float:
        """Write what has gathered, look again at what waits; returns when to come again."""
        self._collect()
        if now >= self._write_at and not self._written.locked():
            self._begin_write()
        if now >= self._look_at:
            self._look_at = float("inf")
            self.serve()
        return min(max(self._write_at, now + _BUSY) if self._written.locked() else self._write_at, self._look_at)

    def _begin_write(self) -> None:
        """All that was settled, in one commit, beside the loop: a flush to the disk must not keep calls waiting."""
        self._write_at = float("inf")
        verbs, landed = self._unwritten, self._landed
        if verbs:
            self._unwritten, self._landed = [], []
            self._writing = verbs, landed
            self._written.acquire()
            start_new_thread(self._commit, (verbs,))

    def _commit(self, verbs: list[Verb]) -> None:
        try:
            self._writer.take(*verbs)
            self._failed = None
        except BaseException as error:  # noqa: BLE001 - raised again where it can be dealt with
            self._failed = error
        finally:
            self._written.release()

    def _collect(self) -> None:
        """What was being written is written, or it will be tried again."""
        if self._writing is None or self._written.locked():
            return
        (verbs, landed), self._writing, failed = self._writing, None, self._failed
        if failed is None:
            for one in landed:
                for unit in METERED:
                    self._held[unit] -= one.amount(unit)
            return
        self._unwritten, self._landed = verbs + self._unwritten, landed + self._landed
        self._write_at = clock.now() + _AWAY
        if not isinstance(failed, StoreUnreachable):
            raise failed

    def write(self) -> None:
        """All of it, now: what was held for it is free when this returns."""
        while True:
            with self._written:
                pass
            self._collect()
            if not self._unwritten:
                return
            self._begin_write()
            with self._written:
                pass
            if isinstance(self._failed, StoreUnreachable):
                failed = self._failed
                self._collect()
                raise failed

    def abandon(self) -> None:
        """The gateway is gone: what it had in flight may have been charged, up to now; what waits asks again."""
        self._waiting.clear()
        self._numbers.clear()
        for flying in list(self._flying.values()):
            del self._flying[flying.hold.call]
            self._landed.append(flying)
            self._doubt(flying, None)

    @property
    def held(self) -> int:
        return len(self._flying)


def _short(message: dict[str, Any], name: str) -> str:
    return str(message.get(name) or "")[:200]


def _parts(unit: str, amount: float) -> int:
    scale = UNITS[unit].scale
    return round(amount * scale)


def _shown(unit: str, parts: int) -> str:
    return f"{unit}={UNITS[unit].show(max(parts, 0) / UNITS[unit].scale)}"
