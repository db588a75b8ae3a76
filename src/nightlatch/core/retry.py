"""Which end of an attempt is worth another one, and when."""

from __future__ import annotations

from . import states

LONGEST = 3600.0  # seconds between two attempts, at the most

# What sysexits.h and the shell call a mistake: it will be the same mistake next time. 75 says "try again", and 69 that
# something is away, as a remote that could not be pushed to.
PERMANENT = frozenset({*range(64, 79), 126, 127} - {69, 75})
_TRANSIENT_STATES = (states.TIMED_OUT, states.STALLED)


def worth_another(state: str, exit_code: int) -> bool:
    """A failed command is tried again unless its exit code says that trying is in vain. What a person, a budget or
    a newer holder has ended is not."""
    return state in _TRANSIENT_STATES or (state == states.FAILED and exit_code not in PERMANENT)


def pause(attempt: int, *, chance: float, base: float = 1.0, longest: float = LONGEST, asked: float = 0.0) -> float:
    """Seconds to wait after attempt number `attempt` (1 is the first): full jitter over a doubling span, so that
    what failed together does not come back together.

    `chance` is a random number from 0 to 1. `asked` is what a server asked for (Retry-After): never less.
    """
    span = min(longest, base * 2.0 ** (attempt - 1))
    return max(min(asked, LONGEST), span * chance)
