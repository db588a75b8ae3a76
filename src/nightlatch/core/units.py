"""The units that usage is counted in. A new one is a row here, and a column in a migration of the ledger."""

from __future__ import annotations

from .value import value


@value(frozen=True, kw_only=True)
class Unit:
    scale: int = 1  # stored as a whole number of 1/scale, so that sums of many small amounts stay exact
    table: str = ",.0f"  # how it is formatted in a column of figures

    def show(self, amount: float) -> str:
        """In a line of text."""
        return f"{amount:.0f}" if self.scale == 1 else f"{amount:g}"


UNITS = {
    "usd": Unit(scale=10**9, table=".4f"),
    "tokens": Unit(),
    "calls": Unit(),
    "units": Unit(scale=10**6, table="g"),
    "doubt": Unit(scale=10**9, table=".4f"),
}
CAPPED = tuple(unit for unit in UNITS if unit != "doubt")  # what a budget may bound and a command may report
METERED = ("usd", "tokens", "calls")  # what the gateway counts by itself


@value(frozen=True, kw_only=True)
class Amounts:
    """How much of each unit."""

    usd: float = 0.0
    tokens: float = 0
    calls: float = 0
    units: float = 0.0
    doubt: float = 0.0  # usd that may have been spent in addition: nobody saw the end of the reply

    def by_unit(self) -> dict[str, float]:
        return {unit: getattr(self, unit) for unit in UNITS}

    def show(self) -> str:
        return " ".join(f"{unit}={UNITS[unit].show(amount)}" for unit, amount in self.by_unit().items() if amount)
