"""Usage figures: of earlier attempts, from the journal; and of command-line agents, from what they print at their end.

Recognised: `claude -p --output-format json|stream-json` (the result object) and `codex exec --json`
(turn.completed events). Anything else counts as nothing: a guess is worse than a missing figure.
"""

from __future__ import annotations

from ...core import statuses
from ...core.units import UNITS
from ...ledger import kinds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...ledger.records import Entry

_IMPLAUSIBLE = 1e9  # no usage figure is that high


def since_success(entries: Iterable[Entry]) -> dict[str, float]:
    """What a run has used since it last succeeded, according to its journal: with --again the count starts again."""
    used: dict[str, float] = {}
    for entry in entries:
        if entry.kind == kinds.ENDED and entry.facts.get("status") == statuses.SUCCEEDED:
            used = {}
        elif entry.kind == kinds.USAGE:
            for unit in UNITS:
                used[unit] = used.get(unit, 0.0) + float(entry.facts.get(unit, 0.0))
    return used


def from_output(tail: bytes) -> dict[str, float]:
    """usd, tokens and calls in the last lines of an agent's standard output."""
    used: dict[str, float] = {}
    if b'"total_cost_usd"' in tail or b'"turn.completed"' in tail:
        for parsed in _objects(tail):
            _add_usage(parsed, used)
    return {unit: float(amount) for unit, amount in used.items() if _is_amount(amount)}


def complaint(tail: bytes) -> str:
    """Why an agent that exited with 0 has failed, according to its result; "" if it has not."""
    results = [parsed for parsed in _objects(tail) if parsed.get("type") == "result"] if b'"is_error"' in tail else []
    return "its final JSON says is_error" if results and results[-1].get("is_error") is True else ""


def _objects(tail: bytes) -> Iterator[dict[str, object]]:
    import json

    for line in map(bytes.strip, tail.splitlines()):
        if not line.startswith((b"{", b"[{")):  # a list is the whole conversation, the result last
            continue
        try:
            parsed = json.loads(line)
        except (ValueError, RecursionError):
            continue  # half a line, or not JSON
        yield from (one for one in (parsed if isinstance(parsed, list) else [parsed]) if isinstance(one, dict))


def _add_usage(parsed: dict[str, object], used: dict[str, float]) -> None:
    usage = parsed.get("usage")
    tokens = sum(filter(_is_amount, usage.values())) if isinstance(usage, dict) else 0
    if parsed.get("type") == "turn.completed" and isinstance(usage, dict):
        # Each turn reports its own tokens; the cached input is part of the input.
        cached = usage.get("cached_input_tokens", 0)
        used["tokens"] = used.get("tokens", 0.0) + tokens - (cached if _is_amount(cached) else 0)
        used["calls"] = used.get("calls", 0.0) + 1
    elif isinstance(parsed.get("total_cost_usd"), int | float):
        # The result is cumulative: the last one counts, whatever came before.
        used |= {"usd": parsed["total_cost_usd"], "tokens": tokens, "calls": parsed.get("num_turns", 0)}  # type: ignore[dict-item]


def _is_amount(found: object) -> bool:
    """Is it a usable figure? Anything else (negative, NaN, absurdly high) is ignored, and never fails finished work."""
    return type(found) in (int, float) and 0 <= found < _IMPLAUSIBLE  # type: ignore[operator]
