"""Now: the verdict, four figures, what needs a person, the night, what is running or waiting, and what comes next."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any
from urllib.parse import quote

from ..core import advice, statuses
from ..core.row import Row
from ..core.schedule import name_of
from ..core.value import replace, value
from ..ledger import kinds
from ..ledger.audit import AuditResult
from ..ledger.outbox import Message
from ..observe import night_rows, nightly, run_facts, run_views, verdict
from ..observe.agent_views import AgentView
from ..observe.figures import count, money
from ..observe.open_decisions import OpenDecision
from ..observe.overview import Overview, last_night
from ..observe.reader import StoreReader
from ..observe.run_views import RunView
from ..observe.stages import all_rows
from ..system import clock
from . import buttons, svg, words
from .buttons import Button
from .running import running
from .timeline import Drawing
from .upcoming import upcoming
from .words import Calendar

NIGHTS = 14
_ASKS = 30  # rows that are shown of what needs a person
_URGENT = ("in doubt", "no end reported", "lapsed")
_WAITS = 10  # rows that are shown of what waits


@value(frozen=True, kw_only=True)
class AttentionRow:
    """One row of what needs a person."""

    look: tuple[str, str, str]  # (shape, colour, word)
    title: str
    href: str
    at: float
    sentence: str
    last_line: str = ""
    terminal_command: str = ""  # what to type for the same as the first button
    buttons: tuple[Button, ...] = ()


@value(frozen=True, kw_only=True)
class Figure:
    name: str
    number: str
    note: str
    href: str
    spark: Any


def page(
    reader: StoreReader, calendar: Calendar, base: str, configured: set[str], audit: AuditResult | None = None
) -> dict[str, Any]:
    """`audit`: the last verification of the journal that a person started."""
    now = clock.wall()
    view = last_night(reader)
    since = view.since or 0.0
    facts = nightly.night(reader, view)
    if audit:
        broken = f"entry {audit.breaks[0].seq} of {audit.breaks[0].chain}" if audit.breaks else ""
        facts = replace(facts, journal_intact=not audit.breaks, journal_broken_at=broken)
    headline = verdict.night(facts)
    first, second = ("", headline.sentence) if audit and audit.breaks else split(headline.sentence)
    asks = needs_you(reader, view, configured, calendar)
    jobs = all_rows(reader)
    every_run = [one for group in view.groups.values() for one in group.runs]
    drawing = Drawing(reader, calendar, since, max(now, since + 3600), now)
    refusals = reader.ledger.journal.rare_entries(kinds.REFUSED, since=since, most=200)
    return {
        "headline": headline,
        "audit": audit,
        "reasons": words.with_link(headline.reasons, facts.risen_job, f"{base}job/{quote(facts.risen_job)}"),
        "first": first,
        "second": second,
        "tone": words.TONES[headline.tone],
        "since": since,
        "now": now,
        "figures": figures(reader, calendar, facts, now, audit),
        "asks": asks,
        "asks_more": view.need_you - len(asks),
        "needs": view.need_you,
        "night": drawing.night(every_run, refusals, jobs, base),
        "running": [running(reader, one, calendar) for one in view.running.runs],
        "waiting": night_rows.waiting(view)[:_WAITS],
        "next": upcoming(reader, jobs, now),
        "empty": view.empty and not jobs and not reader.ledger.history.jobs(),
        "unreachable": view.unreachable,
    }


def needs_you(reader: StoreReader, view: Overview, configured: set[str], calendar: Calendar) -> list[AttentionRow]:
    """The most urgent rows. Runs that cannot be among them are not read."""

    def order(look: tuple[str, str, str], at: float) -> tuple[bool, float]:
        return look[2] not in _URGENT, -at

    runs = sorted(view.needs_you.runs, key=lambda one: order(words.look_of(one.run, one.status), one.run.changed))
    asks = [_of_run(reader, one) for one in runs[:_ASKS]]
    asks += [_of_decision(one) for one in view.decisions_besides_runs]
    asks += [_of_agent(one) for one in view.agents]
    asks += [_of_slot(row, configured, calendar) for row in view.overdue]
    asks += [_of_demoted(row) for row in view.demoted]
    asks += [_of_undelivered(one) for one in view.undelivered]
    return sorted(asks, key=lambda ask: order(ask.look, ask.at))[:_ASKS]


def _of_run(reader: StoreReader, view: RunView) -> AttentionRow:
    run = view.run
    headline = run_facts.run_verdict(reader, run, view.status)
    offered = buttons.of_run(reader, run, view.status)
    last = run_facts.last_line(reader, run)
    label, part = ("Log", "log") if run.held is None else ("See the plan", "plan")
    return AttentionRow(
        look=words.look_of(run, view.status),
        title=run.job,
        href=f"run/{run.id}",
        at=run.changed,
        sentence=headline.sentence,
        last_line="" if words.short(last, 60).rstrip("…") in headline.sentence else last,
        terminal_command=_terminal_command(reader, view, offered),
        buttons=(*offered, buttons.Button(label=label, href=f"run/{run.id}#{part}")),
    )


def _terminal_command(reader: StoreReader, view: RunView, offered: list[Button]) -> str:
    """What to type for the same as the first button."""
    verb = {"retry": "retry", "approve": "approve", "resolve": "resolve"}.get(offered[0].action) if offered else None
    return run_views.short_command(reader, view.run.id, advice.to(verb, view.run.id) if verb else view.next)


def _of_agent(agent: AgentView) -> AttentionRow:
    """An agent at work at a vendor that nobody watches."""
    return AttentionRow(
        look=words.look(statuses.NEEDS_ATTENTION),
        title=agent.row.job,
        href=f"run/{agent.row.run}",
        at=agent.row.began,
        sentence=f"{agent.sentence[:1].upper()}{agent.sentence[1:]}.",
        terminal_command=advice.text(agent.cancel),
        buttons=(),
    )


def _of_decision(decision: OpenDecision) -> AttentionRow:
    status = decision.status if decision.status in words.LOOKS else statuses.IN_DOUBT
    return AttentionRow(
        look=words.look(status),
        title=decision.of if not decision.scope.startswith("*") else decision.key,
        href="",
        at=decision.changed,
        sentence=f"{decision.title[:1].upper()}{decision.title[1:]}: "
        f"{decision.note or 'nobody knows whether it was done'}. It is not repeated unless you decide so.",
        terminal_command=advice.text(decision.resolve("done")),
        buttons=tuple(buttons.of_decision(decision)),
    )


def _of_slot(row: Row, configured: set[str], calendar: Calendar) -> AttentionRow:
    slot = name_of(row.next_due)
    return AttentionRow(
        look=words.look("overdue"),
        title=row.job,
        href=f"job/{row.job}",
        at=row.next_due,
        sentence=f"Due at {calendar.clock(row.next_due)}, and no machine has started it. Is nightlatch serve running?",
        terminal_command=advice.command("run", row.job, "--slot", slot),
        buttons=tuple(buttons.of_slot(row, slot, configured=row.job in configured)),
    )


def _of_demoted(row: Row) -> AttentionRow:
    change = row.change or {}
    return AttentionRow(
        look=words.look(statuses.NEEDS_ATTENTION),
        title=row.job,
        href=f"job/{row.job}",
        at=float(change.get("at", 0.0)),
        sentence=f"It is {row.stage} now, since {change.get('why')}.",
        terminal_command=advice.command("promote", row.job),
    )


def _of_undelivered(message: Message) -> AttentionRow:
    return AttentionRow(
        look=words.look(statuses.NEEDS_ATTENTION),
        title=message.transport,
        href="journal",
        at=message.changed,
        sentence=f"An alert could not be sent: {message.reason}.",
        terminal_command=advice.command("alerts"),
    )


def split(sentence: str) -> tuple[str, str]:
    """(what ran, what needs a person): a page colours the second part."""
    head, dot, rest = sentence.partition(". ")
    return (f"{head}.", rest) if dot else (sentence, "")


def figures(
    reader: StoreReader, calendar: Calendar, facts: verdict.Night, now: float, audit: AuditResult | None
) -> list[Figure]:
    """The four figures of the night, each with a sparkline of the last fourteen days."""
    history = reader.ledger.history
    today = date.fromisoformat(history.day(now))
    days = [(today - timedelta(days=back)).isoformat() for back in reversed(range(NIGHTS))]
    runs, usd = dict.fromkeys(days, 0), dict.fromkeys(days, 0.0)
    for row in history.tallies(("day",), since=days[0], until=days[-1]):
        runs[row.day] = runs.get(row.day, 0) + row.runs
        usd[row.day] = usd.get(row.day, 0.0) + row.amounts.usd
    refused = dict.fromkeys(days, 0)
    for entry in reader.ledger.journal.rare_entries(kinds.REFUSED, since=now - NIGHTS * 86400):
        if (day := calendar.day(entry.at)) in refused:
            refused[day] += 1
    slots = bool(facts.slots)
    ran = f"{count(facts.slots_ran)} of {count(facts.slots)}" if slots else count(facts.ended)
    usual = (
        f"usually {money(facts.usual_usd)} on a {facts.weekday}" if facts.usual_usd is not None else "no comparison yet"
    )
    paid = list(usd.values())
    above_usual = [i for i, one in enumerate(paid) if facts.usual_usd and one > 1.3 * facts.usual_usd]
    last = next((day for day in reversed(days) if refused[day]), "")
    return [
        Figure(
            name="Slots" if slots else "Runs ended",
            number=ran,
            note=_slots_note(facts),
            href="jobs",
            spark=svg.spark(list(runs.values()), label="Runs that ended, the last 14 days"),
        ),
        Figure(
            name="Used",
            number=money(facts.usd) if facts.usd else "nothing",
            note=usual if facts.usd else "no usage was reported",
            href="usage",
            spark=svg.spark(paid, over=above_usual, label="Dollars used, the last 14 days"),
        ),
        Figure(
            name="Stale writes refused",
            number=count(facts.refused),
            note=f"the last on {date.fromisoformat(last):%A}" if last else "none in 14 days",
            href="leases",
            spark=svg.spark([float(one) for one in refused.values()], label="Stale writes refused, the last 14 days"),
        ),
        _journal(reader, audit),
    ]


def _slots_note(facts: verdict.Night) -> str:
    if facts.slots:
        return f"{count(facts.slots - facts.slots_ran)} did not" if facts.slots > facts.slots_ran else "none was missed"
    return f"{count(facts.well)} succeeded" if facts.ended else "nothing ended"


def _journal(reader: StoreReader, audit: AuditResult | None) -> Figure:
    """The journal is called intact only if it was verified."""
    if audit is not None:
        read = f"{count(audit.entries)} entries in {count(audit.chains)} chains"
        return Figure(
            name="Journal", number="broken" if audit.breaks else "intact", note=read, href="journal?verify=1", spark=""
        )
    chains = len(reader.ledger.history.jobs())
    note = f"of {count(chains)} job{'' if chains == 1 else 's'}; verify it"
    return Figure(name="Journal", number="kept", note=note, href="journal?verify=1", spark="")
