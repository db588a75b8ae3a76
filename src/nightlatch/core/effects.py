"""Effects: what is done to the outside world, and what is known about it afterwards.

begun ─→ done
  ├────→ failed: proven not done, so it may be begun again
  └────→ in-doubt: nobody knows. A probe or a person decides: done or failed. Never repeated silently.
"""

from __future__ import annotations

from ..errors import UsageError
from . import checks
from .model import check_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

BEGUN = "begun"
DONE = "done"
FAILED = "failed"
IN_DOUBT = "in-doubt"
PLANNED = "planned"  # a dry-run would have done it
SET_ASIDE = "needs-attention"  # items only: it reported that its failure is permanent

GIVEN_UP = "given-up"  # items only: a person has set it aside for good
GIVE_UP = "give-up"  # what a person types for that
RESOLUTIONS = {"done": DONE, "failed": FAILED, "again": FAILED}  # what a person types → the status it leads to

STORE_WIDE = "once"  # the scope of an effect that names none

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds between two runs of a probe; each pause is twice the one before

_LONGEST_KEY = 1000
_EXIT_CODES = range(1, 256)


def judge(exit_code: int, ended_by: str, not_done: Collection[int]) -> tuple[str, str]:
    """(status, reason) of an effect whose command has ended.

    `ended_by`: what ended the command from outside; "" if it ended by itself. In that case the exit code proves
    something if it is 0 or in `not_done`, the codes declared to mean that nothing was done.
    """
    if ended_by:
        return IN_DOUBT, f"it was ended from outside ({ended_by}) and may have acted before"
    if exit_code == 0:
        return DONE, ""
    if exit_code in not_done:
        return FAILED, f"exit code {exit_code}, which says that nothing was done"
    return IN_DOUBT, f"exit code {exit_code}, which does not say whether it acted"


def resolution(outcome: str, *, of_item: bool = False) -> str:
    """The status that a person's decision leads to."""
    if of_item and outcome == GIVE_UP:
        return GIVEN_UP
    if outcome not in RESOLUTIONS:
        raise UsageError(f"an effect cannot be resolved as {outcome!r}: use {', '.join(RESOLUTIONS)}")
    return RESOLUTIONS[outcome]


def codes(text: str) -> frozenset[int]:
    """Exit codes as people list them: `6,7` or `64-78`."""
    found: set[int] = set()
    for part in text.split(",") if text.strip() else ():
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise UsageError(f"--not-done {text!r}: list exit codes, as in 6,7 or 64-78")
        span = range(int(first), int(last or first) + 1)
        if not span or span[0] not in _EXIT_CODES or span[-1] not in _EXIT_CODES:
            raise UsageError(f"--not-done {text!r}: exit codes are from 1 to 255, and 0 always means done")
        found |= set(span)
    return frozenset(found)


def words_to_type(key: str, *words: str, options: Collection[str] = ()) -> tuple[str, ...]:
    """What to type after a command: key, `words`, `options`; if the key begins with -, options and -- come first."""
    return (*options, "--", key, *words) if key.startswith("-") else (key, *words, *options)


def check_key(key: str) -> str:
    if not isinstance(key, str) or not key or len(key) > _LONGEST_KEY or not key.isprintable():
        raise UsageError(
            f"{checks.shown(key)} cannot be a key: use 1 to {_LONGEST_KEY} printable characters that name what is "
            f"done, as in invoice/2026-117"
        )
    return key


def lease_name(scope: str, key: str) -> str:
    """The lease that an effect is done under: a hash, since a key may hold characters that a lease name may not."""
    from .keys import key as derive

    return f"once:{derive('effect', scope, key)[:32]}"


def idempotency_key(key: str, scope: str = STORE_WIDE) -> str:
    """The key to send to an API so that it acts once: the same for every try, on every machine.

    Never derived from a token or a grant: those change with every try, and a server that gets another key acts again.
    """
    from .keys import key as derive

    return derive("idempotency", scope, key)


def idempotency_header(key: str, scope: str = STORE_WIDE) -> dict[str, str]:
    """The HTTP header for an effect's request: `requests.post(url, headers=idempotency_header("invoice/117"))`."""
    return {"Idempotency-Key": idempotency_key(check_key(key), check_name(scope))}
