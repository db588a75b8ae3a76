"""What tokens cost, for a vendor that does not say: asked of a process of its own, since the price list takes 0.4 s and
30 MB to load, and a driver that waits should be small."""

from __future__ import annotations

import sys

from ..core.metering import price
from ..core.metering.price import INPUTS, OUTPUTS, Price
from ..system import light

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class Tariff:
    """Of one vendor. A model is looked up once."""

    def __init__(self, vendor: str) -> None:
        self._vendor = vendor
        self._known: dict[str, Price | None] = {}

    def usd(self, model: str, counts: Mapping[str, int]) -> float | None:
        """None if the model has no price."""
        found = self.find(model)
        return None if found is None else sum(found.cost(counts).values()) / price.DOLLAR

    def tokens(self, model: str, usd: float, *, output: bool) -> int | None:
        """How many tokens `usd` pays for, if all are of the dearest kind; None if the model has no price."""
        found = self.find(model)
        dearest = found.dearest(*(OUTPUTS if output else (*INPUTS, *OUTPUTS))) if found else 0
        return int(usd * price.DOLLAR * price.MILLION / dearest) if dearest else None

    def find(self, model: str) -> Price | None:
        if model not in self._known:
            self._known[model] = _looked_up(self._vendor, model) if self._vendor and model else None
        return self._known[model]


def _looked_up(vendor: str, model: str) -> Price | None:
    import subprocess

    done = subprocess.run(
        [sys.executable, "-P", "-m", __name__, vendor, model], stdout=subprocess.PIPE, timeout=60, check=True
    )
    rates = light.loads(done.stdout)
    if rates is None:
        return None
    return Price(model=model, rates={kind: tuple((a, rate) for a, rate in tiers) for kind, tiers in rates.items()})


def main(vendor: str, model: str) -> None:
    from ..config import place
    from ..gateway.prices import Prices

    settings = place.settings("", "prices", "gateway")
    prices = Prices(settings.get("prices", {}), (settings.get("gateway") or {}).get("ceiling"))
    prices.load()
    found = prices.find(vendor, model)
    print(light.dumps(found[0].rates if found else None))


if __name__ == "__main__":
    main(*sys.argv[1:])
