"""A call before it is made: the most it may cost, and how much output the rest of the budget can pay for."""

from __future__ import annotations

from ..value import value
from .price import rounded_up

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    Left = Mapping[str, int]  # unit → how much is left under its caps, in parts of 1/scale; only units with a cap

PREAMBLE = 2000  # tokens that a vendor may add to the input
AMPLE = 16_384  # tokens of output; avoid lowering a call's limit below this: an agent that is cut short calls again
LEAST = 1024  # tokens of output without which a call is not worth its input
UNSTATED = 128_000  # tokens of output assumed for a call without a limit, of a model whose limit is not known
SHARE = 4  # a call may hold a quarter of what is left for its output, since calls beside it need some too

# If the end of a reply was not seen, assume a burst, and then this speed for as long as the call lasted.
SPEED = 1000  # tokens a second
BURST = 2000  # tokens


@value(frozen=True, kw_only=True)
class Call:
    """The most that a call can use, as far as its body shows. Rates are billionths of a dollar for a million tokens."""

    input: int  # tokens
    input_rate: int
    output: int | None  # the limit that it names, in tokens of output; None: it names none
    output_rate: int
    lowest: int = LEAST  # tokens below which its output cannot be lowered; higher with a thinking budget
    highest: int = UNSTATED  # the most tokens of output that are possible
    times: int = 1  # answers to one request
    passes: int = 1  # how often its input may be read
    fee: int = 0  # billionths, for tools that the vendor runs and for calls with a fixed price
    extra: int = 0  # tokens that such tools may read, counted as input
    counted: bool = False  # `input` is the vendor's count, not an estimate from the size of the body

    @property
    def wanted(self) -> int:
        return self.highest if self.output is None else min(self.output, self.highest)

    def bound(self, output: int) -> dict[str, int]:
        """The most it uses of each unit if its output is limited to `output` tokens."""
        return {
            "usd": self.fixed + rounded_up(self.output_rate * output * self.times),
            "tokens": self._read + output * self.times,
            "calls": 1,
        }

    @property
    def fixed(self) -> int:
        """Billionths for input and fees, which no limit on the output can lower."""
        return rounded_up(self.input_rate * self._read) + self.fee

    @property
    def _read(self) -> int:
        """Tokens of input, in all passes."""
        return self.input * self.passes + self.extra

    def affordable(self, left: Left) -> int:
        """Tokens of output that the rest of the budget can pay for; negative: not even the input."""
        most = self.highest
        if "calls" in left and left["calls"] < 1:
            return -1
        if "tokens" in left:
            most = min(most, (left["tokens"] - self._read) // self.times)
        if "usd" in left and (self.fixed or self.output_rate):  # a free call is never refused for money
            rest = left["usd"] - self.fixed
            if rest < 0:
                return -1
            if self.output_rate:
                most = min(most, rest * 1_000_000 // (self.output_rate * self.times))
        return most

    def share(self, left: Left) -> int:
        """Tokens of output that one call's share of what is left can pay for."""
        most = self.highest
        if "tokens" in left:
            most = min(most, left["tokens"] // SHARE // self.times)
        if "usd" in left and self.output_rate:
            most = min(most, left["usd"] // SHARE * 1_000_000 // (self.output_rate * self.times))
        return most


def fit(call: Call, left: Left) -> int | None:
    """Tokens of output to hold for a call; None if it does not fit into what is left.

    As many as it wants, lowered to its share, but not below AMPLE if what is left can pay for that.
    """
    affordable = call.affordable(left)
    if affordable < min(call.wanted, call.lowest) or affordable < 0:
        return None
    ample = min(affordable, max(AMPLE, call.lowest))
    return min(call.wanted, affordable, max(call.share(left), ample))


def unlowered(call: Call, left: Left) -> dict[str, int] | None:
    """What to hold for a call that fits with the output it wants; None if it does not, or has to be lowered."""
    wanted = call.wanted
    bound = call.bound(wanted)
    for unit, rest in left.items():
        if bound[unit] > rest:
            return None
    return bound if wanted <= AMPLE or wanted <= call.lowest or wanted <= call.share(left) else None


def is_lowered(call: Call, output: int) -> bool:
    return output < call.wanted and call.output is not None


def in_doubt(*, fixed: int, output_rate: int, output: int, most: int, seconds: float, known: int | None = None) -> int:
    """Billionths that a call of `seconds` may have cost, if the end of its reply was not seen.

    `fixed`: for its input and fees; `known`: used instead, if the vendor has reported its input; `most`: what was held.
    """
    answered = int(min(output, BURST + SPEED * max(seconds, 0.0)))
    return min((fixed if known is None else known) + rounded_up(output_rate * answered), most)
