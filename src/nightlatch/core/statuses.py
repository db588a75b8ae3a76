"""The statuses of a run, and which may follow which.

pending ─seal→ running ─finish→ succeeded
   ↑ │            │ └─────────→ failed, timed-out, stalled, over-budget, cancelled, lost ─→ pending (next attempt)
   │ └→ cancelled └──→ waiting ─→ running (the next try), cancelled, pending (if it was held for an approval)
   └── needs-attention, in-doubt: a person decides ─→ succeeded, failed, cancelled; needs-attention also pending
"""

from __future__ import annotations

from .. import exits

_OPEN, _DONE, _AGAIN, _PERSON = "open", "done", "again", "person"  # groups of statuses
_ROWS: dict[str, tuple[str, int]] = {}  # status → its group, and the exit code of `nightlatch run`


def _row(name: str, group: str, exit_code: int) -> str:
    """Declare a status. The exit code of a command that ran to its end takes precedence over `exit_code`."""
    _ROWS[name] = group, exit_code
    return name


def _of(*groups: str) -> tuple[str, ...]:
    return tuple(name for name, (group, _) in _ROWS.items() if group in groups)


PENDING = _row("pending", _OPEN, exits.HELD)  # not begun, or may be begun again
RUNNING = _row("running", _OPEN, exits.HELD)  # a holder has sealed it
WAITING = _row("waiting", _OPEN, exits.HELD)  # without a lease, for its next try or for an approval
SUCCEEDED = _row("succeeded", _DONE, exits.DONE)
FAILED = _row("failed", _AGAIN, exits.FAILED)
TIMED_OUT = _row("timed-out", _AGAIN, exits.TIMED_OUT)
STALLED = _row("stalled", _AGAIN, exits.STALLED)
OVER_BUDGET = _row("over-budget", _AGAIN, exits.OVER_BUDGET)
CANCELLED = _row("cancelled", _AGAIN, exits.CANCELLED)
LOST = _row("lost", _AGAIN, exits.LEASE_LOST)  # its holder died, was shut down or lost its lease: it may have acted
IN_DOUBT = _row("in-doubt", _PERSON, exits.NEEDS_PERSON)  # it may have acted, and nobody knows
NEEDS_ATTENTION = _row("needs-attention", _PERSON, exits.NEEDS_PERSON)

OPEN = _of(_OPEN)
AGAIN = _of(_AGAIN)  # ended, and another attempt may follow
FAILURES = tuple(status for status in AGAIN if status != CANCELLED)
NEEDS_PERSON = _of(_PERSON)
KEEPS_APPROVAL = (LOST, FAILED)  # after such an end a plan's approval stays valid: the next try may publish it
TERMINAL = (SUCCEEDED, *AGAIN)
ALL = (*OPEN, *TERMINAL, *NEEDS_PERSON)

_FOLLOWS = {
    PENDING: (RUNNING, WAITING, CANCELLED, NEEDS_ATTENTION),
    RUNNING: (WAITING, *TERMINAL, *NEEDS_PERSON),
    WAITING: (PENDING, RUNNING, CANCELLED, NEEDS_ATTENTION),
    SUCCEEDED: (PENDING,),  # only by --again
    IN_DOUBT: (SUCCEEDED, FAILED, CANCELLED),
    NEEDS_ATTENTION: (PENDING, SUCCEEDED, FAILED, CANCELLED),
} | dict.fromkeys(AGAIN, (PENDING,))


def is_terminal(status: str) -> bool:
    """Has the run ended, so that nothing more happens unless it is started again?"""
    return status in TERMINAL


def needs_person(status: str) -> bool:
    return status in NEEDS_PERSON


def may_start(status: str) -> bool:
    """May another attempt be started by the same job and key?"""
    return status in AGAIN


def may_seal(status: str) -> bool:
    """May a holder with a higher token begin an attempt? Also while it is running: the older holder has lost it."""
    return status in OPEN


def may_follow(status: str, following: str) -> bool:
    return following in _FOLLOWS[status]


def exit_code(status: str, own: int | None = None) -> int:
    """The exit code of `nightlatch run`: `own`, the command's, if the command ran to its end."""
    if status in (SUCCEEDED, FAILED) and own is not None:
        return own
    return _ROWS[status][1]
