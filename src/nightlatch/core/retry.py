"""Which end of an attempt is worth another one, and when."""

from __future__ import annotations

from .. import exits
from . import statuses

LONGEST = 3600.0  # seconds between two attempts, at the most

# What sysexits.h and the shell call a mistake: it will be the same mistake next time. 75 says "try again", and 69 that
# something is away, as a remote that could not be pushed to.
PERMANENT = frozenset({*range(64, 79), 126, 127} - {69, 75})
AGAIN, IN_VAIN = exits.HELD, exits.PERMANENT  # exit codes that say so: EX_TEMPFAIL, EX_SOFTWARE

_HTTP_LATER = frozenset({408, 425, 429})
_HTTP_NEVER = frozenset({501, 505})  # of those from 500 on: the server cannot do it, now or later
_TRANSIENT_STATES = (statuses.TIMED_OUT, statuses.STALLED)


def worth_another(status: str, exit_code: int) -> bool:
    """A failed command is tried again unless its exit code says that the failure is permanent. What a person (Ctrl-C at
    a terminal too), a budget, a shutdown or a newer holder has ended is not; what a killed warden has, is."""
    if status == statuses.FAILED:
        return exit_code not in PERMANENT and exit_code != exits.INTERRUPTED
    return status in _TRANSIENT_STATES or (status == statuses.LOST and exit_code == exits.OURS)


def is_due(due: float | None, now: float) -> bool:
    """May a waiting run's next try be made? A time further ahead than it can have been set comes from a clock that
    was set back since."""
    return due is None or not now < due <= now + 2 * LONGEST


def http_worth_another(status: int) -> bool:
    """Of an HTTP status that says that it did not work: may the same request work later?"""
    return status in _HTTP_LATER or (status >= 500 and status not in _HTTP_NEVER)


def asked_for(text: str, now: float) -> float:
    """Seconds that a Retry-After header asks for: a number, or a date. ValueError: neither."""
    if text.strip().replace(".", "", 1).isdecimal():
        return float(text)
    from email.utils import parsedate_to_datetime

    return max(parsedate_to_datetime(text).timestamp() - now, 0.0)


def pause(attempt: int, *, chance: float, base: float = 1.0, longest: float = LONGEST, asked: float = 0.0) -> float:
    """Seconds to wait after attempt number `attempt` (1 is the first): full jitter over a doubling span, so that
    what failed together does not come back together.

    `chance` is a random number from 0 to 1. `asked` is what a server asked for (Retry-After): never less.
    """
    span = min(longest, base * 2.0 ** min(attempt - 1, 64))
    return max(min(asked, LONGEST), span * chance)
