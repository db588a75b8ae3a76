"""The transports, a row each. A transport raises `Refused` if trying again is useless, else `SendFailed`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....core.value import value
from ..message import Outgoing

Send = Callable[[dict[str, Any], Outgoing], None]

SECONDS = 20.0  # for one try


class SendFailed(Exception):
    """Not delivered this time."""


class Refused(Exception):
    """Not delivered, and it never will be: the address or the message is wrong."""


@value(frozen=True, kw_only=True)
class Transport:
    module: str
    keys: tuple[str, ...]
    required: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()  # keys whose values are never in nightlatch.toml itself
    may_be_secret: tuple[str, ...] = ()  # keys whose values may, but need not, be in nightlatch.toml
    example: str

    @property
    def send(self) -> Send:
        from importlib import import_module

        found: Send = import_module(f"{__name__}.{self.module}").send
        return found


TRANSPORTS = {
    "command": Transport(
        module="command", keys=("command",), required=("command",), example='command = ["./page-me.sh"]'
    ),
    "webhook": Transport(
        module="webhook", keys=("url", "secret"), required=("url",), secrets=("secret",), may_be_secret=("url",),
        example='url = "https://example.org/hook"',
    ),
    "smtp": Transport(
        module="smtp", keys=("host", "port", "tls", "user", "password", "from", "to"), required=("host", "from", "to"),
        secrets=("password",), example='host = "mail.example.org"',
    ),
    "ntfy": Transport(
        module="ntfy", keys=("url", "token"), required=("url",), secrets=("token",), may_be_secret=("url",),
        example='url = "https://ntfy.sh/my-topic"',
    ),
    "desktop": Transport(module="desktop", keys=(), example="[alerts.desktop]"),
    "apprise": Transport(
        module="apprise", keys=("urls",), required=("urls",), may_be_secret=("urls",),
        example='urls = { env = "APPRISE_URLS" }',
    ),
}  # fmt: skip
