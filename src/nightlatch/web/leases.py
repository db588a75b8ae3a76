"""Leases: holder, token, time left, the gates registered under each, and which stale writes were refused."""

from __future__ import annotations

from typing import Any

from ..ledger import kinds
from ..observe import lease_views
from ..observe.lease_views import LeaseView
from ..observe.reader import StoreReader
from ..observe.timeline import sentence
from ..system import clock
from . import svg

_MOST = 200  # leases shown
_WEEK = 7 * 86400.0


def page(reader: StoreReader, with_effects: bool) -> dict[str, Any]:
    now = clock.wall()
    found = lease_views.every(reader.store)
    wanted = [one for one in found if with_effects or not one.record.name.startswith("once:")]
    wanted.sort(key=lambda one: (not one.record.grant, one.record.name))
    held = [one for one in found if one.record.grant]
    lapsed = [one for one in held if one.record.left is not None and one.record.left <= 0]
    refused = reader.ledger.journal.rare_entries(kinds.REFUSED, since=now - _WEEK, most=100)
    return {
        "rows": [_row(reader, one) for one in wanted[:_MOST]],
        "more": max(len(wanted) - _MOST, 0),
        "hidden": len(found) - len(wanted),
        "held": len(held),
        "lapsed": len(lapsed),
        "refused": [(one.at, one.facts.get("run", ""), sentence(one)) for one in refused],
    }


def _row(reader: StoreReader, view: LeaseView) -> dict[str, Any]:
    record = view.record
    left = record.left if record.grant else None
    share = left / record.ttl if left is not None and record.ttl else 0.0
    return {
        "view": view,
        "record": record,
        "left": left,
        "meter": svg.meter(
            share, "ok" if share > 0 else "bad", label=f"{max(left, 0):.0f} of {record.ttl:.0f} seconds left"
        )
        if left is not None
        else "",
        "gates": reader.store.gates(record.name),
    }
