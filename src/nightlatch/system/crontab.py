"""The crontab of this user, read and never written."""

from __future__ import annotations

import os

from . import program


def read() -> str | None:
    """What `crontab -l` prints; "" if there is none, None if there is no cron here."""
    try:
        code, out, err = program.run(["crontab", "-l"], env=os.environ, timeout=10)
    except (OSError, program.Unfinished):
        return None
    if code and b"no crontab" not in err:
        return None
    return "" if code else out.decode(errors="surrogateescape")
