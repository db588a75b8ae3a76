"""The metered APIs, one file each: how a request is read and limited, where a reply reports its usage, and which
refusal makes clients stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ..body import Body
    from ..requested import ModelRequest, ReplyUsage


class Dialect(Protocol):
    vendor: str

    def read(self, body: Body, path: str) -> ModelRequest:
        """What the request asks for."""

    def limit(self, body: Body, output: int) -> None:
        """Limit the request's output to so many tokens."""

    def allow_uses(self, body: Body, uses: int) -> None:
        """Limit how often the request may use the vendor's tools."""

    def prepare(self, body: Body, requested: ModelRequest) -> bool:
        """Make the reply report its usage. True: that adds an event, which is not passed on to the client."""

    def counting(self, body: Body, path: str) -> tuple[str, dict[str, Any]] | None:
        """Path and body of a request for the vendor's free count of the input; None: the vendor has none."""

    def counted(self, reply: dict[str, Any]) -> int | None:
        """The count in the vendor's reply to `counting`."""

    def read_usage(self, data: dict[str, Any], into: ReplyUsage) -> None:
        """Add to `into` the usage in a reply, or in one event of it."""

    def is_ours(self, data: dict[str, Any]) -> bool:
        """Is this the event that only the gateway asked for?"""

    def refusal(self, message: str) -> tuple[int, dict[str, Any]]:
        """Status and body that make clients stop, without another try."""

    def is_error(self, reply: dict[str, Any]) -> bool:
        """Is this an error in the vendor's own format?"""
