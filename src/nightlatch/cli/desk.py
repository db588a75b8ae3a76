"""What the commands for people share: a run by its beginning, how it is shown, and what to type about it."""

from __future__ import annotations

import os
import shlex

from ..core import duration, retry, states
from ..core.job import BY_HAND
from ..core.passwords import without_password
from ..core.printable import printable
from ..database import sqlite_presence
from ..errors import Error, RunEnded, StoreUnreachable, UsageError
from ..ledger import open_for, place
from ..runtime.supervisor.afterwards import lapse
from ..runtime.supervisor.leases import unsealed
from ..runtime.supervisor.run import begun
from ..store import url
from ..system import clock, identity
from . import screen
from .told import store_of_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.model import Begun
    from ..ledger.model import Attempt, Entry, Run

SHOWN = (*states.ALL, lapse.LAPSED)  # every word a run's state is shown as
ASKING = (*states.ASKING, lapse.LAPSED)
FAILED = (states.FAILED, states.TIMED_OUT, states.STALLED, states.OVER_BUDGET, states.LOST)

_LATE = 60.0  # seconds that a due try may take to begin, with the lease held by another run of the job

_COLOURS = (
    dict.fromkeys((*states.ASKING, *FAILED), screen.RED)
    | {lapse.LAPSED: screen.YELLOW, states.RUNNING: screen.CYAN, states.SUCCEEDED: screen.GREEN}
    | dict.fromkeys((states.PENDING, states.WAITING, states.CANCELLED), screen.DIM)
)


class NoStore(UsageError):
    """There is nothing to look at, and looking makes nothing."""


class Desk:
    """The ledger and the store that `--store` names, or the run that this is called in. Looking changes nothing."""

    def __init__(self, store: str | None, *, listing: bool = False) -> None:
        self.url = existing(store, listing=listing)
        self.store = url.connect(self.url)
        self.ledger = open_for(self.url)
        self._store = store
        self._begun: dict[str, tuple[Begun, ...]] | None = None  # by lease
        self.unreachable = ""  # why the store could not be asked what other machines have begun

    def find(self, text: str) -> Run:
        """The run by its id, or by the beginning of it."""
        run = self.ledger.run(text)
        if run is None:
            hint = "give at least 4 characters of it" if len(text) < 4 else f"{self.command('runs')} lists them"
            raise UsageError(f"there is no run {printable(text)!r}: {hint}")
        return run

    def state(self, run: Run) -> str:
        """As a person should see it, also when another machine has decided and this ledger has not heard of it."""
        state = lapse.state_of(run, self.ledger, self.store)
        if state in ASKING and self.store.lists_begun and not any(one.key == run.key for one in self.begun(run.job)):
            try:
                decided = begun.decision(self.store, self.ledger, run)
            except StoreUnreachable:
                return state
            return begun.outcome(decided)[0] if decided else state
        return state

    def begun(self, job: str) -> tuple[Begun, ...]:
        """Keys that were begun under the job's lease and have not ended, as far as the store lists and shows them."""
        if self._begun is None:
            self._begun = {}
            try:
                records = self.store.records() if self.store.lists_begun else ()
                now = self.store.clock()
                self._begun = {record.name: lapse.left_behind(record, now) for record in records if record.begun}
            except StoreUnreachable as unreachable:
                self.unreachable = str(unreachable)
        return self._begun.get(job, ())

    def elsewhere(self) -> list[tuple[str, Begun]]:
        """(job, entry): what other machines have left behind and this ledger does not know, the newest of each key."""
        self.begun("")
        found = {(job, one.key): one for job, entries in (self._begun or {}).items() for one in entries}
        return [(job, one) for (job, _), one in found.items() if not self._known(job, one)]

    def _known(self, job: str, one: Begun) -> bool:
        run = self.ledger.find(job, one.key)
        return run is not None and (
            run.state in states.ASKING or any(attempt.token == one.token for attempt in self.ledger.attempts(run.id))
        )

    def command(self, *words: str) -> str:
        """A command as it can be typed."""
        return command(self._store, *words)

    def next(self, run: Run, state: str) -> str:
        """What to type about a run."""
        if unsealed.waits(run):
            return self.command("retry", run.id)
        if state in ASKING:
            # A batch that died is to be started again: it knows of each item what became of it.
            return (state == lapse.LAPSED and self.batch(run)) or self.command("resolve", run.id)
        if state == states.RUNNING:
            return self.command("logs -f", run.id)
        if state == states.WAITING:
            return self.start(run) if is_overdue(run) else self.command("retry", run.id)
        return self.command("show", run.id)

    def start(self, run: Run) -> str:
        """How another attempt is started. The command's own words are not repeated: their quoting is not recorded. Of
        a batch it is."""
        return self.batch(run) or self.command("run", screen.quoted(run.job), "--key", screen.quoted(run.key), "-- …")

    def batch(self, run: Run) -> str:
        """How a batch is started again, "" if the run is none."""
        again = [entry.facts["again"] for entry in self.ledger.entries(run.id) if entry.kind == "batch"]
        return printable(again[-1]) if again else ""

    def rows(self, seen: list[tuple[Run, str]], first: list[list[str]] | None = None) -> list[str]:
        """One line a run, ending in the command to type; before them what else is to stand in the same columns."""
        cells = [*(first or ())] + [
            [state, run.job, key_of(run), _when(run, state), note_of(run, state), self.next(run, state)]
            for run, state in seen
        ]
        return screen.columns(cells, elastic=(2, 4), colours=[colour_of(row[0]) for row in cells])


