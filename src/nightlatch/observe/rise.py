"""How much of a rise is price, tokens a call, calls a run, and runs a day. Pure.

Money is their product, and the rise of a product has no natural parts: each factor gets the share of its logarithm,
which adds up exactly and does not depend on the order of the factors.
"""

from __future__ import annotations

from math import log

from ..core.value import value

_SMALL = 1e-12


@value(frozen=True, kw_only=True)
class Level:
    """What a run takes at one level, and how many there are in a day."""

    usd: float
    tokens: float = 0.0
    calls: float = 0.0
    runs_a_day: float = 0.0  # 0: not known


def parts(before: Level, after: Level) -> dict[str, float]:
    """How the additional cost of a day (of a run, if the runs of a day are not known) divides: usd for each cause, the
    largest first. Without calls, tokens are counted for a run; without tokens there is only the price of a run."""
    counted = before.runs_a_day > 0 and after.runs_a_day > 0
    runs = (before.runs_a_day, after.runs_a_day) if counted else (1.0, 1.0)
    whole = before.usd * runs[0], after.usd * runs[1]
    if min(before.usd, after.usd) <= _SMALL:
        return {"price": whole[1] - whole[0]}
    factors = {"runs": runs}
    tokens, calls = (before.tokens, after.tokens), (before.calls, after.calls)
    if min(tokens) > 0 and min(calls) > 0:
        factors |= {"calls": calls, "tokens a call": (tokens[0] / calls[0], tokens[1] / calls[1])}
    elif min(tokens) > 0:
        factors["tokens"] = tokens
    elif min(calls) > 0:
        factors["calls"] = calls
    known = {name: log(late / early) for name, (early, late) in factors.items()}
    rise = log(whole[1] / whole[0])
    known["price"] = rise - sum(known.values())
    scale = (whole[1] - whole[0]) / rise if abs(rise) > _SMALL else whole[0]
    found = {name: share * scale for name, share in known.items() if abs(share) > _SMALL}
    return dict(sorted(found.items(), key=lambda item: -abs(item[1])))
