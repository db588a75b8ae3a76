"""What a request asks for, as its dialect reads it; and what a reply says that it used."""

from __future__ import annotations

from ..core.metering import price
from ..core.metering.call import LEAST
from ..core.value import value
from .body import BadBody

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

TOOL_TOKENS = 25_000  # that one use of a vendor's tool may read: an estimate
USES = 8  # of such a tool, where the request names no limit


@value(frozen=True, kw_only=True)
class Asked:
    models: tuple[str, ...]  # the first is asked for; one of the others may answer
    tier: str = ""  # a service tier or speed with prices of its own
    stream: bool = False
    inputs: tuple[str, ...] = price.INPUTS  # kinds that its input may be charged as
    output: int | None = None  # tokens; None: it names no limit
    has_output: bool = True  # False: nothing is generated, as with embeddings
    lowest: int = LEAST
    times: int = 1
    tools: tuple[str, ...] = ()  # kinds of fees: a use each may cost one
    uses: int = 0  # of those tools, at most
    uncounted: str = ""  # why the size of the body does not bound the input
    after: str = ""  # an id of earlier turns that the vendor keeps
    refused: str = ""  # why it cannot be metered at all


class ReplyUsage:
    """What a reply has said so far."""

    def __init__(self) -> None:
        self.counts: dict[str, int] | None = None  # by kind; None: it has not said
        self.more: list[tuple[str, dict[str, int]]] = []  # (model, counts) of other models that worked on it
        self.model = ""
        self.tier = ""
        self.id = ""  # by which later requests may refer to it
        self.ended = False  # the last word on usage was said
        self.input_known = False  # what was read is known, although the reply may go on

    @property
    def total(self) -> int:
        return price.tokens(self.counts or {}) + sum(price.tokens(counts) for _, counts in self.more)


def words(text: str) -> frozenset[str]:
    """Names, as they stand in a line."""
    return frozenset(text.split())


def number(found: object) -> int:
    """A count of tokens; what is not one counts as 0."""
    return found if type(found) is int and found > 0 else 0


def whole(fields: Mapping[str, Any], *names: str) -> int | None:
    """A limit that a request names, under one of these names; None if it names none. What is not a whole number may be
    one to the vendor ("9000", 9e3), and two names for one thing may be taken either way: neither can be bounded."""
    found = {name: fields[name] for name in names if fields.get(name) is not None}
    for name, stated in found.items():
        if type(stated) is not int or stated < 0:
            raise BadBody(f"{name} must be a whole number, 0 or more")
    if len(set(found.values())) > 1:
        raise BadBody(f"{' and '.join(found)} say different things: use one of them")
    return next(iter(found.values()), None)


def either(fields: Mapping[str, Any], *names: str) -> Any:
    """What stands under one of two spellings of one name."""
    found = [name for name in names if name in fields]
    if len(found) > 1:
        raise BadBody(f"{' and '.join(found)} are the same: use one of them")
    return fields[found[0]] if found else None


def table(found: object) -> dict[str, Any]:
    return found if isinstance(found, dict) else {}


def rows(found: object) -> list[dict[str, Any]]:
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
