"""Run: the verdict, its bounds, a waterfall, what happened, what changed since the run before, and its output."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ..core import advice, statuses
from ..core import stage as stages
from ..core.printable import printable
from ..core.value import value
from ..ledger import kinds
from ..ledger.records import Entry, RunRow
from ..observe import changes, plans, run_facts, run_views, verdict
from ..observe.details import Details, details
from ..observe.figures import about, count, money, times
from ..observe.reader import StoreReader
from ..observe.timeline import timeline
from ..observe.verdict import RunFacts
from ..runtime.supervisor.run.rows import read_row
from ..system import identity
from . import buttons, output, svg, words
from .running import gauges
from .upcoming import usual
from .waterfall import waterfall
from .words import Calendar

_EXPENSIVE = 1.5  # this many times the usual cost counts as expensive
_DIFF = 60_000  # characters of a diff that are shown
_STEPS = (kinds.STEP_BEGUN, kinds.STEP_DONE, kinds.ITEMS_MOVED)
_STORY = 60  # sentences shown; a link leads to the others
_ALWAYS_SHOWN = {  # kinds that are always shown → (shape, colour)
    kinds.LOST: ("lost", "bad"),
    kinds.REFUSED: ("shield", ""),
    kinds.STARTED: ("run", "run"),
    kinds.CANCELLED: ("lost", "idle"),
    kinds.CANCEL_REQUESTED: ("person", "idle"),
    kinds.RESOLVED: ("person", "idle"),
    kinds.RETRIED: ("person", "idle"),
    kinds.NEEDS_ATTENTION: ("hand", "bad"),
    kinds.EXCEPTION: ("bad", "bad"),
    kinds.NOT_PUBLISHED: ("bad", "bad"),
    kinds.PUBLISHED: ("ok", "ok"),
    kinds.STEP_FAILED: ("bad", "bad"),
}


@value(frozen=True, kw_only=True)
class Sentence:
    at: float
    shape: str
    colour: str
    text: str
    brass: bool = False  # highlighted, in the colour of brass


@value(frozen=True, kw_only=True)
class Fact:
    """One field of the fact sheet."""

    name: str
    text: str = ""
    code: str = ""  # shown as code, instead of `text`
    small: str = ""  # a note below
    meter: Any = ""
    title: str = ""


def page(
    reader: StoreReader,
    calendar: Calendar,
    run: RunRow,
    *,
    whole_story: bool = False,
    until: int | None = None,
    find: str = "",
) -> dict[str, Any]:
    view = details(reader, run, in_outline=True)
    facts = run_facts.run_facts(reader, run, view.status)
    headline = verdict.run(facts, calendar.clock)
    story = _story(view, whole_story)
    tone = "run" if view.status == statuses.RUNNING else words.TONES[headline.tone]
    folder = output.folder_of(reader, run.id)
    elsewhere = bool(run.host) and run.host != identity.host() and not output.end(folder, 1).total
    found, more_found = output.find(folder, find) if find else ([], False)
    return {
        "seen": view,
        "run": run,
        "look": words.look_of(run, view.status),
        "plan": _plan(reader, run),
        "headline": headline,
        "tone": tone,
        "sentence": words.emphasis(headline.sentence, tone),
        "stage": stages.of(row, "") if (row := read_row(reader.store, run.job)) else "",
        "more": _reasons(reader, view, facts, calendar),
        "buttons": buttons.of_run(reader, run, view.status),
        "terminal_command": _terminal_command(reader, run, view),
        "sheet": _sheet(reader, calendar, view, facts),
        "live": run.status in statuses.OPEN,
        "fall": waterfall(view, calendar, facts.now),
        "story": story[-_STORY:] if not whole_story else story,
        "story_more": len(story) > _STORY and not whole_story,
        "whole_story": whole_story,
        "entries": view.entries_in_all,
        "against": _comparison(reader, run),
        "log": output.end(folder, until=until),
        "until": until,
        "find": find,
        "found": found,
        "more_found": more_found,
        "elsewhere": run.host if elsewhere else "",
        "logs_command": advice.command("logs", run.id),
    }


def _plan(reader: StoreReader, run: RunRow) -> list[dict[str, str]]:
    """The planned writes: what would land where, and its diff."""
    if run.held is None:
        return []
    found = []
    for write in plans.writes(reader, run):
        diff = plans.changes(write, whole=True)
        what = f"commit {write.commit[:12]}" if write.commit else f"{write.source} ({count(write.size)} bytes)"
        cut = "\n… cut; all of it: nightlatch approve --diff" if len(diff) > _DIFF else ""
        found.append({"what": what, "target": write.target, "diff": safe_text(diff[:_DIFF]) + cut if diff else ""})
    return found


def safe_text(text: str) -> str:
    """The text, each line made printable."""
    return "\n".join(printable(line) for line in text.split("\n"))


def _terminal_command(reader: StoreReader, run: RunRow, view: Details) -> str:
    """The command that a person most likely needs next, to type in a terminal."""
    command = next((one for one in view.choices if one.words[0] != "logs"), None) or advice.to("show", run.id)
    return run_views.short_command(reader, run.id, command)


def _reasons(reader: StoreReader, view: Details, facts: RunFacts, calendar: Calendar) -> str:
    """The paragraph below the verdict."""
    run = view.run
    parts = []
    if view.status == statuses.RUNNING and facts.started:
        passed = facts.now - facts.started
        parts.append(f"On {run.host or 'this machine'} for {about(passed)}{_left_in_bounds(facts, passed)}.")
        if run.cancel:
            parts.append(f"{run.cancel} requested a cancel.")
    parts += _took_over(view, facts, calendar)
    if refused := view.refusals:
        host = next(
            (one.holder.host for one in view.attempts if str(one.attempt) == refused[-1].facts.get("attempt")), ""
        )
        when = calendar.clock(refused[-1].at)
        late = f"A late write by {host} at {when}" if len(refused) == 1 and host else f"The last late write, at {when},"
        parts.append(f"{late} was refused; nothing landed twice.")
    usual_usd = usual(reader, run.job)[1]
    if run.ended is not None and usual_usd and run.usage.usd >= _EXPENSIVE * usual_usd:
        parts.append(f"It cost {times(run.usage.usd / usual_usd)} the usual.")
    if view.reason and view.reason not in verdict.run(facts, calendar.clock).sentence:
        parts.append(f"The reason: {words.short(view.reason)}.")
    return " ".join(parts)


def _left_in_bounds(facts: RunFacts, passed: float) -> str:
    """As in: ", within its bounds: 1h 18m and $2.39 are left"."""
    left = []
    if facts.timeout:
        left.append(about(max(facts.timeout - passed, 0.0)))
    if facts.budget_usd:
        left.append(money(max(facts.budget_usd - facts.usd, 0.0)))
    return f", within its bounds: {' and '.join(left)} {'are' if len(left) > 1 else 'is'} left" if left else ""


def _took_over(view: Details, facts: RunFacts, calendar: Calendar) -> list[str]:
    """As in: macbook was lost after 3m 24s; mini took over at 02:14 and needed 37m and $2.84 of $4.00."""
    run, ended = view.run, facts.ended is not None and view.run.attempt
    needed = about(run.elapsed) if ended and run.elapsed else ""
    if ended and run.usage.usd:
        bound = f" of {money(facts.budget_usd)}" if facts.budget_usd else ""
        needed = " and ".join(filter(None, (needed, f"{words.used(run.usage)}{bound}")))
    if len(view.attempts) > 1 and view.attempts[-2].status == statuses.LOST:
        before, now = view.attempts[-2:]
        left = f"{before.holder.host} was lost after {about(before.elapsed)}"
        then = "the next attempt began" if before.holder.host == now.holder.host else f"{now.holder.host} took over"
        return [f"{left}; {then} at {calendar.clock(now.started)}{f' and needed {needed}' if needed else ''}."]
    return [f"It needed {needed}."] if needed else []


def _sheet(reader: StoreReader, calendar: Calendar, view: Details, facts: RunFacts) -> list[Fact]:
    run = view.run
    takes, usd = usual(reader, run.job)
    time, progress, paid = gauges(facts)
    took = _joined(time.bound, f"usually {about(takes)}" if takes else "")
    rows = [
        Fact(name="Key · slot" if run.slot else "Key", text=view.key, small=_slot(calendar, run)),
        Fact(name="Time", text=time.now, small=took, meter=time.meter),
    ]
    if facts.ended is None and (facts.done or facts.total):
        note = f"“{words.short(run.message, 60)}”" if run.message else ""
        rows.append(Fact(name="Progress", text=progress.now, small=_joined(progress.bound, note), meter=progress.meter))
    tokens = f"{count(run.usage.tokens)} tokens" if run.usage.tokens else ""
    cost = _joined(paid.bound if paid.now else "", f"usually {money(usd)}" if usd else "") or tokens
    rows.append(
        Fact(
            name="Used",
            text=paid.now or "nothing",
            small=cost,
            meter=_cost_meter(run, usd, facts.budget_usd) or paid.meter,
            title=tokens,
        )
    )
    if view.status == statuses.RUNNING:
        rows.append(_lease(reader, view))
    elif run.attempt:
        before = [one for one in view.attempts[:-1] if one.holder.host != run.holder.host]
        pid = f", pid {run.holder.pid}" if run.holder.pid else ""
        other = f"before it {before[-1].holder.host}" if before else ""
        rows.append(Fact(name="Holder", text=run.holder.host, small=_joined(f"{run.holder.user}{pid}", other)))
        earlier = view.attempts[-2].token if len(view.attempts) > 1 else 0
        note = f"before it {words.tail_of(earlier)}" if earlier else ""
        rows.append(Fact(name="Token", code=words.tail_of(run.token), title=str(run.token), small=note))
    rows.append(Fact(name="Command", code=words.short(run.command, 200) or "–"))
    if run.definition:
        rows.append(Fact(name="Definition", code=words.hash_of(run.definition), title=run.definition))
    chain, _, head = run.anchor.rpartition(":")
    entries, kept = f"{count(view.entries_in_all)} entries", f"head {chain}:{head[:4]}…" if head else ""
    rows.append(Fact(name="Journal", text=entries, small=kept, title=run.anchor))
    return rows


def _slot(calendar: Calendar, run: RunRow) -> str:
    """The slot in the ledger's zone; as recorded, if it is not a single time."""
    try:
        return f"{calendar.clock(datetime.fromisoformat(run.slot).timestamp())} {calendar.name}" if run.slot else ""
    except ValueError:
        return run.slot


