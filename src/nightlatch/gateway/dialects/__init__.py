"""The APIs that are metered, one file each: how a request is read and limited, where a reply says what it used, and the
refusal that makes its clients stop."""

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
        """Make it ask for so many tokens of output, at most."""

    def allow_uses(self, body: Body, uses: int) -> None:
        """Make it use the vendor's tools so many times, at most."""

    def prepare(self, body: Body, requested: ModelRequest) -> bool:
        """Make its reply say what it used. True: an event that only the gateway asked for is not passed on."""

    def counting(self, body: Body, path: str) -> tuple[str, dict[str, Any]] | None:
        """The path and body of the vendor's free count of its input; None: there is none."""

    def counted(self, reply: dict[str, Any]) -> int | None:
        """That count."""

    def see(self, data: dict[str, Any], seen: ReplyUsage) -> None:
        """A reply, or one event of it."""

    def is_ours(self, data: dict[str, Any]) -> bool:
        """Is it the event that only the gateway asked for?"""

    def refusal(self, message: str) -> tuple[int, dict[str, Any]]:
        """Status and body that make clients stop, without another try."""

    def is_error(self, reply: dict[str, Any]) -> bool:
        """Is it an error in the vendor's own format?"""
