"""ntfy, through its JSON interface: no text of a run gets into a header."""

from __future__ import annotations

import json
from typing import Any

from ..message import Outgoing
from ..settings import revealed
from . import Refused
from .http import post

_PRIORITY = {0: 5, 1: 4, 2: 4}  # rank → ntfy's priority; any other rank has 3, the default


def send(settings: dict[str, Any], message: Outgoing) -> None:
    server, _, topic = str(revealed(settings["url"])).rstrip("/").rpartition("/")
    if not topic or "://" not in server:
        raise Refused("url must be a server and a topic: https://ntfy.sh/my-topic")
    facts = {
        "topic": topic,
        "title": message.subject,
        "message": message.text,
        "priority": _PRIORITY.get(message.rank, 3),
        "markdown": False,
    }
    if message.page:
        facts["click"] = message.page
    headers = {"content-type": "application/json"}
    if "token" in settings:
        headers["authorization"] = f"Bearer {revealed(settings['token'])}"
    post(server, json.dumps(facts).encode(), headers)
