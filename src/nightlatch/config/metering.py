"""The settings about money: `budget`, `[prices]` and `[gateway]`.

Prices are in usd: per million tokens, per thousand searches, or per call.
"""

from __future__ import annotations

from typing import Any

from ..core import budget, checks
from ..core.budget import Cap
from ..core.metering import price
from ..errors import UsageError
from .settings import Section

KINDS = (*price.INPUTS, *price.OUTPUTS, price.WEB_SEARCH)  # kinds of tokens and searches that can have a price
GATEWAY = ("ceiling", "allow")  # keys of [gateway]


def read_budget(section: Section) -> tuple[Cap, ...]:
    """The caps for all jobs together."""
    found = section.value
    text = ",".join(f"{name}={amount}" for name, amount in found.items()) if isinstance(found, dict) else found
    return budget.parse(checks.text(text, "budget"), ("day", "month"))


def read_prices(section: Section) -> dict[str, dict[str, float]]:
    """Prices by model; the name "MODEL:TIER" is for a service tier or a speed."""
    return {name: _price(one) for name, one in section.table(tuple(_names(section))).items()}


def read_gateway(section: Section) -> dict[str, Any]:
    known = section.table(GATEWAY)
    found: dict[str, Any] = {}
    if "ceiling" in known:
        found["ceiling"] = _price(known["ceiling"])
    if "allow" in known:
        paths = known["allow"].table(tuple(_names(known["allow"])))
        found["allow"] = {path.strip("/"): _amount(one) for path, one in paths.items()}
    return found


def _names(section: Section) -> list[str]:
    return list(section.value) if isinstance(section.value, dict) else []


def _price(section: Section) -> dict[str, float]:
    known = section.table((*KINDS, "window"))
    if "input" not in known or "output" not in known:
        section.mistake("a price needs input and output, in usd for a million tokens: { input = 1.5, output = 6 }")
    return {kind: _amount(one) for kind, one in known.items()}


def _amount(section: Section) -> float:
    try:
        checks.number(section.value, ".".join(section.path))
    except UsageError as error:
        section.mistake(str(error))
        return 0.0
    return float(section.value)
