"""How a run ended, in one line: for people on a terminal, logfmt elsewhere."""

from __future__ import annotations

import os
import sys

from ..core import advice, duration, statuses
from ..core.printable import printable
from ..errors import InDoubt
from ..system import printing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..runtime.shared.verdict import Verdict

QUIET = "for cron: print nothing unless it failed (then with the end of its output) or needs you"


def show(verdict: Verdict, *, quiet: bool = False) -> None:
    """Print the line; if `quiet`, only one that a person should see."""
    on_terminal = sys.stderr.isatty()
    if quiet and not _matters(verdict) and not (on_terminal and _failed(verdict)):
        return  # cron mailed the failure when it happened; at a terminal the line says why nothing starts
    print(_for_people(verdict) if on_terminal else verdict.line(), file=sys.stderr)


def hush() -> None:
    """From now on the command's output is only kept with its run; Nightlatch's own lines still go to stderr."""
    ours = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    for fd in (1, 2):
        os.dup2(null, fd)
    os.close(null)
    sys.stderr = printing.printing(open(ours, "w", buffering=1))  # noqa: SIM115 - open until the process ends


def show_tail(verdict: Verdict, store: str | None) -> None:
    """If the run failed, print the end of its output, which `hush` has hidden: for cron's mail."""
    if not (verdict.run and verdict.tried and _matters(verdict)):
        return
    from ..observe.details import details
    from .reading import open_reader

    reader = open_reader(store)
    for line in details(reader, reader.run(verdict.run)).tail:
        print(f"  | {line}", file=sys.stderr)


def _matters(verdict: Verdict) -> bool:
    """Did this start fail, or does it need a person? What an earlier start left was reported by that start."""
    return verdict.tried and (_failed(verdict) or verdict.exit_code == InDoubt.exit_code)


def _failed(verdict: Verdict) -> bool:
    return verdict.status in statuses.FAILURES or statuses.needs_person(verdict.status)


def _for_people(verdict: Verdict) -> str:
    """As in `articles: succeeded in 14m, $0.83 · nightlatch show rjm6j1cnr8g3`."""
    from ..observe import figures
    from . import screen

    ran = verdict.elapsed and not verdict.due
    parts = [f"{verdict.status} in {duration.show(verdict.elapsed)}" if ran else verdict.status]
    if verdict.usd:
        parts.append(figures.money(verdict.usd))
    if verdict.reason:
        parts.append(screen.cut(printable(verdict.reason), 200))
    if verdict.due:
        parts.append(f"next try {screen.until(verdict.due)}")
    look = f" · {advice.command('show', verdict.run)}" if verdict.run else ""
    return f"{verdict.job}: {', '.join(parts)}{look}"
