"""How much of a rise in cost is due to price, tokens per call, calls per run, and runs per day. Pure.

The cost of a day is the product of these factors. Each factor gets a part of the rise in proportion to the logarithm of
its change: the parts add up exactly and do not depend on the order of the factors.
"""

from __future__ import annotations

from math import log

from ..core.value import value

_SMALL = 1e-12


@value(frozen=True, kw_only=True)
class Level:
    """What a run uses at one level, and how many runs there are in a day."""

    usd: float
    tokens: float = 0.0
    calls: float = 0.0
    runs_a_day: float = 0.0  # 0: not known


def by_cause(before: Level, after: Level) -> dict[str, float]:
    """The additional cost of a day (of a run, if the runs per day are not known) in USD by cause, the largest first.
    Without calls, tokens are counted per run; without tokens and calls, only runs and price are causes."""
    runs_known = before.runs_a_day > 0 and after.runs_a_day > 0
    runs = (before.runs_a_day, after.runs_a_day) if runs_known else (1.0, 1.0)
    cost = before.usd * runs[0], after.usd * runs[1]
    if min(before.usd, after.usd) <= _SMALL:
        return {"price": cost[1] - cost[0]}
    factors = {"runs": runs}
    tokens, calls = (before.tokens, after.tokens), (before.calls, after.calls)
    if min(tokens) > 0 and min(calls) > 0:
        factors |= {"calls": calls, "tokens a call": (tokens[0] / calls[0], tokens[1] / calls[1])}
    elif min(tokens) > 0:
        factors["tokens"] = tokens
    elif min(calls) > 0:
        factors["calls"] = calls
    logs = {name: log(late / early) for name, (early, late) in factors.items()}
    rise = log(cost[1] / cost[0])
    logs["price"] = rise - sum(logs.values())
    scale = (cost[1] - cost[0]) / rise if abs(rise) > _SMALL else cost[0]
    found = {name: share * scale for name, share in logs.items() if abs(share) > _SMALL}
    return dict(sorted(found.items(), key=lambda item: -abs(item[1])))
