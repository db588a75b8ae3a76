"""A notification on this machine's screen. Texts go as arguments: nothing in them is a script or markup."""

from __future__ import annotations

import html
import os
import subprocess
from typing import Any

from ..message import URGENT, Outgoing
from . import SECONDS, SendFailed

_SCRIPT = (
    "-e", "on run argv",
    "-e", "display notification (item 2 of argv) with title (item 1 of argv)",
    "-e", "end run",
)  # fmt: skip


def send(settings: dict[str, Any], message: Outgoing) -> None:
    words = command(os.uname().sysname, message)
    try:
        done = subprocess.run(words, capture_output=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SendFailed(f"{words[0]} did not work: {error}") from None
    if done.returncode:
        raise SendFailed(
            f"{words[0]} exited with {done.returncode}: {done.stderr.decode(errors='replace').strip()[-200:]}"
        )


def command(platform: str, message: Outgoing) -> list[str]:
    if platform == "Darwin":
        return ["osascript", *_SCRIPT, message.subject, message.text]
    urgency = "critical" if message.rank <= URGENT else "normal"
    text = html.escape(message.text, quote=False)  # notify-send reads the body as markup
    return ["notify-send", "--app-name=nightlatch", f"--urgency={urgency}", "--", message.subject, text]
