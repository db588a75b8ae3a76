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


def show(ended: Verdict, *, quiet: bool = False) -> None:
    """Print the line; if `quiet`, only one that a person should see."""
    on_terminal = sys.stderr.isatty()
    if quiet and not _matters(ended) and not (on_terminal and _failed(ended)):
        return  # cron mailed this failure when it happened; at a terminal it says why nothing starts
    print(_for_people(ended) if on_terminal else ended.line(), file=sys.stderr)


def hush() -> None:
    """From now on the command's output is only kept with its run; Nightlatch's own lines still go to stderr."""
    ours = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    for fd in (1, 2):
        os.dup2(null, fd)
    os.close(null)
    sys.stderr = printing.printing(open(ours, "w", buffering=1))  # noqa: SIM115 - open until the process ends


def show_tail(ended: Verdict, store: str | None) -> None:
    """If the run failed, print the end of its output, which `hush` has hidden: for cron's mail."""
    if not (ended.run and ended.tried and _matters(ended)):
        return
    from ..observe.details import details
    from .reading import open_reader

    reader = open_reader(store)
    for line in details(reader, reader.run(ended.run)).tail:
        print(f"  | {line}", file=sys.stderr)


def _matters(ended: Verdict) -> bool:
    """Did this start fail, or does it need a person? What an earlier start left was reported by that start."""
    return ended.tried and (_failed(ended) or ended.exit_code == InDoubt.exit_code)


def _failed(ended: Verdict) -> bool:
    return ended.status in statuses.FAILURES or statuses.needs_person(ended.status)


def _for_people(ended: Verdict) -> str:
    """As in `articles: succeeded in 14m, $0.83 · nightlatch show rjm6j1cnr8g3`."""
    from ..observe import figures
    from . import screen

    ran = ended.elapsed and not ended.due
    parts = [f"{ended.status} in {duration.show(ended.elapsed)}" if ran else ended.status]
    if ended.usd:
        parts.append(figures.money(ended.usd))
    if ended.reason:
        parts.append(screen.cut(printable(ended.reason), 200))
    if ended.due:
        parts.append(f"next try {screen.until(ended.due)}")
    look = f" · {advice.command('show', ended.run)}" if ended.run else ""
    return f"{ended.job}: {', '.join(parts)}{look}"
