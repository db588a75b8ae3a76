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
    cells = [*map(_decision_cells, undecided), *map(_run_cells, runs)]
    return screen.columns(cells, elastic=(2, 4), colours=[colour_of(row[0]) for row in cells])


def _run_cells(view: RunView) -> list[str]:
    return [view.status, view.run.job, view.key, _when(view), view.note, advice.text(view.next)]


def _decision_cells(decision: OpenDecision) -> list[str]:
    what = f"{decision.count} items" if decision.count > 1 else decision.key
    changed, command = screen.ago(decision.changed), advice.text(decision.resolve())
    return [decision.status, decision.of, what, changed, decision.note, command]


def _when(view: RunView) -> str:
    if view.running_since is not None:
        return f"for {duration.show(max(clock.wall() - view.running_since, 1))}"
    if view.status == statuses.WAITING and view.run.due is not None:
        return f"due {screen.until(view.run.due)}"
    return screen.ago(view.run.changed)
