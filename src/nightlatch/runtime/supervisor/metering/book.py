"""The book of one attempt: calls in flight, what was used, and how much of that the ledger has.

A call that has landed is counted at once and written soon, many calls in one commit. What was held for it is free only
when that commit is done.
"""

from __future__ import annotations

from _thread import allocate_lock, start_new_thread

from ....core.metering.call import in_doubt
from ....core.units import METERED, UNITS
from ....errors import StoreUnreachable
from ....ledger.holds import SETTLED, Hold, Holds
from ....system import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ....ledger.writer import Verb, Writer

_GATHER_FOR = 0.2  # seconds in which usage gathers for one commit
_MOST_SEPARATE = 50  # calls in one commit that get rows of their own; if there are more, their rows are summed up
_MOST_NAMED = 2000  # calls that one entry of the journal names, at most
_COUNTED = (*METERED, "doubt")
_ABOUT = ("model", "kind", "source", "item", "agent")  # what a row of usage is about
_CHECK_EVERY = 0.01  # seconds between two checks whether a commit is done
_RETRY_AFTER = 1.0  # seconds until a ledger that does not answer is tried again


class HeldCall:
    """A call that an amount is held for: it is in flight, or has landed and is not written yet."""

    def __init__(self, hold: Hold, *, began: float, fee: int) -> None:
        self.hold, self.began, self.fee = hold, began, fee

    def amount(self, unit: str) -> int:
        found: int = getattr(self.hold, unit)
        return found


