"""The ledger and the store that views are read from."""

from __future__ import annotations

from ..core import advice, statuses
from ..core.agent import ended_scope
from ..core.passwords import hide_password
from ..core.printable import printable
from ..database import sqlite_presence
from ..errors import StoreUnreachable, UsageError
from ..ledger import location
from ..runtime.supervisor.afterwards import lapse
from ..runtime.supervisor.run import begun
from ..store import url as stores
from ..system import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from typing import Any, TypeVar

    from ..core.model import Begun
    from ..ledger.agents import AgentRow
    from ..ledger.records import RunRow

    T = TypeVar("T")

_MEMO = 5000  # entries; a larger memo is cleared
NEEDS_DECISION = (*statuses.NEEDS_PERSON, lapse.LAPSED)


class NoStore(UsageError):
    """There is no store to read, and a reader never creates one."""


def existing(url: str) -> set[str]:
    """Which parts of a store exist: `store`, `ledger`. Raises `NoStore` if neither does."""
    areas = location.areas(url)
    if areas and "ledger" not in areas and (ledger := location.file_of(url)):
        sqlite_presence.expect_ledger(ledger)
    if areas:
        return areas
    file = location.files(url)[0] if stores.ledger_of(url) == stores.BESIDE else ""
    if file:
        sqlite_presence.expect(file)
    raise NoStore(f"there is no store at {printable(file or hide_password(url))}")


class StoreReader:
    """Reads an existing store and its ledger, and remembers some of what it read until `look_again`. Its ledger is
    read-only: a command that decides something opens one to write."""

    def __init__(self, url: str) -> None:
        areas = existing(url)
        self.url = url
        self.store = stores.connect(url)
        self.has_ledger = "ledger" in areas
        self.ledger = location.open_to_read(url) if self.has_ledger else location.empty()
        self._begun: dict[str, tuple[Begun, ...]] | None = None  # by lease
        self._acknowledged: dict[str, frozenset[tuple[str, int]]] = {}  # by job
        self.memo: dict[Hashable, tuple[float, Any]] = {}  # see `cached`
        self.unreachable = ""  # why the store could not tell what other machines have begun; "": it could

    def look_again(self) -> None:
        """Forget what was read, so that a long-lived process reads it anew."""
        self._begun, self.unreachable, self._acknowledged = None, "", {}

    def cached(self, what: Hashable, seconds: float, make: Callable[[], T]) -> T:
        """The result of `make`, which is called again only when the last result is older than `seconds`. A long-lived
        process gives all its readers the same `memo`."""
        made_at, last = self.memo.get(what, (float("-inf"), None))
        if clock.now() - made_at <= seconds:
            return last  # type: ignore[no-any-return]
        if len(self.memo) > _MEMO:
            self.memo.clear()
        result = make()
        self.memo[what] = clock.now(), result
        return result

    @property
    def ledger_is_per_machine(self) -> bool:
        return stores.ledger_of(self.url) == stores.OF_EACH_MACHINE

    def run(self, text: str) -> RunRow:
        """The run whose id is `text`, or begins with it."""
        run = self.ledger.run(text)
        if run is None:
            hint = "give at least 4 characters of it" if len(text) < 4 else f"{advice.command('runs')} lists them"
            raise UsageError(f"there is no run {printable(text)!r}: {hint}")
        return run

    def run_or_newest(self, text: str) -> RunRow:
        """The run with this id, or the newest run of the job with this name."""
        return self.ledger.run(text) or self.ledger.newest(text) or self.run(text)

    def status(self, run: RunRow) -> str:
        """The status to show. Unlike the row's, it is `lapsed` if the run's holder is gone, and it follows a decision
        that was made on another machine and is not in this ledger yet."""
        status = lapse.status_of(run, self.ledger, self.store)
        if status not in NEEDS_DECISION or not self.store.lists_begun:
            return status
        if any(one.key == run.key for one in self.begun(run.job)):
            return status
        try:
            decided = begun.decision(self.store, self.ledger, run)
        except StoreUnreachable:
            return status
        return begun.outcome(decided)[0] if decided else status

    def needs_nobody(self, run: RunRow) -> bool:
        """Has a person acknowledged the failed run, or has another machine done its key since?"""
        if run.job not in self._acknowledged:
            self._acknowledged[run.job] = self.ledger.decisions.acknowledged(run.job)
        return (run.id, run.attempt) in self._acknowledged[run.job] or self.done_elsewhere(run)

    def done_elsewhere(self, run: RunRow) -> bool:
        """Has another machine done the run's key? The store is asked only if each machine has its own ledger."""
        if not self.store.lists_begun or not statuses.may_start(run.status):
            return False
        return self._is_done(run.job, run.key)

    def ended_elsewhere(self, agent: AgentRow) -> bool:
        """Has another machine seen the agent end, although this ledger does not know?"""
        return self.store.lists_begun and self._is_done(ended_scope(agent.job), agent.launch)

    def _is_done(self, scope: str, key: str) -> bool:
        try:
            return self.store.look(scope, key) is not None
        except StoreUnreachable as unreachable:
            self.unreachable = str(unreachable)
            return False

    def works_elsewhere(self, run: RunRow) -> bool:
        """Is a holder that is not in this ledger working on the run's key?"""
        if not self.store.lists_begun:
            return False
        try:
            record = self.store.read(run.job)
            now = self.store.clock()
        except StoreUnreachable as unreachable:
            self.unreachable = str(unreachable)
            return False
        if record is None:
            return False
        left = lapse.left_behind(record, now)
        return any(one.key == run.key and one not in left for one in record.begun)

    def begun(self, job: str) -> tuple[Begun, ...]:
        """Keys that were begun under the job's lease and left behind; none if the store does not list them."""
        return self._all_begun().get(job, ())

    def elsewhere(self) -> list[tuple[str, Begun]]:
        """(job, newest entry) of each key that another machine has left behind and that this ledger does not know."""
        found = {(job, one.key): one for job, entries in self._all_begun().items() for one in entries}
        return [(job, one) for (job, _), one in found.items() if not self._is_in_ledger(job, one)]

    def _all_begun(self) -> dict[str, tuple[Begun, ...]]:
        if self._begun is None:
            self._begun = {}
            try:
                records = self.store.records() if self.store.lists_begun else ()
                now = self.store.clock()
                self._begun = {record.name: lapse.left_behind(record, now) for record in records if record.begun}
            except StoreUnreachable as unreachable:
                self.unreachable = str(unreachable)
        return self._begun

    def _is_in_ledger(self, job: str, one: Begun) -> bool:
        run = self.ledger.find(job, one.key)
        return run is not None and (
            run.status in statuses.NEEDS_PERSON
            or any(attempt.token == one.token for attempt in self.ledger.attempts(run.id))
        )
