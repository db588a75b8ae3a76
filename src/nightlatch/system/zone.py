"""Time zones, by name or this machine's own, with their daylight saving rules."""

from __future__ import annotations

import os
import time

from ..errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import tzinfo

QUARTER = 900_000  # ms; in every time zone, each quarter of an hour lies within one day

_LOCAL = "/etc/localtime"
_looked_up: dict[str, tuple[float, str]] = {}  # TZ → when it was looked up, and the zone's name
_last_day: dict[str, tuple[int, str]] = {}  # zone → the quarter of an hour that was asked for last, and its day
_DATABASE = "zoneinfo/"  # the folder with a file for each named zone


def name() -> str:
    """This machine's zone in a form that other machines understand: its name, or an offset such as +02:00."""
    named = os.environ.get("TZ", "").lstrip(":") or _LOCAL
    path = os.path.realpath(named) if os.path.isabs(named) else f"{_DATABASE}{named}"
    _, found, known = path.partition(_DATABASE)
    if found:
        try:
            find(known)
            return known
        except UsageError:
            pass  # TZ=EST5EDT4 and the like: rules without a name
    minutes = time.localtime().tm_gmtoff // 60
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"


def day(name: str, ms: int) -> str:
    """The day of a moment in a zone, as in 2026-07-31."""
    quarter, known = ms // QUARTER, _last_day.get(name)
    if known is None or known[0] != quarter:
        known = _last_day[name] = quarter, _day(name, ms / 1000)
    return known[1]


def _day(name: str, seconds: float) -> str:
    """As `day`, not cached. Only a zone other than this machine's needs `zoneinfo`."""
    if name == "UTC":
        shown = time.gmtime(seconds)
    elif name[:1] in ("+", "-"):
        hours, minutes = name[1:].split(":")
        offset = int(hours) * 3600 + int(minutes) * 60
        shown = time.gmtime(seconds + (offset if name[0] == "+" else -offset))
    elif name == _own_name():
        shown = time.localtime(seconds)
    else:
        from datetime import datetime

        return datetime.fromtimestamp(seconds, find(name)).date().isoformat()
    return time.strftime("%Y-%m-%d", shown)


def _own_name() -> str:
    """The name of the zone that the C library uses; "" if that is not certain. Looked up at most once a second, since a
    report on a year of runs asks for each day."""
    now, named = time.monotonic(), os.environ.get("TZ", "")
    if now - _looked_up.get(named, (-2.0, ""))[0] > 1.0:
        _looked_up[named] = now, _look_up()
    return _looked_up[named][1]


def _look_up() -> str:
    named = os.environ.get("TZ", "").lstrip(":")
    if named:
        return named if os.path.exists(f"/usr/share/{_DATABASE}{named}") else ""
    return os.path.realpath(_LOCAL).partition(_DATABASE)[2]


def find(name: str = "") -> tzinfo:
    """The named zone; without a name, that of TZ (a name, or a file as in :/etc/localtime) or else the machine's."""
    import zoneinfo

    name = name or os.environ.get("TZ", "").lstrip(":")
    try:
        if name[:1] in ("+", "-"):
            from datetime import datetime

            offset = datetime.strptime(name, "%z").tzinfo
            if offset:
                return offset
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
