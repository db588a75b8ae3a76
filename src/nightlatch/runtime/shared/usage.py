"""What was used: by earlier attempts, from the journal; and by command-line agents, from what they print at their end,
read from outside, without asking them to report.

Known: `claude -p --output-format json|stream-json` (the result object) and `codex exec --json`
(turn.completed events). What is not recognised counts nothing: a guess is worse than a missing figure.
"""

from __future__ import annotations

from ...core import statuses
from ...core.units import UNITS
from ...ledger import kinds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...ledger.records import Entry

_MOST = 1e9


def since_success(entries: Iterable[Entry]) -> dict[str, float]:
    """What a run has used, by its journal. One that succeeded and is done again (--again) counts anew."""
    used: dict[str, float] = {}
    for entry in entries:
        if entry.kind == kinds.ENDED and entry.facts.get("status") == statuses.SUCCEEDED:
            used = {}
        elif entry.kind == kinds.USAGE:
            for unit in UNITS:
                used[unit] = used.get(unit, 0.0) + float(entry.facts.get(unit, 0.0))
    return used


def from_output(tail: bytes) -> dict[str, float]:
    """usd, tokens, calls found in the last lines of an agent's standard output."""
    used: dict[str, float] = {}
    if b'"total_cost_usd"' in tail or b'"turn.completed"' in tail:
        for said in _objects(tail):
            _read(said, used)
    return {unit: float(amount) for unit, amount in used.items() if _is_amount(amount)}


def complaint(tail: bytes) -> str:
    """Why an agent that exits with 0 has failed all the same, by its result: "" if it has not."""
    results = [said for said in _objects(tail) if said.get("type") == "result"] if b'"is_error"' in tail else []
    return "its final JSON says is_error" if results and results[-1].get("is_error") is True else ""


def _objects(tail: bytes) -> Iterator[dict[str, object]]:
    import json

    for line in map(bytes.strip, tail.splitlines()):
        if not line.startswith((b"{", b"[{")):  # a list is all that was said, the result last
            continue
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            continue  # a line cut in half, or no JSON at all
        yield from (one for one in (said if isinstance(said, list) else [said]) if isinstance(one, dict))


def _read(said: dict[str, object], used: dict[str, float]) -> None:
    usage = said.get("usage")
    tokens = sum(filter(_is_amount, usage.values())) if isinstance(usage, dict) else 0
    if said.get("type") == "turn.completed" and isinstance(usage, dict):
        # Each turn reports its own; the cached input is part of the input.
        part = usage.get("cached_input_tokens", 0)
        used["tokens"] = used.get("tokens", 0.0) + tokens - (part if _is_amount(part) else 0)
        used["calls"] = used.get("calls", 0.0) + 1
    elif isinstance(said.get("total_cost_usd"), int | float):
        # The result is cumulative: the last one counts, whatever came before.
        used |= {"usd": said["total_cost_usd"], "tokens": tokens, "calls": said.get("num_turns", 0)}  # type: ignore[dict-item]


def _is_amount(found: object) -> bool:
    """What is none (negative, not a number, beyond all measure) counts nothing, and fails nothing that is done."""
    return type(found) in (int, float) and 0 <= found < _MOST  # type: ignore[operator]
