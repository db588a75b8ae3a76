"""Time zones, by name or this machine's own, with their daylight saving rules."""

from __future__ import annotations

import os
import zoneinfo

from ..errors import UsageError

_LOCAL = "/etc/localtime"


def find(name: str = "") -> zoneinfo.ZoneInfo:
    """The named zone; without a name, the one that TZ or the machine's settings name. TZ=:/etc/localtime is a file."""
    name = name or os.environ.get("TZ", "").lstrip(":")
    try:
        if name and not os.path.isabs(name):
            return zoneinfo.ZoneInfo(name)
        with open(name or _LOCAL, "rb") as file:
            return zoneinfo.ZoneInfo.from_file(file, key="local")
    except (OSError, zoneinfo.ZoneInfoNotFoundError, ValueError) as error:
        if isinstance(error, FileNotFoundError) and not name:
            return zoneinfo.ZoneInfo("UTC")
        raise UsageError(
            f"the time zone {name or _LOCAL!r} is not known here: use a name such as Europe/Berlin or UTC"
        ) from error
