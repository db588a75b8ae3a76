"""What becomes of one call at the vendor."""

from __future__ import annotations

from dataclasses import dataclass

# Faults. Nothing is charged for the first three of them.
REFUSED = "refused"  # 429, in the vendor's format
OVERLOADED = "overloaded"  # 529 or 503, in the vendor's format
RESET = "reset"  # the connection is closed before the call is worked on
PROXY = "proxy"  # 502 of a proxy in between: charged
LOST = "lost"  # charged, and the connection closed without a reply
CUT = "cut"  # the reply ends in its middle: charged for what was made
MUTE = "mute"  # a reply that does not say what it used: charged

ERRORS = (REFUSED, OVERLOADED)
FAULTS = (*ERRORS, RESET, PROXY, LOST, CUT, MUTE)


@dataclass(frozen=True)
class Plan:
    input: int | None = None  # tokens; None: by the length of what the model reads
    output: int = 20  # tokens, if the request allows so many
    cache_read: int = 0  # of the input
    cache_write: int = 0  # of the input
    cache_write_1h: int = 0  # of the input, Anthropic's
    reasoning: int = 0  # of the output
    searches: int = 0
    delay: float = 0.0  # seconds before the first byte
    pause: float = 0.0  # seconds between events of a stream
    chunks: int = 3  # events with text
    text: str = "night "  # of each
    fault: str = ""
    tool: dict[str, object] | None = None  # the tool that the model calls: name and input
    model: str = ""  # that answers, if not the one asked for
    tier: str = ""
    waits_for: str = ""  # a file: after its first event the stream goes on when that is there
