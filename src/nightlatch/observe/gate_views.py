"""What a gate knows: the marks that keep stale holders out, the tables that it guards, and its refusals."""

from __future__ import annotations

import os

from ..core import advice
from ..core.advice import Advice
from ..core.fence import KeptMark, Refusal
from ..core.protocols import Inspectable
from ..core.value import value


@value(frozen=True, kw_only=True)
class Unguarded:
    """A table without triggers, since it was added after the gate was installed."""

    table: str
    install: Advice  # the command that guards it


@value(frozen=True, kw_only=True)
class GateView:
    url: str
    target: str  # as the user named it
    missing: bool  # the target is a path, and nothing exists there
    marks: dict[str, KeptMark]  # by lease
    tables: tuple[str, ...]
    unguarded: tuple[Unguarded, ...]
    refusals: tuple[Refusal, ...]  # the oldest first
    first_seal: Advice  # the command that gives a gate its first mark

    def facts(self) -> dict[str, object]:
        """The fields of the JSON output."""
        return {
            "version": 1,
            "gate": self.url,
            "marks": [
                {"lease": lease, "token": s.mark.token, "store": s.mark.store, "holder": s.by, "since": s.at}
                for lease, s in self.marks.items()
            ],
            "tables": list(self.tables),
            "open": [one.table for one in self.unguarded],
            "refusals": [
                {"lease": r.name, "token": r.offered, "stands": r.current, "holder": r.by, "at": r.at}
                for r in self.refusals
            ],
        }


def gate_view(gate: Inspectable, target: str) -> GateView:
    remote = "://" in target or target.startswith("git+")
    unguarded = gate.unguarded() if hasattr(gate, "unguarded") else ()
    return GateView(
        url=gate.url,
        target=target,
        missing=not remote and not os.path.exists(target),
        marks=gate.standing(),
        tables=tuple(gate.guarded()) if hasattr(gate, "guarded") else (),
        unguarded=tuple(
            Unguarded(table=table, install=advice.to("gate", "install", target, "--table", table))
            for table in unguarded
        ),
        refusals=tuple(gate.refusals()),
        first_seal=advice.to("lock", "NAME", "--gate", target, "--", "true"),
    )
