"""Running runs: time, progress and cost beside their bounds, and where they will end at this pace."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from ..core import statuses
from ..core.value import value
from ..observe import run_facts, verdict
from ..observe.figures import about, count, money
from ..observe.reader import StoreReader
from ..observe.run_views import RunView
from ..observe.verdict import RunFacts
from . import svg
from .words import Calendar, short


@value(frozen=True, kw_only=True)
class Gauge:
    name: str
    now: str
    bound: str
    meter: Markup | str = ""


@value(frozen=True, kw_only=True)
class Running:
    view: Any
    note: str
    done_about: str
    gauges: tuple[Gauge, ...]


def running(reader: StoreReader, view: RunView, calendar: Calendar) -> Running:
    facts = run_facts.run_facts(reader, view.run, view.status)
    end = verdict.expected_end(facts)
    message = short(view.run.message, 80)
    return Running(
        view=view,
        note=" · ".join(filter(None, (message, f"on {view.run.host}" if view.run.host else ""))),
        done_about=f"done about {calendar.clock(end)}" if end else "",
        gauges=tuple(gauges(facts)),
    )


def gauges(facts: RunFacts) -> list[Gauge]:
    """Time, progress and money, each beside its bound; of an ended run, the final figures."""
    end = verdict.expected_end(facts) if facts.ended is None else None
    passed = max((facts.now if facts.ended is None else facts.ended) - (facts.started or facts.now), 0.0)
    colour = "" if facts.ended is None else "bad" if facts.status in statuses.FAILURES else "ok"
    share = facts.done / facts.total if facts.total else 0.0
    expected = (end - facts.started) if end and facts.started else None
    found = [_gauge("Time", about(passed), passed, facts.timeout, expected, about, colour)]
    if facts.total:
        shown = f"{count(facts.done)}", f"of {count(facts.total)}"
        label = f"{shown[0]} {shown[1]}"
        found.append(Gauge(name="Progress", now=shown[0], bound=shown[1], meter=svg.meter(share, colour, label=label)))
    elif facts.done:
        found.append(Gauge(name="Progress", now=count(facts.done), bound="done"))
    else:
        found.append(Gauge(name="Progress", now="", bound="no progress reported"))
    if facts.usd or facts.budget_usd:
        at_end = facts.usd / share if share and end else None
        found.append(_gauge("Used", money(facts.usd), facts.usd, facts.budget_usd, at_end, money, colour))
    else:
        found.append(Gauge(name="Used", now="", bound="nothing reported"))
    return found


def _gauge(
    name: str, now: str, amount: float, bound: float | None, expected: float | None, show: Any, colour: str
) -> Gauge:
    if not bound:
        return Gauge(name=name, now=now, bound=f"about {show(expected)} in all" if expected else "no bound")
    label = f"{now} of {show(bound)}" + (f", {show(expected)} at this pace" if expected else "")
    colour = "bad" if amount > bound else "wait" if expected and expected > bound else colour
    meter = svg.meter(amount / bound, colour, expected / bound if expected else None, label)
    return Gauge(name=name, now=now, bound=f"of {show(bound)}", meter=meter)
