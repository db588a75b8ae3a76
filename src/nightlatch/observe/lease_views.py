"""Leases as people see them: holder, expiry, and the keys begun under each that have not ended."""

from __future__ import annotations

from ..core import advice
from ..core.advice import Advice
from ..core.effects import words_to_type
from ..core.value import value
from ..runtime.supervisor.afterwards import lapse
from ..system import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.model import Begun, Record
    from ..core.protocols import Store
    from ..ledger.ledger import Ledger


@value(frozen=True, kw_only=True)
class BegunKey:
    """A key that was begun under the lease and has not ended."""

    begun: Begun
    resolve: Advice | None  # the command that decides it; None: its holder is at work


@value(frozen=True, kw_only=True)
class LeaseView:
    record: Record
    begun: tuple[BegunKey, ...]
    holder_gone: bool  # proven, which is possible only for a holder on this machine
    unproven: tuple[str, ...]  # the previous holder's processes that were not proven gone when its TTL was over

    @property
    def left_behind(self) -> int:  # how many begun keys nobody works on
        return sum(one.resolve is not None for one in self.begun)

    def facts(self) -> dict[str, object]:
        """The fields of the JSON output."""
        record = self.record
        return {
            "version": 1,
            "lease": record.name,
            "token": record.token,
            "held": bool(record.grant),
            "holder": f"{record.holder.user}@{record.holder.host}",
            "pid": record.holder.pid,
            "incarnation": record.holder.incarnation,
            "ttl": record.ttl,
            "since": record.since,
            "until": record.until,
            "left": record.left,
            "begun": [{**one.begun.__dict__, "left_behind": one.resolve is not None} for one in self.begun],
            "unproven": list(self.unproven),
        }


def lease(store: Store, name: str) -> LeaseView | None:
    record = store.read(name)
    return _view(record) if record else None


def every(store: Store) -> list[LeaseView]:
    return [_view(record) for record in store.records()]


def _view(record: Record) -> LeaseView:
    left = lapse.left_behind(record, clock.wall())
    return LeaseView(
        record=record,
        begun=tuple(
            BegunKey(
                begun=one,
                resolve=advice.to("resolve", *words_to_type(one.key, options=("--job", record.name)))
                if one in left
                else None,
            )
            for one in record.begun
        ),
        holder_gone=bool(record.grant) and lapse.process_gone(record.holder),
        unproven=tuple(record.holder.unproven.split(", ")) if record.holder.unproven else (),
    )


def of_other_ledgers(store: Store, ledger: Ledger, since: float) -> list[Record]:
    """Leases that runs of other ledgers held after `since`, the newest first."""
    found = []
    for record in store.records():
        newest = ledger.newest(record.name)
        if record.until >= since and record.token and not (newest and newest.token >= record.token):
            found.append(record)
    return sorted(found, key=lambda record: -record.until)
