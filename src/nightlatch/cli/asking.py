"""What waits for a person besides this ledger's runs: effects in doubt, items of batches in doubt or set aside, and
runs that other machines have left behind."""

from __future__ import annotations

from ..core import effects
from ..core.effects import BEGUN, IN_DOUBT, STORE_WIDE
from ..core.printable import printable
from ..core.value import value
from ..ledger import open_for
from ..runtime.supervisor.afterwards import lapse
from ..runtime.supervisor.run.begun import sentence
from ..store import url
from . import screen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .desk import Desk

_MOST = 200


@value(frozen=True, kw_only=True)
class Asking:
    """Something that a person has to decide: an effect, one or many items of a batch, or another machine's run."""

    key: str
    state: str
    changed: float
    scope: str = ""  # of an effect
    batch: str = ""  # of an item
    job: str = ""  # of a run that only the store knows of
    count: int = 1
    reason: str = ""

    @property
    def title(self) -> str:
        if self.batch:
            return f"the item {printable(self.key)} of the batch {self.batch}"
        if self.job:
            return f"the run of {self.job} with the key {printable(self.key)}"
        return f"the effect {printable(self.key)}" + (f" in {self.scope}" if self.scope != STORE_WIDE else "")

    def command(self, desk: Desk, *words: str, whole: bool = False) -> str:
        """`whole`: with its scope, also if that is the whole store."""
        named = ["--batch", self.batch] if self.batch else ["--job", self.job] if self.job else []
        named += ["--scope", screen.quoted(self.scope)] if self.scope not in ("", "" if whole else STORE_WIDE) else []
        return desk.command("resolve", effects.typed(screen.quoted(self.key), *words, by=named))

    def cells(self, desk: Desk) -> list[str]:
        """As a row among runs."""
        what = f"{self.count} items" if self.count > 1 else printable(self.key)
        note = printable(": ".join(filter(None, (f"as {self.key}" if self.count > 1 else "", self.reason))))
        return [
            self.state,
            self.batch or self.job or self.scope,
            what,
            screen.ago(self.changed),
            note,
            self.command(desk),
        ]

    def facts(self) -> dict[str, object]:
        where: dict[str, object] = {"job": self.job} if self.job else {"scope": self.scope}
        if self.batch:
            where = {"batch": self.batch, "items": self.count}
        return {
            "version": 1,
            **where,
            "key": self.key,
            "state": self.state,
            "changed": self.changed,
            "reason": self.reason,
        }


def everything(desk: Desk) -> list[Asking]:
    """All of it; the items of a batch are one row for each state."""
    doubts = desk.ledger.effects.every(IN_DOUBT, limit=_MOST)
    begun = desk.ledger.effects.every(BEGUN, limit=_MOST)
    now = desk.store.clock() if begun else 0.0
    lapsed = "its time is over, and nobody has said how it ended"
    found = [
        Asking(key=each.key, state=each.state, changed=each.changed, scope=each.scope, reason=lapsed)
        for each in begun
        if each.deadline < now
    ]
    found += [
        Asking(key=each.key, state=each.state, changed=each.changed, scope=each.scope, reason=each.reason)
        for each in doubts
    ]
    return [*found, *_items(desk, "")]


def elsewhere(desk: Desk, job: str = "") -> list[Asking]:
    """Runs that other machines have begun and left behind, of one job or of all."""
    return [
        Asking(key=one.key, state=lapse.LAPSED, changed=one.at, job=name, reason=sentence(one))
        for name, one in desk.elsewhere()
        if job in ("", name)
    ]


def named(desk: Desk, key: str, *, scope: str = "", batch: str = "", job: str = "") -> list[Asking]:
    """What goes by this key and may be decided, in one scope, batch or job or in all of them."""
    found: list[Asking] = []
    if not batch and not scope:
        found += [one for one in elsewhere(desk, job) if one.key == key]
    if job:
        return found
    if not batch:
        every = [
            effect for state in (IN_DOUBT, BEGUN) for effect in desk.ledger.effects.every(state, scope, limit=100_000)
        ]
        found += [
            Asking(key=key, state=each.state, changed=each.changed, scope=each.scope, reason=each.reason)
            for each in every
            if each.key == key
        ]
    if not scope:
        found += [item for item in _items(desk, key) if batch in ("", item.batch)]
    return found


def _items(desk: Desk, key: str) -> list[Asking]:
    return [
        Asking(key=one, state=state, changed=changed, batch=batch, count=count, reason=reason)
        for batch, state, count, one, changed, reason in desk.ledger.items.asking(key)
    ]


def decide(asking: Asking, outcome: str, by: str, *, store: str | None, wait: float) -> str:
    """The state it is in now."""
    if asking.batch:
        from ..runtime.supervisor.batches.batch import resolve as resolve_items

        resolve_items(asking.batch, asking.key, outcome, by=by, store=store, wait=wait)
        return effects.resolution(outcome)
    if asking.job:
        from ..runtime.supervisor.afterwards.decide import resolve_elsewhere

        resolve_elsewhere(
            asking.job,
            asking.key,
            outcome,
            by,
            seen=asking.changed,
            ledger=open_for(url.resolve(store)),
            store=url.connect(store),
            wait=wait,
        )
        return effects.resolution(outcome)
    from ..runtime.both.effects import resolve

    return resolve(asking.key, outcome, by=by, scope=asking.scope, store=store, wait=wait).state
