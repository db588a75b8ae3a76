"""A run's journal as a person reads it: steps that went well are counted, everything else is a line."""

from __future__ import annotations

from ..core import duration
from ..core.effects import BEGUN, DONE
from ..core.logline import logfmt
from ..core.printable import printable
from . import screen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..ledger.model import Entry

_MOST = 40  # lines that are shown; --json has every entry
_FEW = 3  # so many steps in a row, or fewer, are shown one by one
_OFTEN = ("progress", "usage")  # of several in a row only the last is shown
_FENCE = ("grant", "seq", "head", "run", "definition", "digest", "steps")  # facts for the audit, not for a timeline


def lines(entries: list[Entry]) -> list[str]:
    shown = [
        entry
        for index, entry in enumerate(entries)
        if entry.kind not in _OFTEN or index + 1 == len(entries) or entries[index + 1].kind != entry.kind
    ]
    rows = [row for group in _together(shown) for row in _rows(group)]
    cells = [[screen.local(at), printable(kind), said] for at, kind, said in rows[-_MOST:]]
    told = [screen.cut(line, max(screen.width(), 60)) for line in screen.columns(cells, elastic=())]
    earlier = len(rows) - len(cells)
    return [f"  … {earlier} earlier: --json has all of them", *told] if earlier else told


def _together(entries: list[Entry]) -> list[list[Entry]]:
    """Steps that went well, and follow one another, in one group; everything else alone."""
    groups: list[list[Entry]] = []
    before = False
    for entry in entries:
        well = _went_well(entry)
        if well and before:
            groups[-1].append(entry)
        else:
            groups.append([entry])
        before = well
    return groups


def _went_well(entry: Entry) -> bool:
    if entry.kind == "effect":
        return entry.facts.get("state") in (BEGUN, DONE)
    if entry.kind == "steps":
        return "failed" not in entry.facts
    return entry.kind in ("step-begun", "step-done", "progress")


def _rows(group: list[Entry]) -> list[tuple[float, str, str]]:
    if len(group) <= _FEW:
        return [(entry.at, entry.kind, _said(entry)) for entry in group]
    done: list[str] = []
    begun: dict[str, None] = {}  # and not ended
    for entry in group:
        ended = _keys(entry, "step-done", "done")
        done += ended
        begun = {key: None for key in begun if key not in ended}
        begun |= dict.fromkeys(_keys(entry, "step-begun", "begun"))
    told = [f"{len(done)} done, the last {done[-1]}"] if done else []
    told += [f"begun: {', '.join(begun)}"] if begun else []
    return [(group[-1].at, "steps", printable("; ".join(told)) or _said(group[-1]))]


def _keys(entry: Entry, kind: str, word: str) -> list[str]:
    """The keys of steps, one an entry or several, that an entry says this of."""
    if entry.kind == "steps":
        return [key for key in str(entry.facts.get(word, "")).split("\n") if key]
    return [str(entry.facts.get("key", ""))] if entry.kind == kind else []


def _said(entry: Entry) -> str:
    told = {printable(name): text for name, text in entry.facts.items() if name not in _FENCE}
    if entry.kind == "usage":
        told = {name: str(amount).removesuffix(".0") for name, amount in told.items()}
    if "elapsed" in told:
        told["elapsed"] = duration.show(float(told["elapsed"]))
    if "again_at" in told:
        told["again_at"] = screen.local(float(told["again_at"]))
    return logfmt(told)
