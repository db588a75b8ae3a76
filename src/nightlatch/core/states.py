"""The states of a run, and what may follow what.

pending ─seal→ running ─finish→ succeeded
   ↑ │            │ └─────────→ failed, timed-out, stalled, over-budget, cancelled, lost ─→ pending (next attempt)
   │ └→ cancelled └──→ waiting ─seal→ running, or cancelled
   └── in-doubt, needs-attention: a person decides ─→ succeeded, failed, cancelled or pending
"""

from __future__ import annotations

from .. import exits

PENDING = "pending"  # nobody has begun it, or it may be begun again
RUNNING = "running"  # a holder has sealed it
WAITING = "waiting"  # between two tries, with its due time and without a lease; or for an approval
SUCCEEDED = "succeeded"
FAILED = "failed"
TIMED_OUT = "timed-out"
STALLED = "stalled"
OVER_BUDGET = "over-budget"
CANCELLED = "cancelled"
LOST = "lost"  # its holder died, was shut down or lost its lease: it may have acted
IN_DOUBT = "in-doubt"  # it may have acted, and nobody knows
NEEDS_ATTENTION = "needs-attention"

OPEN = (PENDING, RUNNING, WAITING)
AGAIN = (FAILED, TIMED_OUT, STALLED, OVER_BUDGET, CANCELLED, LOST)  # ended, and another attempt may follow
ASKING = (IN_DOUBT, NEEDS_ATTENTION)  # a person has to decide
TERMINAL = (SUCCEEDED, *AGAIN)
ALL = (*OPEN, *TERMINAL, *ASKING)

_FOLLOWS = {
    PENDING: (RUNNING, CANCELLED, NEEDS_ATTENTION),
    RUNNING: (WAITING, *TERMINAL, *ASKING),
    WAITING: (PENDING, RUNNING, CANCELLED, NEEDS_ATTENTION),
    SUCCEEDED: (PENDING,),  # only when somebody asks for it: --again
    IN_DOUBT: (SUCCEEDED, FAILED, CANCELLED),
    NEEDS_ATTENTION: (PENDING, SUCCEEDED, FAILED, CANCELLED),
} | dict.fromkeys(AGAIN, (PENDING,))

# What `nightlatch run` exits with when the run ended so; a command's own exit code goes before it.
_EXIT = {
    SUCCEEDED: exits.DONE,
    FAILED: exits.FAILED,
    TIMED_OUT: exits.TIMED_OUT,
    STALLED: exits.STALLED,
    OVER_BUDGET: exits.OVER_BUDGET,
    CANCELLED: exits.CANCELLED,
    LOST: exits.LEASE_LOST,
    IN_DOUBT: exits.NEEDS_PERSON,
    NEEDS_ATTENTION: exits.NEEDS_PERSON,
}


def is_terminal(state: str) -> bool:
    """Has it ended by itself, so that nothing more happens unless somebody starts it again?"""
    return state in TERMINAL


def needs_person(state: str) -> bool:
    return state in ASKING


def may_start(state: str) -> bool:
    """May another attempt be started, by whoever names the same job and key again?"""
    return state in AGAIN


def may_seal(state: str) -> bool:
    """May a holder with a higher token begin its attempt? A running one was left behind by its holder."""
    return state in OPEN


def may_follow(state: str, following: str) -> bool:
    return following in _FOLLOWS[state]


def exit_code(state: str, own: int | None = None) -> int:
    """What the run itself exits with: the command's own code when it ran to its end."""
    if state in (SUCCEEDED, FAILED) and own is not None:
        return own
    return _EXIT.get(state, exits.HELD)