def _cost_meter(run: RunRow, usual_usd: float, budget: float | None) -> Any:
    """A meter in a warning colour if the run cost much more than usual; else ""."""
    if not usual_usd or not budget or run.usage.usd < _EXPENSIVE * usual_usd:
        return ""
    label = f"{money(run.usage.usd)} of {money(budget)}, usually {money(usual_usd)}"
    return svg.meter(run.usage.usd / budget, words.WAIT, label=label)


def _lease(reader: StoreReader, view: Details) -> Fact:
    """A running run's holder and token, and how long its lease lasts without another renewal."""
    run, record = view.run, reader.store.read(view.run.job)
    left = record.left if record and record.grant == run.grant else None
    meter: Any = ""
    if record and left is not None and record.ttl:
        meter = svg.meter(left / record.ttl, words.OK, label=f"{max(left, 0):.0f} of {record.ttl:.0f} seconds left")
    note = f"{about(max(left, 0.0))} left of its lease" if left is not None else str(run.holder)
    text = f"{run.holder.host}, token {words.tail_of(run.token)}"
    return Fact(name="Lease", text=text, small=note, meter=meter, title=f"{run.holder}, token {run.token}")


def _joined(*parts: str) -> str:
    return " · ".join(filter(None, parts))


def _story(view: Details, whole: bool) -> list[Sentence]:
    """The journal in sentences: what matters, or everything if `whole`."""
    found = []
    for entry in view.entries:
        kind = kinds.ROWS.get(entry.kind)
        if whole or entry.kind in _ALWAYS_SHOWN or (kind is not None and not kind.often and entry.kind not in _STEPS):
            shape, colour = _shape_and_colour(entry)
            text = timeline([entry])[0].sentence
            found.append(
                Sentence(
                    at=entry.at,
                    shape=shape,
                    colour=colour,
                    text=text[:1].upper() + text[1:],
                    brass=entry.kind == kinds.REFUSED,
                )
            )
    return found


