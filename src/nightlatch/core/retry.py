"""After which end of an attempt another one is worth it, and when."""

from __future__ import annotations

from .. import exits
from . import statuses

STARTS = 3  # failed starts of one slot, after which a person has to look
GAVE_UP = f"{STARTS} starts of this slot came to nothing"  # why a run that never began needs attention
LONGEST = 3600.0  # seconds between two attempts, at the most

# Codes of sysexits.h and the shell for mistakes that the next try would repeat. Not 75, which means "try again", nor
# 69: something cannot be reached, such as the remote of a push.
PERMANENT = frozenset({*range(64, 79), 126, 127} - {69, 75})
TRY_AGAIN, FAILED_FOR_GOOD = exits.HELD, exits.PERMANENT  # EX_TEMPFAIL, EX_SOFTWARE

_HTTP_LATER = frozenset({408, 425, 429})
_HTTP_NEVER = frozenset({501, 505})  # the only permanent failures from 500 on: the server lacks the feature
_TRANSIENT_STATES = (statuses.TIMED_OUT, statuses.STALLED)


def worth_another(status: str, exit_code: int) -> bool:
    """Is another attempt worth it? Yes after a failed command, unless its exit code says that the failure is permanent,
    after a timeout or stall, and if the warden was killed. No if a person (or Ctrl-C), a budget, a shutdown or a newer
    holder ended it."""
    if status == statuses.FAILED:
        return exit_code not in PERMANENT and exit_code != exits.INTERRUPTED
    return status in _TRANSIENT_STATES or (status == statuses.LOST and exit_code == exits.OURS)


def is_due(due: float | None, now: float) -> bool:
    """May a waiting run be tried now? Yes also if its due time is further ahead than any pause: then the clock was set
    back meanwhile."""
    return due is None or not now < due <= now + 2 * LONGEST


def http_worth_another(status: int) -> bool:
    """May a request that failed with this HTTP status succeed later?"""
    return status in _HTTP_LATER or (status >= 500 and status not in _HTTP_NEVER)


def retry_after_seconds(text: str, now: float) -> float:
    """The seconds to wait by a Retry-After header, which is a number or a date. ValueError: it is neither."""
    if text.strip().replace(".", "", 1).isdecimal():
        return float(text)
    from email.utils import parsedate_to_datetime

    return max(parsedate_to_datetime(text).timestamp() - now, 0.0)


def pause(attempt: int, *, chance: float, base: float = 1.0, longest: float = LONGEST, at_least: float = 0.0) -> float:
    """Seconds to wait after attempt number `attempt` (1 is the first): random, below a limit that doubles, so that
    runs that failed together do not all try again at once.

    `chance` is a random number from 0 to 1. `at_least` is a server's Retry-After.
    """
    span = min(longest, base * 2.0 ** min(attempt - 1, 64))
    return max(min(at_least, LONGEST), span * chance)
