"""A run's verdict, and the facts from the ledger that it is made of."""

from __future__ import annotations

import time

from ..core import duration, statuses
from ..ledger import kinds
from ..ledger.records import RunRow
from ..ledger.refused_starts import RefusedStart
from ..runtime.supervisor.run import kept_output
from ..system import clock
from . import verdict
from .reader import StoreReader
from .verdict import Headline, RunFacts


def run_verdict(reader: StoreReader, run: RunRow, status: str = "") -> Headline:
    return verdict.run(run_facts(reader, run, status or reader.status(run)), at)


def run_facts(reader: StoreReader, run: RunRow, status: str) -> RunFacts:
    """`status`: the status to show, which may be `lapsed`."""
    bounds, reports, landed, effect, planned = dict[str, str](), 0, "", "", set[str]()
    for entry in reader.ledger.journal.outline(run.id) if run.attempt else ():
        if entry.kind == kinds.STARTED:
            words = (word.partition("=") for word in entry.facts.get("bounds", "").split())
            bounds, reports, landed, planned = {name: text for name, _, text in words}, 0, "", set()
        elif entry.kind == kinds.PROGRESS:
            reports += 1
        elif entry.kind == kinds.PUBLISHED:
            landed = entry.facts.get("target", "")
        elif entry.kind == kinds.PLANNED:
            planned.add(entry.facts.get("target", ""))
        elif entry.kind == kinds.EFFECT_OF_RUN and entry.facts.get("status") == "in-doubt":
            effect = entry.facts.get("key", "")
    return RunFacts(
        status=status,
        now=clock.wall(),
        attempt=run.attempt,
        tries=int(bounds.get("retries", "0") or 0) + 1 if bounds.get("retries", "0") != "0" else 0,
        started=run.started,
        ended=run.ended,
        again_at=run.due,
        elapsed=run.elapsed,
        exit_code=run.exit_code,
        reason=run.reason,
        last_line=last_line(reader, run) if status == statuses.FAILED else "",
        done=run.done,
        total=run.total,
        reports=reports,
        usd=run.usage.usd,
        budget_usd=float(bounds["usd"]) if "usd" in bounds and ("usd=" in run.reason or not run.reason) else None,
        timeout=_seconds(bounds.get("timeout", "")),
        stall=_seconds(bounds.get("stall", "")),
        landed_on=landed if status == statuses.SUCCEEDED else "",
        effect=effect if status == statuses.IN_DOUBT else "",
        writes_held=len(planned) if run.held is not None else 0,
        host=run.host,
        by=run.cancel,
    )


def last_line(reader: StoreReader, run: RunRow) -> str:
    """The last line of output that is not blank, as it was printed; "" if this machine has no output of the run."""
    for line in reversed(kept_output.tail(kept_output.folder_of(reader.store.folder, run.id), 5)):
        if text := line.decode(errors="replace").strip():
            return text
    return ""


def at(moment: float) -> str:
    """02:51, in local time; with the date if the moment is a day or more away."""
    shown = time.localtime(moment)
    near = abs(clock.wall() - moment) < 86400
    return time.strftime("%H:%M" if near else "%d %b %H:%M", shown)


def refused_times(start: RefusedStart) -> str:
    """How often a start was refused, and why."""
    often = f"{start.count} times since {at(start.first)}: " if start.count > 1 else ""
    return often + start.reason.removeprefix(f"{start.job} is not started: ")


def _seconds(text: str) -> float | None:
    return duration.parse(text) if text else None
