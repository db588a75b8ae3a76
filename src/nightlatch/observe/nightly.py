"""The facts of the last night's verdict, and the morning report in Markdown and HTML."""

from __future__ import annotations

import html
from collections.abc import Callable
from datetime import date, timedelta
from statistics import median

from ..core import advice, statuses
from ..core.printable import printable
from ..ledger import kinds
from ..system import clock
from . import evening, night_rows, run_facts, verdict
from .overview import Overview
from .reader import StoreReader
from .run_views import RunView
from .verdict import ENOUGH_RUNS, Night

_WEEKS = 8  # of history, from which a weekday's usual cost is computed
_SHOWN = 20  # runs listed in each part; the others are only counted
_KEPT = 60.0  # seconds before the usual cost is computed again
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MARKUP = str.maketrans({sign: f"\\{sign}" for sign in "\\`*_{}[]<>()#+-.!|~@"})


def _escaped(text: str) -> str:
    """The text as Markdown that shows exactly this text: no markup, links or mentions."""
    return printable(text).translate(_MARKUP).replace("://", ":\u200b//").replace("@", "@\u200b")


def night(reader: StoreReader, view: Overview) -> Night:
    """The facts of the night's verdict."""
    history, since = reader.ledger.history, view.since or 0.0
    counts = {status: history.count(status, since) for status in statuses.TERMINAL}
    slots, slots_ran = history.slots_since(since)
    usd, _ = history.used_since(since)
    now = clock.wall()
    today = date.fromisoformat(history.day(now))
    evening_day = date.fromisoformat(history.day(evening.began(history.zone, now)))
    approvals = sum(run.status == statuses.WAITING for run in view.needs_you.runs)
    usual = reader.cached(("usual night", today), _KEPT, lambda: _usual(reader, today)) if usd else None
    risen_job, share = "", 0.0
    if usual and usd > usual * (1 + verdict.USUAL_WITHIN):
        risen_job, share = reader.cached(("risen", today), _KEPT, lambda: _job_with_largest_rise(reader, today))
    return Night(
        slots=slots,
        slots_ran=slots_ran,
        ended=sum(counts.values()),
        well=counts[statuses.SUCCEEDED],
        need_you=view.need_you,
        alarming=view.need_you - approvals,
        usd=usd,
        usual_usd=usual,
        weekday=_DAYS[evening_day.weekday()],
        risen_job=risen_job,
        risen_share=share,
        refused=len(reader.ledger.journal.rare_entries(kinds.REFUSED, since=since)),
    )


def markdown(reader: StoreReader, view: Overview, plain: Callable[[str], str] = _escaped) -> str:
    """The morning report. `plain` makes links, mentions and markup in reported texts harmless."""
    first = verdict.night(night(reader, view))
    lines = [f"# {plain(first.sentence)}", "", plain(first.reasons)]
    for title, rows in _parts(reader, view).items():
        lines += ["", f"## {title.capitalize()}", ""]
        lines += [f"- **{plain(job)}** {plain(text)} `{command}`" for job, text, command in rows]
    return "\n".join(lines).rstrip() + "\n"


def as_html(reader: StoreReader, view: Overview) -> str:
    """The morning report as one HTML page without styles, scripts or links."""
    first = verdict.night(night(reader, view))
    parts = [f"<h1>{html.escape(first.sentence)}</h1>", f"<p>{html.escape(first.reasons)}</p>"]
    for title, rows in _parts(reader, view).items():
        parts.append(f"<h2>{html.escape(title.capitalize())}</h2>\n<ul>")
        parts += [
            f"<li><b>{html.escape(printable(job))}</b> {html.escape(printable(text))} "
            f"<code>{html.escape(command)}</code></li>"
            for job, text, command in rows
        ]
        parts.append("</ul>")
    head = '<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>Nightlatch: the night</title>\n<body>\n'
    return head + "\n".join(parts) + "\n</body></html>\n"


def _parts(reader: StoreReader, view: Overview) -> dict[str, list[tuple[str, str, str]]]:
    """Title → rows of (job, sentence, command to type), without empty parts."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    besides = [(one.of, one.note or one.status, advice.text(one.resolve())) for one in view.decisions_besides_runs]
    late = [(row.job, "has a slot that no machine has begun", advice.command("slots", row.job)) for row in view.overdue]
    unwatched = [(one.row.job, one.sentence, advice.text(one.cancel)) for one in view.agents]
    demoted = [(row.job, f"was demoted: {row.stage} now", advice.command("promote", row.job)) for row in view.demoted]
    unsent = [(one.transport, f"an alert: {one.reason}", advice.command("alerts")) for one in view.undelivered]
    found["needs you"] = [*besides, *unwatched, *late, *demoted, *unsent]
    for title, group in view.groups.items():
        rows = [_row(reader, one) for one in group.runs[:_SHOWN]]
        found[title] = [*found.get(title, []), *rows]
        if len(group.runs) > _SHOWN:
            found[title].append(("", f"and {len(group.runs) - _SHOWN} more", advice.command("runs")))
    besides_runs = night_rows.waiting_besides_runs(view)
    found["waiting"] += [(row.job, f"{row.word}: {row.reason}", advice.text(row.next)) for row in besides_runs]
    return {title: rows for title, rows in found.items() if rows}


def _row(reader: StoreReader, view: RunView) -> tuple[str, str, str]:
    return view.run.job, run_facts.run_verdict(reader, view.run, view.status).sentence, advice.text(view.next)


def _usual(reader: StoreReader, today: date) -> float | None:
    """The median cost, in USD, of earlier days with the weekday of `today`; None: too little history."""
    since = (today - timedelta(weeks=_WEEKS)).isoformat()
    days = {row.day: row for row in reader.ledger.history.tallies(("day",), since=since, running=False)}
    if sum(row.runs for row in days.values()) < ENOUGH_RUNS:
        return None
    same_weekday = [(today - timedelta(weeks=week)).isoformat() for week in range(1, _WEEKS + 1)]
    costs = [days[day].amounts.usd for day in same_weekday if day in days]
    return median(costs) if len(costs) >= 3 else None


def _job_with_largest_rise(reader: StoreReader, today: date) -> tuple[str, float]:
    """The job with the largest part of today's rise in cost, and its share of it; ("", 0.0) if no job costs more."""
    since, now = (today - timedelta(days=28)).isoformat(), today.isoformat()
    by_job: dict[str, dict[str, float]] = {}
    for job, day, usd in reader.ledger.history.usd_by("job", "day", since=since):
        by_job.setdefault(job, {})[day] = usd
    more = {
        job: days.get(now, 0.0) - median([usd for day, usd in days.items() if day < now] or [0.0])
        for job, days in by_job.items()
    }
    rise = sum(usd for usd in more.values() if usd > 0)
    job = max(more, key=lambda name: more[name], default="")
    return (job, more[job] / rise) if job and rise > 0 else ("", 0.0)
