"""What the vendor charges, computed independently: by genai-prices' arithmetic, or by rates that a test has made up."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

DOLLAR = 10**9
PROVIDERS = {"anthropic": "anthropic", "openai": "openai", "google": "google"}


@dataclass(frozen=True)
class Counts:
    """Tokens, each counted once."""

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    output: int = 0
    searches: int = 0


def listed(vendor: str, model: str, counts: Counts) -> int:
    """Billionths, by genai-prices."""
    from genai_prices import Usage, calc_price

    total = counts.input + counts.cache_read + counts.cache_write + counts.cache_write_1h
    written: dict[str, int] = {}
    if counts.cache_write or counts.cache_write_1h:
        written["cache_write_tokens"] = counts.cache_write + counts.cache_write_1h
    if counts.cache_write_1h:
        written["cache_write_1h_tokens"] = counts.cache_write_1h
    usage = Usage(input_tokens=total, cache_read_tokens=counts.cache_read, output_tokens=counts.output, **written)
    found = Fraction(calc_price(usage, model, provider_id=PROVIDERS[vendor]).total_price)
    return round((found + Fraction(counts.searches, 100)) * DOLLAR)


@dataclass(frozen=True)
class Rates:
    """Made up: dollars for a million tokens."""

    input: Fraction
    output: Fraction
    cache_read: Fraction
    cache_write: Fraction

    def __call__(self, vendor: str, model: str, counts: Counts) -> int:
        million = (
            counts.input * self.input
            + counts.cache_read * self.cache_read
            + (counts.cache_write + counts.cache_write_1h) * self.cache_write
            + counts.output * self.output
        )
        return round(million / 10**6 * DOLLAR)
