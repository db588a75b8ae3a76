"""Do the ledger's rows agree with its journal? Runs, attempts, usage, effects and items, as far as the journal goes.

Each check yields (whose row, what is wrong with it). Rows of pruned runs can no longer be checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..core.effects import DONE
from ..core.model import Holder
from ..core.units import UNITS
from .chain import unpack, was_cut
from .replay import Replay
from .snapshot import Snapshot
from .tables import Tables
from .tally import BUCKET

Mismatches = Iterator[tuple[str, str]]

_USAGE = f"SELECT seq, job, at, {', '.join(UNITS)} FROM {{prefix}}usage WHERE run = :run AND seq <= :seq"
_MONTH = 31 * 86_400_000  # ms; older usage may have been pruned
_ITEMS = """
SELECT scope, digest, key, status, run FROM {prefix}item WHERE (scope, digest) > (:scope, :digest)
ORDER BY scope, digest LIMIT :most
"""
_ENDED_USAGE = f"""
SELECT used.job, used.at / :bucket, {", ".join(f"CAST(SUM(used.{unit}) AS BIGINT)" for unit in UNITS)}
FROM {{prefix}}usage AS used LEFT JOIN {{prefix}}run AS run ON run.id = used.run
WHERE used.at >= :since AND (run.id IS NULL OR run.status <> 'running' OR run.attempt > used.attempt)
GROUP BY used.job, used.at / :bucket
"""
_TALLIED = f"""
SELECT job, day, {", ".join(f"CAST(SUM({unit}) AS BIGINT)" for unit in UNITS)} FROM {{prefix}}tally GROUP BY job, day
"""
_SEQ = "SELECT seq FROM {prefix}run WHERE id = :run"
_PAGE = 5000
_DIFFERS = "is not what its journal says"


def check_run(tables: Tables, snapshot: Snapshot, run: str, replay: Replay) -> Mismatches:
    """The run's row, its attempts and its usage."""
    row, attempts = snapshot.runs[run], snapshot.attempts.get(run, {})
    yield from _differs(run, "its row", row, replay.row)
    for number in sorted(attempts.keys() | replay.attempts.keys()):
        if number not in attempts:
            yield run, f"{_DIFFERS}: attempt {number} has no row"
        elif number not in replay.attempts:
            yield run, f"{_DIFFERS}: attempt {number} is in no entry of it"
        else:
            yield from _differs(run, f"attempt {number}", attempts[number], replay.attempts[number])
    names = ("job", "at", *UNITS)
    used = {seq: dict(zip(names, rest, strict=True)) for seq, *rest in tables.read(_USAGE, run=run, seq=row["seq"])}
    for seq in sorted(used.keys() | replay.usage.keys()):
        reported = replay.usage.get(seq)
        if reported is None:
            yield run, f"{_DIFFERS}: the usage of entry {seq} is in no entry of it"
        elif seq in used:
            expected = dict(zip(names, (row["job"], *reported), strict=True))
            yield from _differs(run, f"the usage of entry {seq}", used[seq], expected)
        elif reported[0] > snapshot.now - _MONTH:
            yield run, f"{_DIFFERS}: the usage of entry {seq} has no row"


def check_tally(tables: Tables) -> Mismatches:
    """On each day the tally must not have less than ended attempts have used: caps are counted by it."""
    days: dict[tuple[str, str], list[int]] = {}
    for job, bucket, *parts in tables.read(_ENDED_USAGE, bucket=BUCKET, since=tables.now() - _MONTH):
        total = days.setdefault((job, tables.days.of(bucket * BUCKET)), [0] * len(parts))
        total[:] = map(sum, zip(total, parts, strict=True))
    # Read after the usage: attempts that end meanwhile only add to the tally.
    tallied = {(job, day): parts for job, day, *parts in tables.read(_TALLIED)}
    for (job, day), used in days.items():
        counted = dict(zip(UNITS, tallied.get((job, day), [0] * len(used)), strict=True))
        for unit, wanted in zip(UNITS, used, strict=True):
            if counted[unit] < wanted:
                yield f"the tally of {job} on {day}", f"has {unit} = {counted[unit]}, but its usage is {wanted}"


def check_effects(snapshot: Snapshot, journal: dict[tuple[str, str], dict[str, Any]], cut: set[str]) -> Mismatches:
    """`journal` has what each effect's last entry says; entries of scopes in `cut` may have been removed."""
    for (scope, key), expected in journal.items():
        row = snapshot.effects.get((scope, key))
        if row:
            yield from _differs(f"the effect {key} of {scope}", "its row", row, expected)
        else:
            yield f"the effect {key} of {scope}", "is in the journal, and has no row"
    for scope, key in snapshot.effects.keys() - journal.keys():
        if scope not in cut:
            yield f"the effect {key} of {scope}", "has a row, and is in no entry of the journal"


def effect_row(facts: dict[str, str]) -> dict[str, Any]:
    """The columns of an effect's row, according to an entry."""
    numbers = {name: int(facts[name]) for name in ("attempt", "token")}
    code = int(facts["exit_code"]) if "exit_code" in facts else None
    return {**numbers, "exit_code": code, "status": facts["status"], "reason": facts.get("reason", "")}


class ItemChecks:
    """Items and what the journal says about them. There may be a million, so only hashes of them are remembered."""

    def __init__(self) -> None:
        self._recorded: dict[int, set[str]] = {}  # hash of (scope, run, key) → every status in the journal
        self._cut_short: set[str] = set()  # runs and scopes with an entry that was too long to be kept whole
        self._done: dict[int, str] = {}  # hash of (scope, key) → name, of items that must have a row

    def add_entry(self, scope: str, run: str, body: str) -> None:
        for status, keys in unpack(body).items():
            self.add(scope, run, status, keys)

    def add(self, scope: str, run: str, status: str, keys: str) -> None:
        """`run` is "" for a person's decision."""
        names = keys.split("\n")
        if was_cut(keys):
            self._cut_short.add(run or scope)
            names.pop()
        for key in names:
            self._recorded.setdefault(hash((scope, run, key)), set()).add(status)
            if status == DONE:
                self._done[hash((scope, key))] = f"the item {key} of {scope}"

    def check(self, tables: Tables, snapshot: Snapshot, broken: set[str]) -> Mismatches:
        missing = dict(self._done)
        for scope, _, key, status, run in tables.in_pages(_ITEMS, _PAGE, {"scope": "", "digest": ""}):
            name = f"the item {key} of {scope}"
            missing.pop(hash((scope, key)), None)
            if status != DONE and hash((scope, key)) in self._done:
                yield name, f"is {status} in its row, but done in the journal"
            elif run in snapshot.runs and run not in broken and not self._cut_short & {run, scope}:
                recorded = self._recorded.get(hash((scope, run, key)), set()) | self._recorded.get(
                    hash((scope, "", key)), set()
                )
                if status not in recorded and tables.read(_SEQ, run=run) == [(snapshot.heads[run][0],)]:
                    yield name, f"is {status} in its row, but in no entry of the journal"
        for name in missing.values():
            yield name, "is done in the journal, but has no row"


def _differs(name: str, what: str, row: dict[str, Any], journal: dict[str, Any]) -> Mismatches:
    for column, wanted in journal.items():
        stored = _holder(row[column]) if column == "holder" else row[column]
        if stored != wanted:
            yield name, f"{_DIFFERS}: {what} has {column} = {stored!r}, but the journal has {wanted!r}"


def _holder(text: str) -> str:
    try:
        return str(Holder.unpack(text)) if text else ""
    except ValueError:
        return text