def existing(store: str | None, *, listing: bool = False) -> str:
    """The URL of a store that is there. To list what is in the default one that nobody has used yet is no error."""
    where = url.resolve(store or store_of_run())
    file, ledger = place.files(where) if url.ledger_of(where) == url.BESIDE else ("", "")
    if not file or os.path.exists(ledger):
        return where
    if os.path.exists(file):
        url.connect(where).id  # noqa: B018 - a file that is no store is refused before a ledger is made beside it
        return where
    sqlite_presence.expect(file)
    named = "--store" if store else url.ENV if os.environ.get(url.ENV) else ""
    yet = f", which {named} names: is that what you meant?" if named else " yet."
    first = f"The first run makes it: {command(store, 'run NAME -- CMD …')}; all commands: nightlatch --help"
    error = NoStore(f"there is no store at {printable(file)}{yet} {first}")
    if listing and not named:
        error.exit_code = 0
    raise error


def command(store: str | None, *words: str) -> str:
    """As it can be typed, about the store that `--store` named."""
    return " ".join(["nightlatch", *(["--store", shlex.quote(without_password(store))] if store else []), *words])


def who() -> str:
    """Who is deciding, for the journal."""
    return f"{identity.user()}@{identity.host()}"


def undecidable(error: RunEnded) -> Error:
    """What cannot be decided: 76 when it waits for a person in another way, else 64."""
    return error if states.needs_person(error.run.state) else UsageError(str(error))


def since_of(text: str | None) -> float | None:
    return None if text is None else clock.wall() - duration.parse(text, what="--since")


def colour_of(state: str) -> str:
    return _COLOURS.get(state, screen.BOLD)


def title(run: Run) -> str:
    return f"run {run.id} of {printable(run.job)}"


def key_of(run: Run) -> str:
    return "by hand" if run.key.startswith(BY_HAND) else printable(run.key)


def note_of(run: Run, state: str) -> str:
    """The one thing to know: why it ended, or how far it is, or what it cost."""
    if state == lapse.LAPSED:
        return f"its holder {printable(str(run.holder))} is gone"
    if run.state == states.RUNNING:
        asked = f"cancel asked by {printable(run.cancel)}" if run.cancel else ""
        return ", ".join(filter(None, (progress_of(run), asked)))
    if run.state in states.OPEN:
        return f"before: {printable(run.reason)}" if run.reason else ""
    return printable(run.reason) or run.usage.show()


def is_overdue(run: Run) -> bool:
    """Should its next try have been made by now? Its supervisor is gone, or cannot: somebody has to start it."""
    return run.state == states.WAITING and retry.is_due(run.due, clock.wall() - _LATE)


def progress_of(run: Run) -> str:
    if not (run.done or run.total or run.message):
        return ""
    far = f"{run.done}/{run.total}" if run.total else str(run.done)
    return f"{far} {printable(run.message)}".rstrip()


def _when(run: Run, state: str) -> str:
    if state == states.RUNNING and run.started is not None:
        return f"for {duration.show(max(clock.wall() - run.started, 1))}"
    if state == states.WAITING and run.due is not None:
        return f"due {screen.until(run.due)}"
    return screen.ago(run.changed)


def facts(run: Run, state: str) -> dict[str, object]:
    """A run as JSON has it: times in seconds since the epoch, the state as it is shown."""
    return {
        "version": 1,
        "run": run.id,
        "job": run.job,
        "key": run.key,
        "slot": run.slot,
        "state": state,
        "attempt": run.attempt,
        "token": run.token,
        "holder": str(run.holder) if run.attempt else "",
        "host": run.host,
        "command": run.command,
        "cancel": run.cancel,
        "exit_code": run.exit_code,
        "reason": run.reason,
        "created": run.created,
        "changed": run.changed,
        "started": run.started,
        "ended": run.ended,
        "due": run.due,
        "elapsed": run.elapsed,
        "progress": {"done": run.done, "total": run.total, "message": run.message},
        "usage": run.usage.by_unit(),
        "head": run.anchor,
    }


def attempt_facts(attempt: Attempt) -> dict[str, object]:
    return {
        "attempt": attempt.attempt,
        "token": attempt.token,
        "holder": str(attempt.holder),
        "state": attempt.state,
        "exit_code": attempt.exit_code,
        "reason": attempt.reason,
        "started": attempt.started,
        "ended": attempt.ended,
        "elapsed": attempt.elapsed,
    }


def entry_facts(entry: Entry) -> dict[str, object]:
    return {"at": entry.at, "chain": entry.chain, "seq": entry.seq, "kind": entry.kind, "facts": entry.facts}


def print_json(facts: dict[str, object]) -> None:
    import json

    print(json.dumps(facts))  # ASCII only: what a command reported stays harmless here too
