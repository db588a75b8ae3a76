"""The crontab of this user, which is only read."""

from __future__ import annotations

import os

from . import program


def read() -> str | None:
    """What `crontab -l` prints; "" if this user has no crontab, None if it cannot be read or there is no cron."""
    try:
        code, out, err = program.run(["crontab", "-l"], env=os.environ, timeout=10)
    except (OSError, program.Unfinished):
        return None
    if code and b"no crontab" not in err:
        return None
    return "" if code else out.decode(errors="surrogateescape")
