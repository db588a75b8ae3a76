"""The caps of an attempt (of its run, its job's day and month, its items, all jobs together), and what they leave."""

from __future__ import annotations

from ....core.metering.call import Call, fit
from ....core.units import METERED, UNITS
from ....ledger.holds import ALL_JOBS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ....core.budget import Cap
    from ..run.spending import Spending
    from .book import Book

    Shared = tuple[str, str, str]  # job (or ALL_JOBS), period, unit


class Caps:
    """The caps in units that the gateway counts. Amounts are integers, in whole parts of their unit."""

    def __init__(self, spending: Spending, of_items: Iterable[Cap], book: Book, job: str) -> None:
        self._spending, self._book, self._job = spending, book, job
        self.of_items = [cap for cap in of_items if cap.unit in METERED]
        self.of_all_jobs = [cap for cap in spending.caps_of_all_jobs if cap.unit in METERED]

    @property
    def of_job(self) -> list[Cap]:
        """The caps of the run, and of its job's day and month. A person may change them."""
        return [cap for cap in self._spending.caps if cap.unit in METERED]

    @property
    def shared(self) -> list[Shared]:
        """The caps against which other runs count too."""
        mine = [(self._job, cap.period, cap.unit) for cap in self.of_job if cap.period != "run"]
        return mine + [(ALL_JOBS, cap.period, cap.unit) for cap in self.of_all_jobs]

    def left(self, item: str, taken: dict[Shared, int]) -> tuple[dict[str, int], Cap | None]:
        """What all caps together leave of each unit; and the cap of which the smallest part is left. `taken`: what is
        taken of the shared caps."""
        left: dict[str, int] = {}
        binding: tuple[float, Cap] | None = None
        for cap, used in self._used(item, taken):
            rest = in_whole_parts(cap.unit, cap.amount) - used
            left[cap.unit] = min(left.get(cap.unit, rest), rest)
            part = rest / max(in_whole_parts(cap.unit, cap.amount), 1)
            if binding is None or part < binding[0]:
                binding = part, cap
        return left, binding[1] if binding else None

    def _used(self, item: str, taken: dict[Shared, int]) -> Iterable[tuple[Cap, int]]:
        for cap in self.of_job:
            if cap.period == "run":
                yield cap, self._book.taken(cap.unit)
            else:
                elsewhere = self._spending.elsewhere
                doubt = elsewhere("doubt", cap.period) if cap.unit == "usd" else 0
                yield cap, taken[self._job, cap.period, cap.unit] + elsewhere(cap.unit, cap.period) + doubt
        for cap in self.of_all_jobs:
            yield cap, taken[ALL_JOBS, cap.period, cap.unit]
        for cap in self.of_items if item else ():
            yield cap, self._book.taken_by(item, cap.unit)

    def fits_later(self, call: Call, left: dict[str, int]) -> bool:
        """Would the call fit if this run's calls in flight turned out to cost nothing?"""
        in_flight = self._book.in_flight.values()
        later = {unit: rest + sum(one.amount(unit) for one in in_flight) for unit, rest in left.items()}
        return fit(call, later) is not None


def why_refused(call: Call, left: dict[str, int]) -> str:
    """Why a call does not fit, for people."""
    least = call.bound(min(call.wanted, call.lowest))
    rests = [f"{_shown(unit, rest)} left" for unit, rest in left.items() if least[unit] > rest]
    needed = [_shown(unit, least[unit]) for unit, rest in left.items() if least[unit] > rest]
    return f"{', '.join(rests)}, and a call may take {', '.join(needed)}"


def in_whole_parts(unit: str, amount: float) -> int:
    return round(amount * UNITS[unit].scale)


def _shown(unit: str, count: int) -> str:
    return f"{unit}={UNITS[unit].show(max(count, 0) / UNITS[unit].scale)}"
