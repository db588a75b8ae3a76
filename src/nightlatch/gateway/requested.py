"""What a request asks for, as its dialect reads it; and the usage that its reply reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.metering import price
from ..core.metering.call import LEAST
from ..core.value import value
from .body import BadBody

TOOL_TOKENS = 25_000  # tokens that one use of a vendor's tool may read: an estimate
MOST = 10**9  # tokens that a request may name as its limit: what more may cost, no ledger can keep
ANSWERS = 1000  # that it may ask for at once
USES = 8  # uses of such a tool, if the request names no limit


@value(frozen=True, kw_only=True)
class ModelRequest:
    models: tuple[str, ...]  # the first is asked for; one of the others may answer
    tier: str = ""  # a service tier or speed, with separate prices
    stream: bool = False
    inputs: tuple[str, ...] = price.INPUTS  # kinds that its input may be charged as
    output: int | None = None  # tokens at most; None: the request sets no limit
    has_output: bool = True  # False: nothing is generated, as with embeddings
    lowest: int = LEAST  # tokens below which its output cannot be limited
    times: int = 1  # how many answers it asks for
    tools: tuple[str, ...] = ()  # kinds of fees; each use of a tool may cost one
    uses: int = 0  # of those tools, at most
    passes: int = 1  # how often a model may read the whole input and answer, at most
    consults: bool = False  # each use of a tool may be one more pass
    surcharge: int = 0  # percent on every price
    uncounted: str = ""  # why the size of the body does not bound the input
    after: str = ""  # the id of earlier turns, which the vendor stores
    refused: str = ""  # why it cannot be metered at all


class ReplyUsage:
    """What a reply has reported so far."""

    def __init__(self) -> None:
        self.counts: dict[str, int] | None = None  # by kind; None: not reported yet
        self.stated: dict[str, int] = {}  # as the reply's own total says, where it names its parts too
        self.surcharge: int | None = None  # percent on every price; None: not reported
        self.more: list[tuple[str, dict[str, int]]] = []  # (model, counts) of other models that took part
        self.model = ""
        self.tier = ""
        self.id = ""  # by which later requests may refer to the reply, if the vendor stores it
        self.ended = False  # its usage is final
        self.input_known = False  # its input is known, although the reply may go on

    @property
    def total(self) -> int:
        return price.tokens(self.counts or {}) + sum(price.tokens(counts) for _, counts in self.more)


def words(text: str) -> frozenset[str]:
    """The words of a line, as a set."""
    return frozenset(text.split())


def number(found: object) -> int:
    """A count of tokens; 0 for anything that is not a positive whole number."""
    return found if type(found) is int and found > 0 else 0


def whole(fields: Mapping[str, Any], *names: str, most: int = MOST) -> int | None:
    """The limit that a request sets under one of these names; None if it sets none. Raises `BadBody` for what a vendor
    may read in another way than we do: "9000" or 9e3, and two different limits; and for more than any vendor allows,
    such as sys.maxsize."""
    found: int | None = None
    for name in names:
        stated = fields.get(name)
        if stated is None:
            continue
        if type(stated) is not int or stated < 0:
            raise BadBody(f"{name} must be a whole number, 0 or more")
        if stated > most:
            raise BadBody(f"{name} must be at most {most}")
        if found is not None and found != stated:
            raise BadBody(f"{' and '.join(names)} say different things: use one of them")
        found = stated
    return found


def either(fields: Mapping[str, Any], *names: str) -> Any:
    """The field that may be spelt in two ways. Raises `BadBody` if both are there."""
    found = [name for name in names if name in fields]
    if len(found) > 1:
        raise BadBody(f"{' and '.join(found)} are the same: use one of them")
    return fields[found[0]] if found else None


def table(found: object) -> dict[str, Any]:  # {} for anything that is not an object
    return found if isinstance(found, dict) else {}


def rows(found: object) -> list[dict[str, Any]]:  # the objects in a list; [] for anything else
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
