"""What needs a person's decision besides this ledger's runs: effects in doubt, items of batches in doubt or set aside,
and runs that other machines have left behind."""

from __future__ import annotations

from ..core import advice, effects
from ..core.advice import Advice
from ..core.effects import BEGUN, IN_DOUBT, STORE_WIDE
from ..core.value import value
from ..ledger.effects import Effect
from ..runtime.supervisor.afterwards import lapse
from ..runtime.supervisor.run.begun import sentence
from .reader import StoreReader

_MOST = 200  # effects read of each status


@value(frozen=True, kw_only=True)
class OpenDecision:
    """An effect, one or many items of a batch, or another machine's run."""

    key: str
    status: str
    changed: float
    scope: str = ""  # only if it is an effect
    batch: str = ""  # only if it is items
    job: str = ""  # only if it is another machine's run, which is in the store but not in this ledger
    count: int = 1  # of items
    reason: str = ""

    @property
    def of(self) -> str:
        """The batch, job or scope that it belongs to."""
        return self.batch or self.job or self.scope

    @property
    def title(self) -> str:
        if self.batch:
            return f"the item {self.key} of the batch {self.batch}"
        if self.job:
            return f"the run of {self.job} with the key {self.key}"
        return f"the effect {self.key}" + (f" in {self.scope}" if self.scope != STORE_WIDE else "")

    @property
    def sentence(self) -> str:
        return f"{self.title} is {self.status}: {self.reason}"

    @property
    def note(self) -> str:
        """The reason; for several items, it begins with the key of one of them as an example."""
        return ": ".join(filter(None, (f"as {self.key}" if self.count > 1 else "", self.reason)))

    def resolve(self, *outcome: str, whole: bool = False) -> Advice:
        """The command that decides it. `whole`: with --scope even if the scope is the whole store."""
        options = ["--batch", self.batch] if self.batch else ["--job", self.job] if self.job else []
        options += ["--scope", self.scope] if self.scope not in ("", "" if whole else STORE_WIDE) else []
        return advice.to("resolve", *effects.words_to_type(self.key, *outcome, options=options))

    def facts(self) -> dict[str, object]:
        """The fields of the JSON output."""
        where: dict[str, object] = {"job": self.job} if self.job else {"scope": self.scope}
        if self.batch:
            where = {"batch": self.batch, "items": self.count}
        return {
            "version": 1,
            **where,
            "key": self.key,
            "status": self.status,
            "changed": self.changed,
            "reason": self.reason,
        }


def here(reader: StoreReader) -> list[OpenDecision]:
    """The open effects and items in this ledger; the items of a batch are one decision for each status."""
    begun = reader.ledger.effects.every(BEGUN, limit=_MOST)
    now = reader.store.clock() if begun else 0.0
    found = [_effect(effect, why) for effect in begun if (why := _why_left(reader, effect, now))]
    found += [_effect(effect, effect.reason) for effect in reader.ledger.effects.every(IN_DOUBT, limit=_MOST)]
    return [*found, *items(reader)]


def elsewhere(reader: StoreReader, job: str = "") -> list[OpenDecision]:
    """Runs that other machines have begun and left behind: of `job`, or of all jobs."""
    return [
        OpenDecision(key=one.key, status=lapse.LAPSED, changed=one.at, job=name, reason=sentence(one))
        for name, one in reader.elsewhere()
        if job in ("", name)
    ]


def items(reader: StoreReader, key: str = "", batch: str = "") -> list[OpenDecision]:
    """Items that need a decision: those with this key and of this batch, where these are given."""
    return [
        OpenDecision(key=one, status=status, changed=changed, batch=name, count=count, reason=reason)
        for name, status, count, one, changed, reason in reader.ledger.items.needing_decision(key)
        if batch in ("", name)
    ]


def named(reader: StoreReader, key: str, *, scope: str = "", batch: str = "", job: str = "") -> list[OpenDecision]:
    """Open decisions with this key: in the given scope, batch or job; if none is given, anywhere."""
    found: list[OpenDecision] = []
    if not batch and not scope:
        found += [one for one in elsewhere(reader, job) if one.key == key]
    if job:
        return found
    if not batch:
        found += [
            _effect(effect, effect.reason)
            for status in (IN_DOUBT, BEGUN)
            for effect in reader.ledger.effects.every(status, scope, limit=100_000)
            if effect.key == key
        ]
    if not scope:
        found += items(reader, key, batch)
    return found


def _effect(effect: Effect, reason: str) -> OpenDecision:
    return OpenDecision(key=effect.key, status=effect.status, changed=effect.changed, scope=effect.scope, reason=reason)


def _why_left(reader: StoreReader, effect: Effect, now: float) -> str:
    """Why nobody works on a begun effect any more; "" if its holder may still be at work."""
    if lapse.process_gone(effect.holder):
        # The holder may have finished the effect and exited after we read it: read it again.
        current = reader.ledger.effects.find(effect.scope, effect.key)
        return f"its holder {effect.holder} is gone" if current == effect else ""
    return "its time is over, and its end was not reported" if effect.deadline < now else ""
