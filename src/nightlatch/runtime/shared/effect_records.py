"""The records of an effect, for every machine that shares the store, and a person's decision on one in doubt.

The ledger has them all, but with some stores (git) each machine has its own ledger. What other machines must not miss
is therefore in the store too, as done keys, which need the lease's grant and never change: that an attempt was begun,
that it was proven not done, and the effect's result once it is done.
"""

from __future__ import annotations

from ...core import advice
from ...core import effects as rules
from ...core.effects import BEGUN, DONE, FAILED, IN_DOUBT
from ...core.model import Done, Holder, check_name
from ...errors import Busy, InputChanged, StaleToken, StoreUnreachable, UsageError
from ...ledger import open_for
from ...ledger.effects import Effect
from ...store import url
from ...system import clock, identity
from .leases.lease import Lease

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias, TypeVar

    from ...core.protocols import Store
    from ...ledger.ledger import Ledger
    from ..supervisor.effects.effect_requests import EffectLease

    HeldLease: TypeAlias = Lease | EffectLease
    T = TypeVar("T")

_PATIENCE = 5.0  # seconds for which a failed write is retried


def ledger_is_per_machine(store: Store, ledger: Ledger) -> bool:
    """Do the machines that share this store each have their own ledger?"""
    return not ledger.many_machines and url.ledger_of(store.url) == url.OF_EACH_MACHINE


class EffectRecords:
    """All records of one effect. `peek` and `state` need no lease; the others need the effect's lease."""

    def __init__(self, store: Store, ledger: Ledger, scope: str, key: str) -> None:
        self.scope, self.key = check_name(scope), rules.check_key(key)
        self._store, self._effects = store, ledger.effects
        self.ledger_is_per_machine = ledger_is_per_machine(store, ledger)

    @property
    def lease_name(self) -> str:
        return rules.lease_name(self.scope, self.key)

    def peek(self, input: str) -> tuple[Done | None, Effect | None]:
        """What is known without the lease: the done key, and the ledger's row, which may be out of date."""
        done, known = self._store.look(f"once:{self.scope}", self.key), self._effects.find(self.scope, self.key)
        self._check_input(done.input if done else known.input if known and known.status != FAILED else "", input)
        return done, known

    def state(self) -> tuple[object, ...]:
        """A value that changes when an attempt begins on any machine, or ends on this one: then a decision is void."""
        known = self._effects.find(self.scope, self.key)
        attempt = known.attempt if known else 0
        newest = self._newest_attempt(attempt) if self.ledger_is_per_machine else attempt
        return (newest, known.status, known.changed) if known else (newest,)

    def look(self, lease: HeldLease, input: str) -> Effect | None:
        """The effect now: store and ledger reconciled under the lease. None if it was never begun."""
        done, known = self.peek(input)
        if known and known.status == BEGUN:
            known = self._effects.reap(known)  # its holder is gone: we have the lease now
        if done and (known is None or known.status != DONE):
            attempt = known.attempt if known else 1
            return self._learn(done, DONE, attempt, done.input, 0.0, done.value, "the store has it as done")
        if known and known.status == DONE and not done:
            self._settle(lease, known)  # its holder died between the two records
        elif self.ledger_is_per_machine and (known is None or known.status != DONE):
            known = self._look_elsewhere(known)
        return known

    def begin(self, lease: HeldLease, known: Effect | None, *, command: str, input: str, lasting: float) -> Effect:
        """Record the intent, durably, before anything is done."""
        attempt = known.attempt + 1 if known else 1
        if self.ledger_is_per_machine:
            # In the store first, where no machine misses it: a crash after this leaves a doubt, never a second effect.
            intent = f"{clock.wall() + lasting:.3f} {lease.holder.host} {input}"
            self._store.settle(lease.name, lease.grant, f"begun:{self.scope}", f"{attempt} {self.key}", value=intent)
        return self._effects.begin(
            self.scope,
            self.key,
            attempt=attempt,
            token=lease.token,
            grant=lease.grant,
            holder=lease.holder,
            command=command,
            input=input,
            lasting=lasting,
        )

    def finish(
        self, lease: HeldLease, effect: Effect, status: str, *, exit_code: int | None, result: str, reason: str
    ) -> Effect:
        """Record how it ended, first in this machine's ledger: only we know the exit code. Retries for a while."""
        ended = _retrying(lambda: self._finish(effect, status, exit_code=exit_code, result=result, reason=reason))
        _retrying(lambda: self._share(lease, ended))
        return ended

    def _finish(self, effect: Effect, status: str, *, exit_code: int | None, result: str, reason: str) -> Effect:
        try:
            return self._effects.finish(effect, status, exit_code=exit_code, result=result, reason=reason)
        except StaleToken:
            known = self._effects.find(self.scope, self.key)
            if known is None or (known.grant, known.attempt, known.status) != (effect.grant, effect.attempt, status):
                raise
            return known  # only the reply was lost

    def decide(self, lease: HeldLease, effect: Effect, status: str, *, by: str, result: str = "") -> Effect:
        """Record what a probe or a person found out about an effect in doubt."""
        decided = self._effects.decide(effect, status, by=by, result=result)
        self._share(lease, decided)
        return decided

    def _share(self, lease: HeldLease, effect: Effect) -> None:
        if effect.status == DONE:
            self._settle(lease, effect)
        elif effect.status == FAILED and self.ledger_is_per_machine:
            attempt_key = f"{effect.attempt} {self.key}"
            self._store.settle(lease.name, lease.grant, f"failed:{self.scope}", attempt_key, value=effect.reason)

    def _settle(self, lease: HeldLease, effect: Effect) -> None:
        self._store.settle(
            lease.name, lease.grant, f"once:{self.scope}", self.key, value=effect.result, input=effect.input
        )

    def _look_elsewhere(self, known: Effect | None) -> Effect | None:
        """The effect, with what other machines have begun or decided since this ledger last learned of it."""
        attempt = self._newest_attempt(known.attempt if known else 0)
        not_done = self._store.look(f"failed:{self.scope}", f"{attempt} {self.key}") if attempt else None
        if known and attempt == known.attempt:
            if known.status == IN_DOUBT and not_done:
                return self._effects.decide(known, FAILED, by=not_done.value or "decided on another machine")
            return known
        intent = self._store.look(f"begun:{self.scope}", f"{attempt} {self.key}") if attempt else None
        if intent is None:
            return known
        deadline, host, input_ = intent.value.split(" ", 2)
        why = not_done.value if not_done else f"begun on {host}, which has not reported how it ended"
        return self._learn(intent, FAILED if not_done else IN_DOUBT, attempt, input_, float(deadline), "", why, host)

    def _newest_attempt(self, attempt: int) -> int:
        """The last attempt that was begun on any machine; `attempt` is the last one that this ledger knows."""
        while self._store.look(f"begun:{self.scope}", f"{attempt + 1} {self.key}"):
            attempt += 1
        return attempt

    def _learn(
        self,
        recorded: Done,
        status: str,
        attempt: int,
        input_: str,
        deadline: float,
        result: str,
        why: str,
        host: str = "?",
    ) -> Effect:
        """Record in this ledger what the store knows."""
        learned = Effect(
            scope=self.scope,
            key=self.key,
            status=status,
            attempt=attempt,
            token=recorded.token,  # of the grant that recorded it, lower than every later one
            grant="",
            holder=Holder(incarnation="", user="?", host=host),
            input=input_,
            deadline=deadline,
            result=result,
            reason=why,
        )
        return self._effects.learn(learned)

    def _check_input(self, before: str, now: str) -> None:
        if before and now and before != now:
            raise InputChanged(
                f"the key {self.key} was used with other input before. A key names what is done: use another key for "
                f"other work"
            )


