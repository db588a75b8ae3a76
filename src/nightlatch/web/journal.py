"""Journal: what happened, by time or by chain; whether it is intact; and which alerts were sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ..core.value import value
from ..ledger.chain import job_chain
from ..ledger.records import Entry
from ..observe.reader import StoreReader
from ..observe.run_views import entry_facts
from ..observe.timeline import sentence
from ..system import clock

_SHOWN = 100  # entries on a page
_MONTH = 30 * 86400.0


@value(frozen=True, kw_only=True)
class Filter:
    job: str = ""
    run: str = ""
    kind: str = ""
    before: int = 0  # only entries of the chain with a number below this; 0: all


def page(reader: StoreReader, query: Filter, verify: bool) -> dict[str, Any]:
    entries = _entries(reader, query)
    chain = job_chain(query.job) if query.job else query.run
    more = entries[-1].seq if chain and len(entries) == _SHOWN and entries[-1].seq > 1 else 0
    alerts = reader.ledger.outbox.recent(clock.wall() - _MONTH, 30)
    return {
        "wanted": query,
        "entries": [(one, sentence(one)) for one in entries],
        "more": more,
        "jobs": reader.ledger.history.jobs()[:500],
        "audit": reader.ledger.journal.verify() if verify else None,
        "alerts": alerts,
        "heads": reader.ledger.journal.heads()[:50],
    }


def _entries(reader: StoreReader, query: Filter) -> list[Entry]:
    """The newest entries of one chain; without a chain, the newest of the rare kinds on all chains."""
    journal = reader.ledger.journal
    if query.job or query.run:
        chain = job_chain(query.job) if query.job else reader.run(query.run).id
        found = journal.page(chain, before=query.before or 1 << 62, most=_SHOWN)
        return [one for one in found if query.kind in ("", one.kind)]
    kinds = (query.kind,) if query.kind else ()
    return journal.rare_entries(*kinds, most=_SHOWN)


def export(reader: StoreReader, query: Filter) -> Iterator[bytes]:
    """JSON Lines, a page of the chain at a time, the newest first."""
    return _export_chain(reader, job_chain(query.job) if query.job else reader.run(query.run).id)


def _export_chain(reader: StoreReader, chain: str) -> Iterator[bytes]:
    before = 1 << 62
    while found := reader.ledger.journal.page(chain, before=before, most=1000):
        yield "".join(f"{json.dumps({'version': 1, **entry_facts(one)})}\n" for one in found).encode()
        before = found[-1].seq