class Book:
    """What is held and used. Used by one thread."""

    def __init__(
        self, writer: Writer, holds: Holds, taken: dict[str, int], report: Callable[[dict[str, float], str], None]
    ) -> None:
        """`taken`: by earlier attempts of the run. `report`: called with every amount, and its item."""
        self._writer, self._holds, self._taken, self._report = writer, holds, taken, report
        self._before: dict[str, int] = dict(taken)
        self._by_item: dict[str, dict[str, int]] = {}
        self.in_flight: dict[int, HeldCall] = {}
        self._landed: list[HeldCall] = []  # not written yet, so what is held for them is not free
        self._held = dict.fromkeys(METERED, 0)  # for calls in flight and landed ones
        self._unrecorded: dict[int, HeldCall] = {}  # calls, by number, that the ledger does not know at all
        self._last = 0  # number of the last call
        self._ended: list[tuple[Hold, list[dict[str, Any]]]] = []  # calls and what they used: not written yet
        self._unwritten: list[Verb] = []  # of a commit that failed, to be tried again
        self._write_at = float("inf")
        self._committing = allocate_lock()  # held while a commit is under way
        # What the commit under way writes: verbs, landed calls, numbers of unrecorded calls.
        self._writing: tuple[list[Verb], list[HeldCall], list[int]] | None = None
        self._failed: BaseException | None = None
        self.settled = 0  # calls that were charged, or may have been

    def begin(self) -> None:
        """From now on count for this attempt: what was recovered belongs to earlier attempts."""
        self._before = dict(self._taken)
        self.settled = 0

    # ── what is taken ──

    def taken(self, unit: str) -> int:
        """What is used, in doubt or held by the run."""
        return self._taken[unit] + self._held[unit]

    def taken_now(self, unit: str) -> int:
        """What is used, in doubt or held by this attempt alone."""
        return self.taken(unit) - self._before[unit]

    def taken_by(self, item: str, unit: str) -> int:
        held_calls = [*self.in_flight.values(), *self._landed, *(self._writing[1] if self._writing else ())]
        own: int = sum(one.amount(unit) for one in held_calls if one.hold.item == item)
        return own + (self._by_item[item][unit] if item in self._by_item else 0)

    @property
    def waits_for_commit(self) -> bool:
        """Is anything held for calls that have landed?"""
        return bool(self._landed or self._writing)

    @property
    def recorded_to(self) -> int:
        """The ledger knows every call up to this one."""
        return next(iter(self._unrecorded), self._last + 1) - 1

    # ── a call ──

    def hold(self, in_flight: HeldCall, *, recorded: bool) -> None:
        """Count a call as in flight. `recorded`: its hold is in the ledger already."""
        number = self._last = in_flight.hold.call
        self.in_flight[number] = in_flight
        for unit in METERED:
            self._held[unit] += in_flight.amount(unit)
        if not recorded:
            self._unrecorded[number] = in_flight
        self._write_at = min(self._write_at, clock.now() + _GATHER_FOR)

    def land(self, number: int) -> HeldCall | None:
        """A call has ended; returns it, or None if it was not in flight."""
        in_flight = self.in_flight.pop(number, None)
        if in_flight:
            self._landed.append(in_flight)
        return in_flight

    def doubt(self, in_flight: HeldCall, known: int | None) -> None:
        """Nobody saw the call's end. `known`: what its input costs, in billionths of a dollar."""
        known = None if known is None else known + in_flight.fee
        self.doubt_hold(in_flight.hold, seconds=clock.now() - in_flight.began, known=known)

    def doubt_hold(self, hold: Hold, *, seconds: float, known: int | None = None) -> None:
        usd = in_doubt(fixed=hold.fixed, output_rate=hold.output_rate, output=hold.output, most=hold.usd,
                       seconds=seconds, known=known)  # fmt: skip
        # There is no doubt in tokens: all that may have been used counts as used.
        self.settle(hold, [{"kind": "doubt", "tokens": hold.tokens, "doubt": usd, "calls": 1}])

    def settle(self, hold: Hold, rows: list[dict[str, Any]]) -> None:
        """Count a call's usage now, write it soon. Without rows the call has used nothing."""
        if rows:
            total = _sum(rows)
            self._count(total, hold.item)
            self._report(_amounts(total), hold.item)
            self.settled += 1
        self._ended.append((hold, rows))
        self._write_at = min(self._write_at, clock.now() + _GATHER_FOR)

    def count(self, amounts: dict[str, float], item: str) -> None:
        """Count usage that did not come through the gateway, and is recorded elsewhere."""
        self._count({unit: round(amounts.get(unit, 0.0) * UNITS[unit].scale) for unit in _COUNTED}, item)

    def _count(self, counts: dict[str, int], item: str) -> None:
        for taken in (self._taken, *([self._by_item.setdefault(item, dict.fromkeys(METERED, 0))] if item else ())):
            for unit in METERED:
                taken[unit] += counts[unit]
            taken["usd"] += counts["doubt"]

    def _verbs(self) -> list[Verb]:
        """What has gathered, as verbs: a row for each kind of token of each call. Many calls at once are summed up by
        model, kind, item and subagent: a burst must not keep the ledger busy."""
        ended, self._ended = self._ended, []
        if len(ended) > _MOST_SEPARATE:
            return self._verbs_of_many(ended)
        verbs = []
        for hold, rows in ended:
            name: dict[str, object] = {"ended": f"{hold.attempt}.{hold.call}"}  # in the call's first row only
            records = [(SETTLED, [(hold.run, hold.attempt, hold.call)])]
            of_call = {"call": hold.call, "began": round(hold.at, 3)}
            some = [
                self._writer.used(
                    _amounts(_sum([row])), _by_name(_texts(hold, row)), **of_call, **({} if index else name)
                )
                for index, row in enumerate(rows)
            ]
            verbs += some or [self._writer.used({}, {"source": "gateway"}, **name)]
            verbs[-max(len(some), 1)].records = records
        return verbs

    def _verbs_of_many(self, ended: list[tuple[Hold, list[dict[str, Any]]]]) -> list[Verb]:
        sums: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        for hold, rows in ended:
            for row in rows:
                sums.setdefault(_texts(hold, row), []).append(row)
        verbs = []
        while sums or ended:
            texts, rows = sums.popitem() if sums else (("", "", "gateway", "", ""), [])
            some, ended = ended[:_MOST_NAMED], ended[_MOST_NAMED:]
            names = " ".join(f"{hold.attempt}.{hold.call}" for hold, _ in some)
            verbs.append(self._writer.used(_amounts(_sum(rows)), _by_name(texts), ended=names or None))
            verbs[-1].records = [(SETTLED, [(hold.run, hold.attempt, hold.call) for hold, _ in some])] if some else []
        return verbs

    # ── writing ──

    def tick(self, now: float) -> float:
        """Write what has gathered; returns when to call this again."""
        self._collect()
        if now >= self._write_at and not self._committing.locked():
            self._begin_write()
        return max(self._write_at, now + _CHECK_EVERY) if self._committing.locked() else self._write_at

    def _begin_write(self) -> None:
        """Start a commit of all that was settled, in another thread: a flush to the disk must not keep calls waiting.
        Calls in flight that the ledger does not know yet are put there too."""
        self._write_at = float("inf")
        verbs, landed, unrecorded = self._unwritten + self._verbs(), self._landed, list(self._unrecorded)
        if verbs or unrecorded:
            held = [in_flight.hold for number in unrecorded if (in_flight := self.in_flight.get(number))]
            self._unwritten, self._landed = [], []
            self._writing = verbs, landed, unrecorded
            self._committing.acquire()
            start_new_thread(self._commit, (verbs, held))

    def _commit(self, verbs: list[Verb], held: list[Hold]) -> None:
        try:
            for hold in held:
                self._holds.put(hold)
            if verbs:
                self._writer.take(*verbs)
            self._failed = None
        except BaseException as error:  # noqa: BLE001 - raised again where it can be dealt with
            self._failed = error
        finally:
            self._committing.release()

    def _collect(self) -> None:
        """Take note of a finished commit; what it could not write is tried again."""
        if self._writing is None or self._committing.locked():
            return
        (verbs, landed, unrecorded), self._writing, failed = self._writing, None, self._failed
        if failed is None:
            for one in landed:
                for unit in METERED:
                    self._held[unit] -= one.amount(unit)
            for number in unrecorded:
                del self._unrecorded[number]
            return
        self._unwritten, self._landed = verbs + self._unwritten, landed + self._landed
        self._write_at = clock.now() + _RETRY_AFTER
        if not isinstance(failed, StoreUnreachable):
            raise failed

    def write(self) -> None:
        """Write all usage now: what was held for it is free when this returns."""
        while True:
            with self._committing:
                pass
            self._collect()
            if not self._unwritten and not self._ended:
                return
            self._begin_write()
            with self._committing:
                pass
            if isinstance(self._failed, StoreUnreachable):
                failed = self._failed
                self._collect()
                raise failed


def _amounts(counts: dict[str, int]) -> dict[str, float]:
    return {unit: count / UNITS[unit].scale for unit, count in counts.items() if count}


def _sum(rows: list[dict[str, Any]]) -> dict[str, int]:
    found = dict.fromkeys(_COUNTED, 0)
    for row in rows:
        for unit in _COUNTED:
            if unit in row:
                found[unit] += row[unit]
    return found


def _by_name(texts: tuple[str, ...]) -> dict[str, str]:
    return dict(zip(_ABOUT, texts, strict=True))


def _texts(hold: Hold, row: dict[str, Any]) -> tuple[str, ...]:
    """What a row of usage is about, in the order of `_ABOUT`."""
    return str(row.get("model") or hold.model), str(row["kind"]), "gateway", hold.item, hold.agent
