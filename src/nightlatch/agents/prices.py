"""What tokens cost, for a vendor that does not report it. A separate process looks it up, since the price list takes
0.4 s and 30 MB to load, and a waiting driver should be small."""

from __future__ import annotations

import sys

from ..core import json_text
from ..core.metering import price
from ..core.metering.price import INPUTS, OUTPUTS, Price

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from subprocess import Popen

_PATIENCE = 60.0  # seconds for a lookup


class Tariff:
    """The prices of one vendor; each model is looked up once."""

    def __init__(self, vendor: str) -> None:
        self._vendor = vendor
        self._prices: dict[str, Price | None] = {}
        self._lookups: dict[str, Popen[bytes]] = {}

    def usd(self, model: str, counts: Mapping[str, int], *, wait: bool) -> float | None:
        """What the tokens cost; None if the model has no price, or, without `wait`, if the lookup has not finished."""
        found = self.find(model, wait=wait)
        return None if found is None else sum(found.cost(counts).values()) / price.DOLLAR

    def tokens(self, model: str, usd: float, *, output: bool) -> int | None:
        """How many tokens `usd` pays for, if all are of the dearest kind; None if the model has no price."""
        found = self.find(model)
        dearest = found.dearest(*(OUTPUTS if output else (*INPUTS, *OUTPUTS))) if found else 0
        return int(usd * price.DOLLAR * price.MILLION / dearest) if dearest else None

    def find(self, model: str, *, wait: bool = True) -> Price | None:
        if model in self._prices or not self._vendor or not model:
            return self._prices.get(model)
        process = self._lookups.get(model) or self._look_up(model)
        if not wait and process.poll() is None:
            return None
        rates = json_text.loads(process.communicate(timeout=_PATIENCE)[0] or b"null")
        prices = {kind: tuple((above, rate) for above, rate in tiers) for kind, tiers in (rates or {}).items()}
        self._prices[model] = Price(model=model, rates=prices) if prices else None
        return self._prices[model]

    def _look_up(self, model: str) -> Popen[bytes]:
        import subprocess

        words = [sys.executable, "-P", "-m", __name__, self._vendor, model]
        self._lookups[model] = process = subprocess.Popen(words, stdout=subprocess.PIPE)
        return process


def main(vendor: str, model: str) -> None:
    from ..config import place
    from ..gateway.prices import Prices

    settings = place.settings("", "prices", "gateway")
    prices = Prices(settings.get("prices", {}), (settings.get("gateway") or {}).get("ceiling"))
    prices.load()
    found = prices.find(vendor, model)
    print(json_text.dumps(found[0].rates if found else None))


if __name__ == "__main__":
    main(*sys.argv[1:])
