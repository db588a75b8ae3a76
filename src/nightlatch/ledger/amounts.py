"""Usage as whole numbers: sums of a month's thousand small amounts are exact, on both databases."""

from __future__ import annotations

from ..errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

SCALE = {"usd": 10**9, "tokens": 1, "calls": 1, "units": 10**6}
_MOST = 4 * 10**18  # what is left below 2**63 holds one more of them


def counted(amounts: Mapping[str, float]) -> dict[str, int]:
    """Every unit's amount as it is stored. Part of a token counts as one: usage is never understated."""
    unknown = amounts.keys() - SCALE.keys()
    if unknown:
        raise UsageError(f"{min(unknown)!r} cannot be used up: report {', '.join(SCALE)}")
    counts = dict.fromkeys(SCALE, 0)
    for unit, amount in amounts.items():
        if not 0 <= amount * SCALE[unit] <= _MOST:
            raise UsageError(f"{unit}={amount} is no amount that can be used")
        counts[unit] = -int(-amount // 1) if SCALE[unit] == 1 else round(amount * SCALE[unit])
    return counts


def shown(unit: str, count: int) -> float:
    """The amount as people write it."""
    return count / SCALE[unit] if SCALE[unit] > 1 else count
