"""The result of a dry-run: the effects that a job would have, and what is known of each."""

from __future__ import annotations

from ...core import duration
from ...core.effects import DONE, PLANNED, STORE_WIDE
from ...core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...ledger.records import Entry

WHOLE, PARTIAL, SKIPPED = "planned", "partial", "skipped"

_LONGEST = 60_000  # characters of all effects in the journal


@value(frozen=True, kw_only=True)
class PlannedEffect:
    """`status` is `planned` (would be done), `done` (already), or `in-doubt` or `begun` (would first be decided)."""

    key: str
    status: str
    scope: str = STORE_WIDE
    reason: str = ""


@value(frozen=True, kw_only=True)
class Plan:
    """`status` is `planned`; `partial` if the dry-run ended early, where it needed a result that does not exist
    yet; `skipped` if its key is done; or how the function failed. `at` is wall clock, in seconds."""

    job: str
    key: str
    status: str
    exit_code: int = 0
    reason: str = ""
    effects: tuple[PlannedEffect, ...] = ()
    steps: int = 0  # how many were done; they are not recorded
    elapsed: float = 0.0
    at: float = 0.0
    left_out: int = 0  # effects that the journal has no room for

    def summary(self) -> str:
        """One line."""
        statuses = [effect.status for effect in self.effects]
        counts = {
            "would be done": statuses.count(PLANNED) + self.left_out,
            "done already": statuses.count(DONE),
            "not known": len(statuses) - statuses.count(PLANNED) - statuses.count(DONE),
        }
        counted = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        took = f"{duration.show(self.elapsed)}, {self.steps} step{'' if self.steps == 1 else 's'}"
        return f"{self.job} ({self.key}) {self.status}: {'effects: ' + counted if counted else 'no effects'} ({took})"

    def facts(self) -> dict[str, object]:
        """For JSON."""
        return {"version": 1, **self.__dict__, "effects": [effect.__dict__ for effect in self.effects]}

    def entry(self) -> dict[str, object]:
        """For the journal, whose facts are short strings."""
        lines: list[str] = []
        room = _LONGEST
        for effect in self.effects:
            line = "\t".join((effect.status, effect.scope, effect.key, effect.reason.replace("\n", " ")))
            room -= len(line) + 1
            if room < 0:
                break
            lines.append(line)
        left_out = len(self.effects) - len(lines)
        facts = {**self.__dict__, "effects": "\n".join(lines), "left_out": left_out}
        return {name: fact for name, fact in facts.items() if name not in ("job", "at")}  # the entry has them itself


def read(facts: dict[str, object]) -> Plan:
    """From JSON."""
    effects = tuple(PlannedEffect(**effect) for effect in facts["effects"])  # type: ignore[attr-defined]
    return Plan(**{**facts, "effects": effects})  # type: ignore[arg-type]


def from_journal(job: str, entry: Entry) -> Plan:
    facts = entry.facts
    rows = [line.split("\t", 3) for line in facts["effects"].split("\n") if line]
    return Plan(
        job=job,
        key=facts["key"],
        status=facts["status"],
        exit_code=int(facts["exit_code"]),
        reason=facts["reason"],
        effects=tuple(
            PlannedEffect(status=status, scope=scope, key=key, reason=why) for status, scope, key, why in rows
        ),
        steps=int(facts["steps"]),
        elapsed=float(facts["elapsed"]),
        at=entry.at,
        left_out=int(facts["left_out"]),
    )
