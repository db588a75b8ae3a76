"""What was used: by earlier attempts, from the journal; and by command-line agents, from what they print at their end,
read from outside, without asking them to report.

Known: `claude -p --output-format json|stream-json` (the result object) and `codex exec --json`
(turn.completed events). What is not recognised counts nothing: a guess is worse than a missing figure.
"""

from __future__ import annotations

from ...core import states
from ...core.budget import UNITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...ledger.model import Entry


def since_success(entries: Iterable[Entry]) -> dict[str, float]:
    """What a run has used, by its journal. One that succeeded and is done again (--again) counts anew."""
    used: dict[str, float] = {}
    for entry in entries:
        if entry.kind == "ended" and entry.facts.get("state") == states.SUCCEEDED:
            used = {}
        elif entry.kind == "usage":
            for unit in UNITS:
                used[unit] = used.get(unit, 0.0) + float(entry.facts.get(unit, 0.0))
    return used


def from_output(tail: bytes) -> dict[str, float]:
    """usd, tokens, calls found in the last lines of an agent's standard output."""
    used: dict[str, float] = {}
    if b'"total_cost_usd"' in tail or b'"turn.completed"' in tail:
        for said in _objects(tail):
            _read(said, used)
    return used


def complaint(tail: bytes) -> str:
    """Why an agent that exits with 0 has failed all the same, by its result: "" if it has not."""
    results = [said for said in _objects(tail) if said.get("type") == "result"] if b'"is_error"' in tail else []
    return "its final JSON says is_error" if results and results[-1].get("is_error") is True else ""


def _objects(tail: bytes) -> Iterator[dict[str, object]]:
    import json

    for line in map(bytes.strip, tail.splitlines()):
        if not line.startswith(b"{"):
            continue
        try:
            said = json.loads(line)
        except ValueError:
            continue  # a line cut in half, or no JSON at all
        if isinstance(said, dict):
            yield said


def _read(said: dict[str, object], used: dict[str, float]) -> None:
    usage = said.get("usage")
    tokens = sum(v for v in usage.values() if type(v) in (int, float)) if isinstance(usage, dict) else 0
    if said.get("type") == "turn.completed" and isinstance(usage, dict):
        # Each turn reports its own; the cached input is part of the input.
        part = usage.get("cached_input_tokens", 0)
        used["tokens"] = used.get("tokens", 0.0) + tokens - (part if isinstance(part, int) else 0)
        used["calls"] = used.get("calls", 0.0) + 1
    elif isinstance(said.get("total_cost_usd"), int | float):
        # The result is cumulative: the last one counts, whatever came before.
        used["usd"] = float(said["total_cost_usd"])  # type: ignore[arg-type]
        used["tokens"] = float(tokens)
        turns = said.get("num_turns")
        if isinstance(turns, int):
            used["calls"] = float(turns)
