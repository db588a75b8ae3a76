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
        """Limit its output to so many tokens."""

    def allow_uses(self, body: Body, uses: int) -> None:
        """Limit its uses of the vendor's tools."""

    def prepare(self, body: Body, requested: ModelRequest) -> bool:
        """Make its reply report its usage. True: an event that only the gateway asked for is not passed on."""

    def counting(self, body: Body, path: str) -> tuple[str, dict[str, Any]] | None:
        """The path and body of the vendor's free count of its input; None: there is none."""

    def counted(self, reply: dict[str, Any]) -> int | None:
        """The count in the vendor's reply to `counting`."""

    def see(self, data: dict[str, Any], seen: ReplyUsage) -> None:
        """Read the usage in a reply, or in one event of it."""

    def is_ours(self, data: dict[str, Any]) -> bool:
        """Is it the event that only the gateway asked for?"""

    def refusal(self, message: str) -> tuple[int, dict[str, Any]]:
        """Status and body that make clients stop, without another try."""

    def is_error(self, reply: dict[str, Any]) -> bool:
        """Is it an error in the vendor's own format?"""