def _retrying(record: Callable[[], T]) -> T:
    """Retry for a while: a full disk may get room again, a server may come back."""
    until = clock.now() + _PATIENCE
    while True:
        try:
            return record()
        except StoreUnreachable:
            if clock.now() >= until:
                raise
            clock.sleep(0.5)


def doubt_message(effect: Effect, more: str = "") -> str:
    return (
        f"the effect {effect.key} is in doubt: {effect.reason}{'; ' if more else ''}{more}. It is not done again "
        f"before that is decided. Check whether it was done, then: {hint(effect.scope, effect.key)}"
    )


def hint(scope: str, key: str) -> str:
    """The command that decides an effect in doubt. (Not written as done|failed: a shell would make a pipe of it.)"""
    scoped = () if scope == rules.STORE_WIDE else ("--scope", scope)
    done = advice.command("resolve", *rules.words_to_type(key, "done", options=scoped))
    return f"{done} (or failed, or again, in place of done)"


def resolve(
    key: str,
    outcome: str,
    *,
    by: str = "",
    scope: str = rules.STORE_WIDE,
    store: str | None = None,
    wait: float = 0.0,
    result: str = "",
) -> Effect:
    """Decide an effect in doubt: `done` (with a result), `failed` (it was not done), or `again` (do it again, whatever
    became of it).

    Raises Busy while a run works on it, UsageError if it is not in doubt, or was begun again while we waited.
    """
    status, by = rules.resolution(outcome), by or identity.user()
    connected = url.connect(store)
    records = EffectRecords(connected, open_for(url.resolve(store)), scope, key)
    before = records.state()
    try:
        held = Lease(connected, records.lease_name, ttl=connected.default_ttl, wait=wait)
    except Busy as busy:
        raise Busy(
            f"a process does the effect {key}, or waits for its probe: end it, then decide. {busy}", busy.record
        ) from None
    with held as lease:
        if records.state() != before:
            raise UsageError(f"the effect {key} has changed meanwhile, and nothing was decided. Look at it again")
        effect = records.look(lease, "")
        if effect is None:
            raise UsageError(f"there is no effect {key} in the scope {scope}. Name another --scope or --store")
        if effect.status != IN_DOUBT:
            raise UsageError(f"the effect {key} is {effect.status}: only one in doubt can be resolved")
        return records.decide(lease, effect, status, by=f"resolved as {outcome} by {by}", result=result)
