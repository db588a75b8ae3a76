"""The units that usage is counted in. A new one is a row here, and a column in a migration of the ledger."""

from __future__ import annotations

from .value import value


@value(frozen=True, kw_only=True)
class Unit:
    scale: int = 1  # amounts are stored in whole parts of 1/scale, so that sums of many small ones stay exact
    table: str = ",.0f"  # how it is formatted in a column of figures

    def show(self, amount: float) -> str:
        """The amount for a line of text."""
        return f"{amount:.0f}" if self.scale == 1 else f"{amount:g}"


UNITS = {
    "usd": Unit(scale=10**9, table=".4f"),
    "tokens": Unit(),
    "calls": Unit(),
    "units": Unit(scale=10**6, table="g"),
    "doubt": Unit(scale=10**9, table=".4f"),
}
CAPPED = tuple(unit for unit in UNITS if unit != "doubt")  # those that a budget may cap and a command may report
METERED = ("usd", "tokens", "calls")  # those that the gateway counts


@value(frozen=True, kw_only=True)
class Amounts:
    """How much of each unit."""

    usd: float = 0.0
    tokens: float = 0
    calls: float = 0
    units: float = 0.0
    doubt: float = 0.0  # usd that may have been spent in addition: the end of a reply was not seen

    def by_unit(self) -> dict[str, float]:
        return {unit: getattr(self, unit) for unit in UNITS}

    def show(self) -> str:
        return " ".join(f"{unit}={UNITS[unit].show(amount)}" for unit, amount in self.by_unit().items() if amount)
