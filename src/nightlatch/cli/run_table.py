"""Runs and other open decisions as lines for a terminal; each ends with the command to type."""

from __future__ import annotations

from collections.abc import Sequence

from ..core import advice, duration, statuses
from ..observe.open_decisions import OpenDecision
from ..observe.run_views import RunView
from ..runtime.supervisor.afterwards import lapse
from ..system import clock
from . import screen

_COLOURS = (
    dict.fromkeys((*statuses.NEEDS_PERSON, *statuses.FAILURES), screen.RED)
    | {lapse.LAPSED: screen.YELLOW, statuses.RUNNING: screen.CYAN, statuses.SUCCEEDED: screen.GREEN}
    | dict.fromkeys((statuses.PENDING, statuses.WAITING, statuses.CANCELLED), screen.DIM)
)


def colour_of(status: str) -> str:
    return _COLOURS.get(status, screen.BOLD)


def lines(runs: Sequence[RunView], undecided: Sequence[OpenDecision] = ()) -> list[str]:
    """One line each, in the same columns: first the other open decisions, then the runs."""
    cells = [*map(_undecided, undecided), *map(_run, runs)]
    return screen.columns(cells, elastic=(2, 4), colours=[colour_of(row[0]) for row in cells])


def _run(seen: RunView) -> list[str]:
    return [seen.status, seen.run.job, seen.key, _when(seen), seen.note, advice.text(seen.next)]


def _undecided(one: OpenDecision) -> list[str]:
    what = f"{one.count} items" if one.count > 1 else one.key
    return [one.status, one.of, what, screen.ago(one.changed), one.note, advice.text(one.resolve())]


def _when(seen: RunView) -> str:
    if seen.running_since is not None:
        return f"for {duration.show(max(clock.wall() - seen.running_since, 1))}"
    if seen.status == statuses.WAITING and seen.run.due is not None:
        return f"due {screen.until(seen.run.due)}"
    return screen.ago(seen.run.changed)
