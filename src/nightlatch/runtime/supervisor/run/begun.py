"""Keys that were begun and have not ended, where each machine has its own ledger (git).

The lease's record lists them, so that no machine repeats silently what another began. The ledger of the machine
that began a key knows the rest; a person's decision is in the store for all of them, as a done key.
"""

from __future__ import annotations

from ....core import statuses
from ....core.model import Begun, Done
from ....ledger import kinds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ....core.protocols import Store
    from ....ledger.ledger import Ledger
    from ....ledger.records import RunRow
    from ...shared.leases.lease import Lease

_DONE = "done"


def entry(ledger: Ledger, job: str, key: str) -> Begun:
    """The entry that acquiring the lease puts on the list."""
    known = ledger.find(job, key)
    return Begun(key=key, attempt=known.attempt + 1 if known else 1)


def elsewhere(lease: Lease, ledger: Ledger, run: RunRow) -> list[Begun]:
    """The attempts of this run that other machines began and did not end, and nobody has decided; the newest last."""
    listed = [one for one in lease.begun if one.key == run.key]
    tokens_here = {attempt.token for attempt in ledger.attempts(run.id)} if listed else set()
    foreign = [one for one in listed if one.token not in tokens_here]
    return [one for one in foreign if not _decision(lease.store, run.job, run.key, one.token)]


def sentence(one: Begun) -> str:
    return f"attempt {one.attempt} was begun on {one.host} (token {one.token}), which has not reported how it ended"


def ended_tokens(lease: Lease, ledger: Ledger, key: str, *, earlier: bool) -> set[int]:
    """The tokens of the entries to remove when `key` has ended: this attempt's; those of other keys that ended in
    this ledger while their holder could not reach the store; with `earlier`, those of the key's earlier attempts."""
    ours = {lease.token, *(one.token for one in lease.begun if one.key == key and earlier)}
    return ours | {one.token for one in lease.begun if one.key != key and _ended_here(ledger, lease.name, one)}


def _ended_here(ledger: Ledger, job: str, one: Begun) -> bool:
    run = ledger.find(job, one.key)
    return (
        run is not None
        and statuses.is_terminal(run.status)
        and any(attempt.token == one.token for attempt in ledger.attempts(run.id))
        and (run.status == statuses.SUCCEEDED or not _may_have_pushed(ledger, run))
    )


def _may_have_pushed(ledger: Ledger, run: RunRow) -> bool:
    from ..publishing.publish import earlier_intents

    intents, outcomes = earlier_intents(ledger, run.id)
    return any("commit" in facts and outcomes.get(url) != kinds.NOT_PUBLISHED for url, facts in intents.items())


def decision(store: Store, ledger: Ledger, run: RunRow) -> Done | None:
    """What a person has decided, on any machine, about the attempt that left this run in doubt."""
    return _decision(store, run.job, run.key, doubtful_token(ledger, run)) if store.lists_begun else None


def outcome(decided: Done) -> tuple[str, str]:
    """The run's status by the decision, and the name of the person who decided."""
    outcome, _, by = decided.value.partition(" ")
    return statuses.SUCCEEDED if outcome == _DONE else statuses.FAILED, by


def decide(lease: Lease, job: str, key: str, outcome: str, by: str, tokens: Iterable[int] = ()) -> None:
    """Record a person's decision about every attempt of the key that is listed, and take them off the list."""
    listed = {*tokens, *(one.token for one in lease.begun if one.key == key)}
    for token in sorted(listed):
        lease.store.settle(lease.name, lease.grant, _scope(job), f"{token} {key}", value=f"{outcome} {by}")
    lease.ended |= listed


def doubtful_tokens(ledger: Ledger, run: RunRow) -> set[int]:
    return {doubtful_token(ledger, run)} - {0}


def _decision(store: Store, job: str, key: str, token: int) -> Done | None:
    return store.look(_scope(job), f"{token} {key}") if token else None


def _scope(job: str) -> str:
    return f"resolved:{job}"


def doubtful_token(ledger: Ledger, run: RunRow) -> int:
    """The token of the attempt that may have acted: the run's last one, or one begun on another machine; 0: none."""
    token = 0
    for one in ledger.journal.of_run(run.id):
        if one.kind in (kinds.STARTED, kinds.LOST, kinds.BEGUN_ELSEWHERE):
            token = int(str(one.facts["token"]))
    return token
