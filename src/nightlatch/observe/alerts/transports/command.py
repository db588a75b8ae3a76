"""A command of yours, with the message as JSON on its standard input. Exit code 0: sent; 64: refused; else: retried."""

from __future__ import annotations

import os
import subprocess
from typing import Any

from ..message import Outgoing
from . import SECONDS, Refused, SendFailed

_REFUSED = 64


def send(settings: dict[str, Any], message: Outgoing) -> None:
    command = settings["command"]
    words = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
    environment = {**os.environ, "NIGHTLATCH_ALERT": message.id}
    try:
        done = subprocess.run(
            words, input=message.json().encode(), capture_output=True, timeout=SECONDS, check=False, env=environment
        )
    except subprocess.TimeoutExpired:
        raise SendFailed(f"{words[0]} took longer than {SECONDS:.0f}s") from None
    except (OSError, ValueError) as error:
        raise SendFailed(f"{words[0]} cannot be started: {error}") from None
    if done.returncode:
        why = f"{words[0]} exited with {done.returncode}: {done.stderr.decode(errors='replace').strip()[-200:]}"
        raise (Refused if done.returncode == _REFUSED else SendFailed)(why)
