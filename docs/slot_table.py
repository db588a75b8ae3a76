"""What a due slot becomes, as a table: the first row that fits counts. docs/stages.md is made from it, and a test
compares every combination with what the scheduler decides."""

from __future__ import annotations

from itertools import product

DIMENSIONS = {
    "file": ("in force", "old"),  # the job's definition on this machine
    "before": ("nothing", "a plan that waits", "a plan that was approved", "a slot's run", "a run by hand"),
    "paused": ("no", "yes"),
    "stage": ("manual", "supervised", "unattended"),
    "hold": ("writes", "start", "none"),
    "found": ("on time", "late"),
    "catch_up": ("one", "none"),
    "overlap": ("skip", "queue", "cancel"),
}
MEANINGS = {
    "file": "the job's definition in this machine's file",
    "before": "what is at work or waits for the job",
    "paused": "by `nightlatch pause`",
    "stage": "",
    "hold": "of a supervised job",
    "found": "late: over a minute after its time",
    "catch_up": "",
    "overlap": "",
}

# (conditions, outcome, reason); a condition names the values that fit.
ROWS: list[tuple[dict[str, tuple[str, ...]], str, str]] = [
    ({"file": ("old",)}, "left", "another machine has a newer file, and starts it"),
    ({"before": ("a plan that waits", "a plan that was approved")}, "skipped", "waits"),
    ({"paused": ("yes",)}, "skipped", "paused"),
    ({"stage": ("manual",)}, "skipped", "stage"),
    ({"before": ("a slot's run",), "overlap": ("skip",)}, "skipped", "overlap"),
    ({"before": ("a slot's run",), "overlap": ("queue",)}, "queued", "until that has ended"),
    ({"before": ("a slot's run",), "overlap": ("cancel",)}, "cancels", "that run, and waits for its end"),
    ({"found": ("late",), "catch_up": ("none",)}, "skipped", "missed"),
    ({"before": ("a run by hand",), "overlap": ("skip",)}, "skipped", "overlap"),
    ({"before": ("a run by hand",), "overlap": ("queue",)}, "queued", "until that has ended"),
    ({"before": ("a run by hand",), "overlap": ("cancel",)}, "cancels", "that run, and waits for its end"),
    ({"stage": ("supervised",), "hold": ("writes",)}, "runs", "and what it would publish waits for an approval"),
    ({"stage": ("supervised",), "hold": ("start",)}, "waits", "unstarted, for an approval"),
    ({"stage": ("supervised",), "hold": ("none",)}, "runs", "and counts as evidence"),
    ({}, "runs", "alone"),
]


def cells() -> list[dict[str, str]]:
    """Every combination."""
    return [dict(zip(DIMENSIONS, values, strict=True)) for values in product(*DIMENSIONS.values())]


def outcome(cell: dict[str, str]) -> tuple[str, str]:
    """(outcome, reason) of the first row that fits."""
    for conditions, word, reason in ROWS:
        if all(cell[name] in values for name, values in conditions.items()):
            return word, reason
    raise AssertionError(cell)


def markdown() -> str:
    lines = ["| if | the slot is | |", "|---|---|---|"]
    for conditions, word, reason in ROWS:
        shown = ", ".join(f"{name} = {' or '.join(values)}" for name, values in conditions.items())
        lines.append(f"| {shown or 'otherwise'} | {word} | {reason} |")
    return "\n".join(lines)
