"""Where a run's steps are in the journal: a chain for each run, and another after each of its successes."""

from __future__ import annotations

from .chain import head_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .tables import Row

    Read = Callable[..., list[Row]]

STEPS = "steps:"  # begins the name of a chain of steps; the run's id follows

_TAIL = "SELECT seq, hash FROM {prefix}journal WHERE chain = :chain ORDER BY seq DESC LIMIT 1"
_SUCCEEDED = "SELECT attempt FROM {prefix}attempt WHERE run = :run AND status = 'succeeded' ORDER BY attempt DESC"


def chain_of(read: Read, run: str, *, before: bool = False) -> str:
    """The chain of a run's steps since its last success; `before`: of the steps that led to that success."""
    attempts = [attempt for (attempt,) in read(_SUCCEEDED, run=run)]
    return chain_after(run, next(iter(attempts[1:] if before else attempts), 0))


def last_success(read: Read, run: str) -> int:
    """The attempt of a run that succeeded last; 0: none."""
    return next((attempt for (attempt,) in read(_SUCCEEDED, run=run)), 0)


def chains_of(read: Read, run: str) -> list[str]:
    """All chains of steps that a run has had."""
    return [chain_after(run), *(chain_after(run, attempt) for (attempt,) in read(_SUCCEEDED, run=run))]


def chain_after(run: str, succeeded: int = 0) -> str:
    """The chain of steps after the attempt `succeeded`; 0: from the run's beginning."""
    return f"{STEPS}{run}" + (f"#{succeeded}" if succeeded else "")


def tail(read: Read, chain: str) -> tuple[int, str]:
    """(seq, hash) of the chain's last entry; (0, "") if it has none."""
    return next(((seq, hash_) for seq, hash_ in read(_TAIL, chain=chain)), (0, ""))


def head_of(read: Read, run: str) -> str | None:
    """The head of a run's steps, as it is kept in the run's own chain; None if it has none."""
    chain = chain_of(read, run)
    seq, hash_ = tail(read, chain)
    return head_text(chain, seq, hash_) if seq else None
