"""A POST of JSON, signed as Standard Webhooks say: the receiver can verify the sender and recognise
a repeated message by its id."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

from ....system import clock
from ..message import Outgoing
from ..settings import revealed
from . import Refused
from .http import post

_PREFIX = "whsec_"


def send(settings: dict[str, Any], message: Outgoing) -> None:
    body, moment = message.json().encode(), str(int(clock.wall()))
    headers = {
        "content-type": "application/json",
        "user-agent": "nightlatch",
        "webhook-id": message.id,
        "webhook-timestamp": moment,
    }
    if "secret" in settings:
        headers["webhook-signature"] = sign(str(revealed(settings["secret"])), message.id, moment, body)
    post(str(revealed(settings["url"])), body, headers)


def sign(secret: str, id_: str, moment: str, body: bytes) -> str:
    """v1: HMAC-SHA256 of id.timestamp.body. A secret that begins with whsec_ has the key in base64."""
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True) if secret.startswith(_PREFIX) else None
    except ValueError:
        raise Refused("the webhook's secret begins with whsec_ and is not base64 after that") from None
    signed = f"{id_}.{moment}.".encode() + body
    digest = hmac.new(secret.encode() if key is None else key, signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"
