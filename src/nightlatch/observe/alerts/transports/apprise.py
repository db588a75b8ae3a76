"""Every service that Apprise knows, by its URLs; an extra."""

from __future__ import annotations

from typing import Any

from ....system import extras
from ..message import URGENT, Outgoing
from ..settings import revealed
from . import Refused, SendFailed


def send(settings: dict[str, Any], message: Outgoing) -> None:
    try:
        import apprise
    except ImportError:
        raise Refused(f"apprise is not installed: {extras.install('alerts')}") from None
    urls = revealed(settings["urls"])
    services = apprise.Apprise()
    for url in urls.split() if isinstance(urls, str) else urls:
        if not services.add(str(url)):
            raise Refused("one of the urls is not understood by apprise")
    kind = apprise.NotifyType.FAILURE if message.rank <= URGENT else apprise.NotifyType.INFO
    # As plain text: services with markup then escape it.
    if not services.notify(
        body=message.text, title=message.subject, notify_type=kind, body_format=apprise.NotifyFormat.TEXT
    ):
        raise SendFailed("apprise could not deliver it to all of its urls")
