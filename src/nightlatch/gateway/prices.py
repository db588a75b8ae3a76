"""Prices of models: those of genai-prices, compiled to whole billionths at a model's first use, and those of the user.

Loaded after the gateway listens: the import takes longer than a command needs to start.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from ..core.metering import price
from ..core.metering.price import Price

_KINDS = {  # the names in genai-prices → ours
    "input_mtok": price.INPUT,
    "cache_read_mtok": price.CACHE_READ,
    "cache_write_mtok": price.CACHE_WRITE,
    "cache_write_1h_mtok": price.CACHE_WRITE_1H,
    "input_audio_mtok": price.INPUT_AUDIO,
    "cache_audio_read_mtok": price.CACHE_AUDIO,
    "input_image_mtok": price.INPUT_IMAGE,
    "input_video_mtok": price.INPUT_VIDEO,
    "output_mtok": price.OUTPUT,
    "output_audio_mtok": price.OUTPUT_AUDIO,
    "output_image_mtok": price.OUTPUT_IMAGE,
    "output_video_mtok": price.OUTPUT_VIDEO,
    "web_searches_kcount": price.WEB_SEARCH,
    "storage_searches_kcount": price.FILE_SEARCH,
    "requests_kcount": price.CALL,
}
# Dollars for a thousand searches of a model for which the list has no such price: the dearest of its vendor.
_SEARCH = {"anthropic": 10, "openai": 10, "google": 35}
_PREVIEW = 50
_TIERS = {"auto": ("default", "priority", "fast")}  # requested tier → those that may be charged


class Prices:
    def __init__(self, stated: Mapping[str, Mapping[str, Any]], ceiling: Mapping[str, Any] | None) -> None:
        """`stated`: by model, usd for a million tokens of each kind. `ceiling`: the same, for all other models."""
        self._stated, self._ceiling = stated, ceiling
        self._known: dict[tuple[str, str, str], list[Price]] = {}
        self._snapshot: Any = None

    def load(self) -> None:
        from genai_prices.data_snapshot import get_snapshot

        self._snapshot = get_snapshot()

    def find(self, vendor: str, model: str, tier: str = "") -> list[Price]:
        """All prices that a call may be charged at, first the one to settle with; [] if there is none."""
        found = self._known.get((vendor, model, tier))
        if found is None:
            found = self._known[vendor, model, tier] = self._look_up(vendor, model, tier)
            if len(self._known) > 1000:  # the command chooses the names, so there may be many
                self._known.clear()
        return found

    def _look_up(self, vendor: str, model: str, tier: str) -> list[Price]:
        name = f"{model}:{tier}" if tier and tier not in _TIERS else model
        if name in self._stated:
            return [_from_table(name, self._stated[name])]
        listed = self._listed(vendor, model)
        if listed:
            compiled = [_compiled(model, listed, one, vendor) for one in _TIERS.get(tier, (tier,))]
            if found := [one for one in compiled if one]:
                return found
        return [_from_table(name, self._ceiling)] if self._ceiling else []

    def _listed(self, vendor: str, model: str) -> Any:
        try:
            return self._snapshot.find_provider_model(model.removeprefix("models/"), None, vendor, None)[1]
        except LookupError:
            return None


def _from_table(name: str, stated: Mapping[str, Any]) -> Price:
    rates = {kind: ((0, _billionths(Decimal(str(amount)))),) for kind, amount in stated.items() if kind != "window"}
    if price.WEB_SEARCH in rates:  # users state the price of a thousand searches
        rates[price.WEB_SEARCH] = ((0, rates[price.WEB_SEARCH][0][1] * 1000),)
    return Price(model=name, rates=rates, window=int(stated.get("window", 0)), listed="stated")


def _compiled(name: str, listed: Any, tier: str, vendor: str) -> Price | None:
    """Today's prices; None if the model has none for the tier."""
    now = datetime.now(UTC)
    if not isinstance(listed.prices, list):
        base = listed.prices
    else:  # the last of those that are in force
        base = next(
            one.prices for one in reversed(listed.prices) if one.constraint is None or _is_active(one.constraint, now)
        )
    rates = _rates(base)
    if tier and tier != "default":
        variant = next((one for one in listed.price_variants or () if _is_for(one, tier, now)), None)
        if variant is None:
            return None
        rates |= _rates(variant.prices)
    search = _PREVIEW if name.endswith("-search-preview") else _SEARCH.get(vendor, 0)
    if any(rate for tiers in rates.values() for _, rate in tiers):
        rates.setdefault(price.WEB_SEARCH, ((0, search * price.DOLLAR * 1000),))
    return Price(model=name, rates=rates, window=listed.context_window or 0, listed="genai-prices")


def _is_active(constraint: Any, now: datetime) -> bool:
    return bool(constraint.active(now))


def _is_for(variant: Any, tier: str, now: datetime) -> bool:
    return variant.when.get("service_tier") == tier and (
        variant.constraint is None or _is_active(variant.constraint, now)
    )


def _rates(prices: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, amount in vars(prices).items():
        kind = _KINDS.get(name)
        if kind is None or amount is None:
            continue
        times = 1000 if name.endswith("_kcount") else 1
        if isinstance(amount, Decimal):
            found[kind] = ((0, _billionths(amount) * times),)
        else:
            tiers = [(0, amount.base), *((tier.start, tier.price) for tier in amount.tiers)]
            found[kind] = tuple((above, _billionths(rate) * times) for above, rate in tiers)
    return found


def _billionths(usd: Decimal) -> int:
    """Dollars in whole billionths, rounded up."""
    return int(-(-usd * price.DOLLAR // 1))
