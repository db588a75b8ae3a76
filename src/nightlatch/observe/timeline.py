"""A run's journal as a person reads it: steps that succeeded are counted, every other entry is a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from ..core import duration
from ..core.effects import BEGUN, DONE
from ..core.printable import logfmt
from ..core.units import UNITS
from ..core.value import replace, value
from ..ledger import kinds
from ..ledger.records import Entry
from ..store.held import time_of
from ..system import identity
from . import figures

_COMMIT, _SHORT = 40, 12  # characters of a commit's id: in the journal, and as shown
_SHOWN_SINGLY = 3  # up to this many steps in a row are shown one by one


@value(frozen=True, kw_only=True)
class Event:
    """One line. Facts are as they were reported: a front end makes them safe to show."""

    at: float
    sentence: str


def timeline(entries: Sequence[Entry]) -> list[Event]:
    return [event for group in _grouped(_collapsed(entries)) for event in _events(group)]


def _collapsed(entries: Sequence[Entry]) -> list[Entry]:
    """Of progress and usage entries that follow one another, keep only the last progress and the sum of the usage."""
    found: list[Entry] = []
    frequent: dict[str, list[Entry]] = {}
    for entry in [*entries, None]:
        if entry is not None and _is_frequent(entry):
            frequent.setdefault(entry.kind, []).append(entry)
            continue
        last = [_summed(same) if kind == kinds.USAGE else same[-1] for kind, same in frequent.items()]
        found += sorted(last, key=lambda one: one.at)
        frequent = {}
        found += [entry] if entry is not None else []
    return found


def _summed(same: list[Entry]) -> Entry:
    """One entry for all of them, at the time of the last; facts in which they differ are left out."""
    facts = {name: text for name, text in same[-1].facts.items() if all(one.facts.get(name) == text for one in same)}
    for unit in UNITS:
        amount = sum(float(one.facts.get(unit, 0.0)) for one in same)
        facts.pop(unit, None)
        facts |= {unit: f"{amount:.9f}".rstrip("0").rstrip(".")} if amount else {}
    return replace(same[-1], facts=facts)


def sentence(entry: Entry) -> str:
    if entry.kind == kinds.USAGE:
        return _usage(entry.facts)
    facts = {name: _shown(name, text) for name, text in entry.facts.items()}
    kind = kinds.ROWS.get(entry.kind)
    return kind.describe(facts) if kind else f"{entry.kind} {logfmt(facts)}"  # an entry written by a newer version


def _usage(facts: dict[str, str]) -> str:
    """As in: used $1.61, 212,480 tokens, 31 calls, model large."""
    amounts = {unit: float(facts.get(unit) or 0.0) for unit in UNITS}
    shown = [figures.money(amounts.pop("usd"))] if amounts["usd"] else []
    amounts.pop("usd", None)
    doubt = amounts.pop("doubt", 0.0)
    shown += [f"{figures.count(amount) if amount == int(amount) else f'{amount:g}'} {unit}"
              for unit, amount in amounts.items() if amount]  # fmt: skip
    text = f"used {', '.join(shown) or 'nothing'}"
    text += f", and up to {figures.money(doubt)} more that was not reported" if doubt else ""
    about = [
        f"for {facts['item']}" if facts.get("item") else "",
        f"model {facts['model']}" if facts.get("model") else "",
    ]
    return ", ".join(filter(None, (text, *about)))


def _is_frequent(entry: Entry) -> bool:
    return entry.kind in kinds.ROWS and kinds.ROWS[entry.kind].often


def _grouped(entries: list[Entry]) -> list[list[Entry]]:
    """Consecutive steps that succeeded form one group; every other entry is alone."""
    groups: list[list[Entry]] = []
    last_was_success = False
    for entry in entries:
        success = _is_success(entry)
        if success and last_was_success:
            groups[-1].append(entry)
        else:
            groups.append([entry])
        last_was_success = success
    return groups


def _is_success(entry: Entry) -> bool:
    if entry.kind == kinds.EFFECT_OF_RUN:
        return entry.facts.get("status") in (BEGUN, DONE)
    if entry.kind == kinds.ITEMS_MOVED:
        return "failed" not in entry.facts
    return entry.kind in (kinds.STEP_BEGUN, kinds.STEP_DONE, kinds.PROGRESS)


def _events(group: list[Entry]) -> list[Event]:
    if len(group) <= _SHOWN_SINGLY:
        return [Event(at=entry.at, sentence=sentence(entry)) for entry in group]
    done: list[str] = []
    begun: dict[str, None] = {}  # not ended yet
    for entry in group:
        ended = _keys(entry, kinds.STEP_DONE, DONE)
        done += ended
        begun = {key: None for key in begun if key not in ended}
        begun |= dict.fromkeys(_keys(entry, kinds.STEP_BEGUN, BEGUN))
    counts = [f"{len(done)} done, the last {done[-1]}"] if done else []
    counts += [f"begun: {', '.join(begun)}"] if begun else []
    return [Event(at=group[-1].at, sentence=f"steps: {'; '.join(counts)}" if counts else sentence(group[-1]))]


def _keys(entry: Entry, kind: str, status: str) -> list[str]:
    """The keys that the entry gives this status: an entry of `kind` has one key, one of ITEMS_MOVED several."""
    if entry.kind == kinds.ITEMS_MOVED:
        return [key for key in entry.facts.get(status, "").split("\n") if key]
    return [entry.facts.get("key", "")] if entry.kind == kind else []


def _shown(name: str, text: str) -> str:
    """A fact as a person reads it."""
    try:
        if name == "elapsed":
            return duration.show(float(text))
        if name == "again_at":
            return time_of(float(text))
        if name == "target":  # a path on this machine is shown without the machine's id
            return text.replace(f"//{identity.machine()}/", "///", 1)
        if name == "landed" and len(text) == _COMMIT:
            return text[:_SHORT]
    except ValueError:
        pass  # not in our format: show it as it is
    shown = ", ".join(text.split("\n"))
    return shown.removesuffix(".0") if name in UNITS else shown
