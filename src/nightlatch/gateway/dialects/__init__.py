"""The metered APIs, one file each: how a request is read and limited, where a reply reports its usage, and which
refusal makes clients stop."""

from __future__ import annotations

from typing import Any

from ..body import Body
from ..requested import ModelRequest, ReplyUsage


class Dialect:
    """One metered API. The methods here do what most APIs have in common."""

    vendor: str

    def read(self, body: Body, path: str) -> ModelRequest:
        """What the request asks for."""
        raise NotImplementedError

    def limit(self, body: Body, output: int) -> None:
        """Limit the request's output to `output` tokens. (An embedding has no output.)"""

    def allow_uses(self, body: Body, uses: int) -> None:
        """Limit how often the request may use the vendor's tools, where the request can say that."""

    def prepare(self, body: Body, requested: ModelRequest) -> bool:
        """Make the reply report its usage. True: that adds an event, which is not passed on to the client."""
        return False

    def counting(self, body: Body, path: str) -> tuple[str, dict[str, Any]] | None:
        """Path and body of a request for the vendor's free count of the input; None: the vendor has none."""
        return None

    def counted(self, reply: dict[str, Any]) -> int | None:
        """The count in the vendor's reply to `counting`."""
        found = reply.get("input_tokens")
        return found if type(found) is int else None

    def read_usage(self, data: dict[str, Any], into: ReplyUsage) -> None:
        """Add to `into` the usage in a reply, or in one event of it."""
        raise NotImplementedError

    def is_ours(self, data: dict[str, Any]) -> bool:
        """Is this the event that only the gateway asked for?"""
        return False

    def refusal(self, message: str) -> tuple[int, dict[str, Any]]:
        """Status and body that make clients stop, without another try."""
        raise NotImplementedError

    def is_error(self, reply: dict[str, Any]) -> bool:
        """Is this an error in the vendor's own format?"""
        return isinstance(reply.get("error"), dict)
