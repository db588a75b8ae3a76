"""Budgets: caps on what a run, a day or a month may use."""

from __future__ import annotations

from ..errors import UsageError
from .units import CAPPED
from .value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

PERIODS = ("run", "day", "month")
ITEM = "item"  # a further period, in batches only

_HINT = f'write it as in "usd=2,usd/day=10,tokens=500000": {", ".join(CAPPED)}, for a run, a day or a month'


@value(frozen=True, kw_only=True)
class Cap:
    unit: str
    period: str
    amount: float

    def __str__(self) -> str:
        return f"{self.unit}{'' if self.period == 'run' else '/' + self.period}={self.amount:g}"


def parse(text: str, periods: tuple[str, ...] = PERIODS) -> tuple[Cap, ...]:
    """The caps in "usd=2,usd/day=10"."""
    caps = []
    for item in text.split(","):
        name, equals, amount = item.strip().partition("=")
        unit, _, period = name.partition("/")
        if not equals or unit not in CAPPED or (period or "run") not in periods:
            raise UsageError(f"the budget {item.strip()!r} is not understood: {_HINT}")
        caps.append(Cap(unit=unit, period=period or "run", amount=_amount(amount, item)))
    return tuple(caps)


def parse_for_all_jobs(text: str) -> tuple[Cap, ...]:
    """Caps for all jobs of a ledger together, from $NIGHTLATCH_BUDGET: for a day or a month."""
    try:
        return parse(text, ("day", "month"))
    except UsageError:
        raise UsageError(
            f"NIGHTLATCH_BUDGET is {text!r}: it is for all jobs together, as in usd/day=20,tokens/month=5000000"
        ) from None


def changed(caps: tuple[Cap, ...], by: tuple[Cap, ...]) -> tuple[Cap, ...]:
    """The caps, each replaced by the one in `by` for the same unit and period; others in `by` are added."""
    own = {(cap.unit, cap.period): cap for cap in caps}
    return tuple((own | {(cap.unit, cap.period): cap for cap in by}).values())


def amounts(words: Iterable[str]) -> dict[str, float]:
    """The usage in words such as usd=0.03 tokens=900."""
    used: dict[str, float] = {}
    for word in words:
        unit, equals, amount = word.partition("=")
        if not equals or unit not in CAPPED:
            raise UsageError(f"{word!r} is not understood: write what was used, as in usd=0.03 tokens=900 calls=1")
        used[unit] = used.get(unit, 0.0) + _amount(amount, word, "write what was used, as in usd=0.03 tokens=900")
    return used


def exceeded(
    caps: Iterable[Cap], attempt: Mapping[str, float], before: Callable[[str, str], float], *, starting: bool = False
) -> Cap | None:
    """The first cap that is exceeded; when `starting`, a cap that is merely reached counts too.

    `attempt` is what this attempt has used, `before(unit, period)` what was used before it: by earlier attempts of the
    run or, for a day or month, by all runs in that period.
    """
    for cap in caps:
        used = attempt.get(cap.unit, 0.0) + before(cap.unit, cap.period)
        if cap.unit == "usd":  # usd in doubt count too: they may have been spent
            used += attempt.get("doubt", 0.0) + before("doubt", cap.period)
        used = round(used, 9)  # or 0.1 + 0.1 + 0.1 would exceed 0.3
        reached = used >= cap.amount and (used > 0 or cap.period != "run")
        if used > cap.amount or (starting and reached):
            return cap
    return None


def _amount(text: str, item: str, hint: str = _HINT) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = -1.0
    if not 0 <= amount < 1e15:
        raise UsageError(f"{item.strip()!r} has no valid amount: {hint}")
    return amount
