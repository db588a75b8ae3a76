"""A run's waterfall: attempts, steps, model calls, effects and refusals on one scale."""

from __future__ import annotations

from markupsafe import Markup

from ..core import statuses
from ..core.value import value
from ..ledger import kinds
from ..ledger.records import Entry
from ..observe.details import Details
from ..observe.figures import about, count
from .svg import Track
from .words import Calendar, look, short

_STEPS = 12  # rows of steps, and of effects, that are drawn
_MARKS = 150  # that are drawn in one row


@value(frozen=True, kw_only=True)
class FallRow:
    nested: bool  # indented, since it is part of an attempt
    name: str
    picture: Markup
    note: str


@value(frozen=True, kw_only=True)
class Waterfall:
    axis: Markup
    rows: tuple[FallRow, ...]


def waterfall(view: Details, calendar: Calendar, now: float) -> Waterfall | None:
    if not view.attempts:
        return None
    begin = view.attempts[0].started
    ends = [one.ended if one.ended is not None else one.started + one.elapsed for one in view.attempts]
    end = max(*ends, begin, now if view.run.status == statuses.RUNNING else begin)
    end += max((end - begin) * 0.02, 1.0)
    late = [entry.at for entry in view.refusals if entry.at > end]
    ticks = _ticks(begin, end, calendar)
    track = Track(begin, end, grid=[at for at, _ in ticks], late=max(late) if late else None)
    if late:
        ticks = [*ticks, (max(late), calendar.clock(max(late)))]
    rows = [_attempt(track, view, index, now) for index in range(len(view.attempts))]
    rows += _steps(track, view.entries)
    if calls := [entry for entry in view.entries if entry.kind == kinds.USAGE]:
        rows.append(_calls(track, calls))
    rows += _effects(track, view.entries)
    return Waterfall(axis=track.axis(ticks, 18), rows=tuple(rows))


def _ticks(begin: float, end: float, calendar: Calendar) -> list[tuple[float, str]]:
    """(moment, label) of about six round times."""
    step = next(
        (one for one in (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 21600) if (end - begin) / one <= 7), 86400
    )
    first = (int(begin) // step + 1) * step
    show = calendar.clock if step >= 60 else calendar.second
    return [(float(at), show(at)) for at in range(first, int(end) + 1, step)]


def _attempt(track: Track, view: Details, index: int, now: float) -> FallRow:
    one = view.attempts[index]
    at_work = index == len(view.attempts) - 1 and one.status == statuses.RUNNING
    _, kind, word = look(view.status if at_work else one.status)
    end = one.ended if one.ended is not None else now if one.status == statuses.RUNNING else one.started + one.elapsed
    thin = " thin" if one.status == statuses.LOST else ""
    marks = [track.bar(one.started, end, f"{kind}{thin}", f"attempt {one.attempt}: {word}", y=8)]
    for entry in view.refusals:
        if entry.facts.get("attempt") == str(one.attempt):
            marks.append(track.link_line(end, entry.at))
            marks.append(track.shield(entry.at, "a stale write was refused", "#refused"))
    name = f"attempt {one.attempt} · {one.holder.host}"
    return FallRow(
        nested=False, name=name, picture=track.row(f"{name}: {word}", marks), note=f"{word}, {about(end - one.started)}"
    )


def _steps(track: Track, entries: tuple[Entry, ...]) -> list[FallRow]:
    begun: dict[str, float] = {}
    spans: dict[str, list[tuple[float, float, str]]] = {}
    for entry in entries:
        key = entry.facts.get("key", "")
        if entry.kind == kinds.STEP_BEGUN:
            begun[key] = entry.at
        elif entry.kind in (kinds.STEP_DONE, kinds.STEP_FAILED):
            kind = "ok" if entry.kind == kinds.STEP_DONE else "bad"
            spans.setdefault(_group(key), []).append((begun.pop(key, entry.at), entry.at, kind))
    for key, at in begun.items():
        spans.setdefault(_group(key), []).append((at, at, "run"))
    rows = []
    for name, parts in list(spans.items())[:_STEPS]:
        marks = [track.bar(a, b, f"{kind} thin", short(name, 60), y=8) for a, b, kind in parts[:_MARKS]]
        label = short(name, 60) + (f" × {count(len(parts))}" if len(parts) > 1 else "")
        took = about(sum(b - a for a, b, _ in parts))
        rows.append(FallRow(nested=True, name=label, picture=track.row(label, marks), note=took))
    if len(spans) > _STEPS:
        rows.append(
            FallRow(nested=True, name=f"{count(len(spans) - _STEPS)} more steps", picture=track.row("", []), note="")
        )
    return rows


def _group(key: str) -> str:
    """The name of a step's row: draft/1 and draft/2 share the row draft."""
    return key.partition("/")[0].partition(" ")[0]


def _calls(track: Track, calls: list[Entry]) -> FallRow:
    paid = sorted(_number(entry, "usd") for entry in calls)
    expensive = paid[int(len(paid) * 0.9)] if paid else 0.0
    step = -(-len(calls) // _MARKS)
    marks = [track.call(entry.at, expensive=0 < expensive < _number(entry, "usd")) for entry in calls[::step]]
    tokens = sum(_number(entry, "tokens") for entry in calls)
    number = sum(_number(entry, "calls") for entry in calls)
    name = f"model calls ({count(number)})" if number else f"usage reports ({count(len(calls))})"
    return FallRow(
        nested=True, name=name, picture=track.row(name, marks), note=f"{count(tokens)} tokens" if tokens else ""
    )


def _effects(track: Track, entries: tuple[Entry, ...]) -> list[FallRow]:
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.kind == kinds.EFFECT_OF_RUN:
            found.setdefault(entry.facts.get("key", ""), []).append(entry)
        elif entry.kind in (kinds.PUBLISHING, kinds.PUBLISHED, kinds.NOT_PUBLISHED):
            found.setdefault(f"publish to {entry.facts.get('target', '')}", []).append(entry)
    rows = []
    for name, moves in list(found.items())[:_STEPS]:
        last = moves[-1]
        word = last.facts.get("status", "") or str(last.kind)
        kind = "doubt" if word in ("in-doubt", "begun") else "bad" if word in ("failed", "not-published") else "ok"
        label = short(name, 60)
        marks = [track.bar(moves[0].at, last.at, kind, f"{label}: {word}", y=8)]
        rows.append(FallRow(nested=True, name=label, picture=track.row(f"{label}: {word}", marks), note=word))
    return rows


def _number(entry: Entry, name: str) -> float:
    try:
        return float(entry.facts.get(name, 0) or 0)
    except ValueError:
        return 0.0