def _shape_and_colour(entry: Entry) -> tuple[str, str]:
    if entry.kind == kinds.ENDED:
        shape, colour, _ = words.look(entry.facts.get("status", ""))
        return shape, colour
    if entry.kind == kinds.EFFECT_OF_RUN:
        return ("doubt", "doubt") if entry.facts.get("status") == "in-doubt" else ("ok", "doubt")
    return _ALWAYS_SHOWN.get(kinds.ROWS.get(entry.kind, kinds.OPENED), ("dot", "idle"))


def _comparison(reader: StoreReader, run: RunRow) -> dict[str, Any] | None:
    """The run's inputs beside those of an earlier run: the last at the usual level, or else the last that succeeded."""
    if not run.attempt:
        return None
    series = reader.ledger.history.series(run.job, most=60)
    earlier = [one for one in series if one.status == statuses.SUCCEEDED and one.run != run.id and one.at < run.changed]
    if not earlier:
        return None
    last, title = earlier[-1], "Against the run before"
    if usual_run := _last_usual(reader, run):
        last, title = next((one for one in earlier if one.run == usual_run), last), "Against the last usual run"
    before, after = changes.inputs_of(reader, last.run), changes.inputs_of(reader, run.id)
    different = changes.differences(before, after)
    rows = [
        {"fact": one.fact, "before": _fact(one.fact, one.before), "after": _fact(one.fact, one.after), "cause": True}
        for one in different
    ]
    for name, show in (("usd", money), ("tokens", count), ("calls", count)):
        then, now = getattr(last.amounts, name), getattr(run.usage, name)
        if then or now:
            rows.append(
                {"fact": "used" if name == "usd" else name, "before": show(then), "after": show(now), "cause": False}
            )
    same = [name for name in after if name not in {one.fact for one in different}]
    return {"run": last.run, "at": last.at, "rows": rows, "same": ", ".join(same), "title": title}


def _last_usual(reader: StoreReader, run: RunRow) -> str:
    """The last run before the job got expensive; "" if it never did, or only after this run."""
    for change in changes.job_changes(reader, run.job, "usd").current if run.usage.usd else ():
        if change.shift.first.at <= run.changed:
            return change.shift.last_usual.run
    return ""


def _fact(name: str, text: str) -> str:
    if name.startswith("input ") or name in ("definition", "commit"):
        return words.hash_of(text)
    return words.short(text, 80) or "–"


def live_state(reader: StoreReader, run: RunRow) -> str:
    """The facts that the live part of the page shows: when they change, the page is drawn again."""
    return f"{run.status} {run.attempt} {run.seq} {run.done} {run.usage.usd:.6f} {run.cancel} {reader.status(run)}"
