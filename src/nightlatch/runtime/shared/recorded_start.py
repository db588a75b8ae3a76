"""How an attempt was started (command, options, folder), recorded so that `nightlatch retry` can start it again.

Secrets are removed first. A start that had one can only be shown, not repeated.
"""

from __future__ import annotations

import os

from ...core import duration, options
from ...core.budget import Cap
from ...core.job import Job, unpack
from ...core.options import RUN, as_flag
from ...core.target import Function
from ...core.value import replace, value
from ...ledger import kinds
from ...ledger.chain import was_cut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...ledger.ledger import Ledger
    from ...ledger.records import RunRow
    from ...system.redaction import Redactor

_REPLACED_BY_KEY = ("key", "slot", "tz", "again", "new")  # options that `--key` with the run's key replaces


@value(frozen=True, kw_only=True)
class RecordedStart:
    job: Job
    folder: str  # where it was started
    hidden: bool  # a secret was removed

    def typed(self) -> tuple[str, ...] | None:
        """The words after `nightlatch` that start it; None for a Python job, which only its own file can start."""
        if isinstance(self.job.target, Function):
            return None
        flags: list[str] = []
        for name, row in options.rows(Job, RUN).items():
            given = self.job.__dict__[name]
            if name not in _REPLACED_BY_KEY and given != row.default:
                flags += (
                    [as_flag(name)] if row.flag else [part for one in _written(given) for part in (as_flag(name), one)]
                )
        return "run", self.job.name, "--key", self.job.key, *flags, "--", *self.job.command


def facts(job: Job, redactor: Redactor) -> dict[str, str]:
    """Facts for the journal entry of an attempt's start: a Python literal, as importing json would slow every run."""
    packed = job.pack() | {"folder": os.getcwd()}
    redacted = _redacted(packed, redactor)
    text = ascii(redacted)
    if was_cut(text):
        return {}
    return {"start": text} | ({} if redacted == packed else {"hidden": "true"})


def find(ledger: Ledger, run: RunRow) -> RecordedStart | None:
    """How the newest attempt of a run was started; None if this version finds no record that it can read."""
    import ast

    recorded = [entry.facts for entry in ledger.journal.of_run(run.id) if entry.kind == kinds.STARTED]
    if not recorded or "start" not in recorded[-1]:
        return None
    packed = ast.literal_eval(recorded[-1]["start"])
    folder = packed.pop("folder")
    try:
        job = unpack(packed)
    except (KeyError, TypeError, ValueError):
        return None
    job = replace(job, key=run.key, again=False, new=False)
    return RecordedStart(job=job, folder=folder, hidden="hidden" in recorded[-1])


def typed(ledger: Ledger, run: RunRow) -> tuple[str, ...] | None:
    """The words that start the run again, as far as they are recorded; None if there is no recorded command."""
    found = find(ledger, run)
    return found.typed() if found else None


def _redacted(packed: object, redactor: Redactor) -> object:
    if isinstance(packed, str):
        return redactor.text(packed)
    if isinstance(packed, dict):
        return {name: _redacted(one, redactor) for name, one in packed.items()}
    if isinstance(packed, list | tuple):
        return type(packed)(_redacted(one, redactor) for one in packed)
    return packed


def _written(given: object) -> list[str]:
    """An option's value as it is typed: one text for each use of the flag."""
    if given is None:
        return ["none"]
    if isinstance(given, float):
        shown = duration.show(given)
        return [shown if duration.parse(shown) == given else f"{given}s"]
    if isinstance(given, tuple) and given and isinstance(given[0], Cap):
        return [",".join(map(str, given))]
    if isinstance(given, tuple):
        return [one if isinstance(one, str) else "=".join(one) for one in given]
    return [str(given)]
