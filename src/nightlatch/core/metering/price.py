"""What a model costs: rates in whole billionths of a dollar for a million tokens, or for a million uses of a tool."""

from __future__ import annotations

from ..value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    Rate = tuple[tuple[int, int], ...]  # (tokens of input above which it applies, rate), the lowest number first

MILLION = 10**6
DOLLAR = 10**9  # billionths

# Kinds of tokens and uses, as usage rows name them.
INPUT, CACHE_READ, CACHE_WRITE, CACHE_WRITE_1H = "input", "cache_read", "cache_write", "cache_write_1h"
INPUT_AUDIO, INPUT_IMAGE, INPUT_VIDEO, CACHE_AUDIO = "input_audio", "input_image", "input_video", "cache_audio"
OUTPUT, OUTPUT_AUDIO, OUTPUT_IMAGE, OUTPUT_VIDEO = "output", "output_audio", "output_image", "output_video"
WEB_SEARCH, FILE_SEARCH = "web_search", "file_search"  # uses, not tokens
CALL = "call"  # a call at a stated price

INSTEAD = {  # a kind → the kind whose rate applies to a model that has no rate for it
    CACHE_READ: INPUT,
    CACHE_WRITE: INPUT,
    CACHE_WRITE_1H: CACHE_WRITE,
    INPUT_AUDIO: INPUT,
    INPUT_IMAGE: INPUT,
    INPUT_VIDEO: INPUT,
    CACHE_AUDIO: INPUT_AUDIO,
    OUTPUT_AUDIO: OUTPUT,
    OUTPUT_IMAGE: OUTPUT,
    OUTPUT_VIDEO: OUTPUT,
}
INPUTS = (INPUT, CACHE_READ, CACHE_WRITE, CACHE_WRITE_1H, INPUT_AUDIO, INPUT_IMAGE, INPUT_VIDEO, CACHE_AUDIO)
OUTPUTS = (OUTPUT, OUTPUT_AUDIO, OUTPUT_IMAGE, OUTPUT_VIDEO)
USES = (WEB_SEARCH, FILE_SEARCH, CALL)  # counted, but not as tokens


@value(frozen=True, kw_only=True)
class Price:
    """The rates of one model, in one of its tiers."""

    model: str
    rates: Mapping[str, Rate]
    window: int = 0  # tokens that fit into its context; 0: not known
    listed: str = ""  # since when, or where the price is from: for people

    def rate(self, kind: str, input_tokens: int = 0) -> int:
        """Billionths for a million of a kind, in a call with `input_tokens`."""
        found = self.rates.get(kind)
        if found is None:
            return self.rate(INSTEAD[kind], input_tokens) if kind in INSTEAD else 0
        if len(found) == 1:
            return found[0][1]
        return next((rate for above, rate in reversed(found) if input_tokens > above or not above), found[0][1])

    def dearest(self, *kinds: str) -> int:
        """The highest rate of these kinds, whatever the amount of input."""
        return max(rate for kind in kinds for _, rate in self._tiers(kind))

    def _tiers(self, kind: str) -> Rate:
        found = self.rates.get(kind)
        if found is None:
            return self._tiers(INSTEAD[kind]) if kind in INSTEAD else ((0, 0),)
        return found

    def cost(self, counts: Mapping[str, int]) -> dict[str, int]:
        """Kind → billionths, for each kind that was used; each rounded, so that shown costs add up to their total."""
        found = {}
        for kind, count in counts.items():
            if count:
                tiers = self.rates.get(kind, ())
                rate = tiers[0][1] if len(tiers) == 1 else self.rate(kind, _input(counts))
                found[kind] = (rate * count + MILLION // 2) // MILLION
        return found

    @property
    def is_free(self) -> bool:
        return not any(rate for rates in self.rates.values() for _, rate in rates)


def _input(counts: Mapping[str, int]) -> int:
    return sum([count for kind, count in counts.items() if kind in INPUTS])


def tokens(counts: Mapping[str, int]) -> int:
    """How many tokens were counted; uses of tools are not tokens."""
    return sum(count for kind, count in counts.items() if kind not in USES)


def rounded_up(amount: int) -> int:
    """Billionths from `amount`, a rate for a million times a number; rounded up."""
    return -(-amount // MILLION)


def raised(amount: int, percent: int) -> int:
    """The amount with a surcharge, rounded up."""
    return amount + -(-amount * percent // 100) if percent else amount
