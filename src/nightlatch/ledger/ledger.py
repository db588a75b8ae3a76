"""The ledger as everybody but a run's writer uses it: open a run, seal it, look at it; and the way to everything else
that a ledger knows, each in a file that is imported where it is used."""

from __future__ import annotations

from ..core import advice, statuses
from ..errors import RunEnded, UsageError
from . import kinds, opening, sealing, step_chain
from .chain import job_chain
from .records import ATTEMPT, RUN, Attempt, Pruned, RunRow
from .sealing import NO_FACTS
from .tables import Tables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..core.model import Holder
    from ..database.postgres import PostgresDatabase
    from ..database.sqlite import SqliteDatabase
    from .agents import Agents
    from .decisions import Decisions
    from .effects import Effects
    from .history import History
    from .holds import Holds
    from .items import Items
    from .journal import Journal
    from .nested import NestedLedger
    from .outbox import Outbox
    from .period_usage import PeriodUsage
    from .refused_starts import RefusedStarts
    from .slots import Slots
    from .step_log import StepLog, StepWriter
    from .writer import Writer

_SHORT = 4  # the fewest characters of an id that may name its run
_NEWEST = f"{RUN.select} WHERE job = :job AND parent = '' ORDER BY changed DESC, id LIMIT 1"
_COUNT = "UPDATE {prefix}run SET uncounted = '' WHERE id = :id"


def _always(job: str, key: str) -> bool:
    return True


class Ledger:
    """What happened. Only `seal`, which makes the run's writer, and `reap` need a token."""

    def __init__(
        self, database: SqliteDatabase | PostgresDatabase, watching: SqliteDatabase | PostgresDatabase
    ) -> None:
        self._tables = Tables(database)
        self._watching = Tables(watching)  # so that readers do not wait for a transaction of this process

    @property
    def id(self) -> str:
        """A random id, made with the ledger."""
        return self._tables.database.identity()

    def open_run(
        self,
        job: str,
        key: str,
        *,
        slot: str = "",
        command: str = "",
        definition: str = "",
        host: str = "",
        again: bool = False,
        new: bool = False,
        lazy: bool = False,
        seen: RunRow | None = None,
    ) -> RunRow:
        """The run of (job, key): a new one, pending, or the existing one.

        An existing run that ended without success becomes pending again, for its next attempt; with `again` also
        one that succeeded. All others are returned unchanged. `new`: the caller has just looked and found no run.
        `lazy`: a new run need not be on the disk yet, since the caller seals it next. `seen`: the run as the caller
        found it; if it was to begin then and is cancelled since, it is returned as it is, too.
        """
        return opening.open_run(
            self._tables, job, key, slot=slot, command=command, definition=definition, host=host, again=again, new=new,
            lazy=lazy, seen=seen,
        )  # fmt: skip

    def seal(
        self,
        run_id: str,
        *,
        token: int,
        grant: str,
        holder: Holder,
        lost: str = "again",
        command: str = "",
        definition: str = "",
        facts: Mapping[str, str] = NO_FACTS,
        seen: RunRow | None = None,
    ) -> Writer:
        """Begin the next attempt, as the run's one writer: older grants are refused from now on.

        Raises `StaleToken` if the run has a newer token; `RunEnded`, with the run as it is, if it is
        not open (any more): done, cancelled, or waiting for a person. An attempt that its holder left
        behind is marked lost; with lost="doubt" the run is in doubt then, and that raises `RunEnded`.
        Sealing again with the same grant, after a lost reply or with a raised token, does not begin another attempt.
        `facts`: what else the entry about the start records. `seen`: the run as the caller has just read it.
        """
        from .writer import Writer

        while True:
            run, seen = seen or self._existing(run_id), None
            sealing.judge(self.id, run, token, grant)
            left_behind = run.status == statuses.RUNNING and run.grant != grant
            if left_behind and lost == "doubt":
                ended = sealing.reap(self._tables, run, token, grant, statuses.IN_DOUBT)
                if ended:
                    raise RunEnded(sealing.why_closed(ended), ended)
                continue
            mine = run.status == statuses.RUNNING and (run.token, run.grant) == (token, grant)
            at = self._tables.now()
            skew = at / 1000 - self._tables.local_now()
            sealed = (
                run if mine else sealing.take(self._tables, run, token, grant, holder, command, definition, at, facts)
            )
            if sealed:
                return Writer(self._tables, self._watching, sealed, lost=left_behind, skew=skew)

    def reap(self, run_id: str, *, token: int, grant: str, doubt: bool = False) -> RunRow:
        """End an attempt that its holder left behind, as lost or in doubt, without starting another.

        For the lease's present holder, with its `token` and `grant`. Raises as `seal` does.
        """
        status = statuses.IN_DOUBT if doubt else statuses.LOST
        while True:
            run = self._existing(run_id)
            sealing.judge(self.id, run, token, grant)
            if run.status != statuses.RUNNING or run.grant == grant:
                raise RunEnded(f"{run.title} is {run.status}: nobody left it behind", run)
            ended = sealing.reap(self._tables, run, token, grant, status)
            if ended:
                return ended

    def run(self, run_id: str) -> RunRow | None:
        """The run by its id, or by an unambiguous beginning of its id."""
        found = self._tables.select(RUN, "WHERE id = :id", id=run_id)
        if not found and len(run_id) >= _SHORT and run_id.isalnum():
            found = self._tables.select(RUN, "WHERE id LIKE :beginning ORDER BY id LIMIT 2", beginning=run_id + "%")
            if len(found) > 1:
                raise UsageError(
                    f"several runs begin with {run_id!r}: {found[0].id}, {found[1].id} … Give one more digit"
                )
        return found[0] if found else None

    def find(self, job: str, key: str) -> RunRow | None:
        return opening.find(self._tables, job, key)

    def newest(self, job: str) -> RunRow | None:
        """The run of a job that changed last, without nested ones."""
        return self.newest_of([job]).get(job)

    def newest_of(self, jobs: Sequence[str]) -> dict[str, RunRow]:
        """`newest` of each of these jobs that has a run."""
        found = self._tables.read_for_each(jobs, _NEWEST)
        return {job: RUN.read(rows[0]) for job, rows in zip(jobs, found, strict=True) if rows}

    def attempts(self, run_id: str) -> list[Attempt]:
        return self._tables.select(ATTEMPT, "WHERE run = :run ORDER BY attempt", run=run_id)

    def last_success(self, run_id: str) -> int:
        """The attempt of a run that succeeded last, by its own verdict or a person's; 0: none."""
        return step_chain.last_success(self._tables.read, run_id)

    def held(self, job: str) -> list[RunRow]:
        """The runs of a job that wait for an approval."""
        return self._tables.select(RUN, "WHERE job = :job AND held IS NOT NULL ORDER BY changed", job=job)

    def uncounted(self, job: str) -> list[RunRow]:
        """Ended runs that their job's row may not have counted yet."""
        return self._tables.select(RUN, "WHERE job = :job AND uncounted <> '' ORDER BY changed", job=job)

    def count(self, run_id: str) -> None:
        """Record that the job's row has counted the run's end."""
        with self._tables.database.transaction() as execute:
            execute(self._tables.sql(_COUNT), id=run_id)

    def tries(self, run: RunRow) -> int:
        """How many tries of a waiting run were made, 0 for any other run; a person's `retry` starts the count again."""
        ended = self.journal.newest(run.id, kinds.ENDED) if run.status == statuses.WAITING else []
        return int(ended[0].facts.get("tries", 1)) if ended else 0

    def attempts_since_retry(self, run: RunRow) -> int:
        """How many attempts of a run were made since a person's last `retry`."""
        recent = self.journal.newest(job_chain(run.job), kinds.RETRIED, most=50)
        before = next((entry.facts["attempt"] for entry in recent if entry.facts["run"] == run.id), 0)
        return run.attempt - int(before)

    def clock(self) -> float:
        """The wall clock that all users of the ledger share, in seconds. `due` of a run is a time of this clock."""
        return self._tables.now() / 1000

    @property
    def address(self) -> str:
        """The file or URL by which another process can open the ledger; "" if that needs a secret."""
        return self._tables.database.address

    @property
    def many_machines(self) -> bool:
        """Do all machines that share the store share this ledger too?"""
        return self._tables.database.many_machines

    @property
    def journal(self) -> Journal:
        """What is recorded of runs and jobs, in order."""
        from .journal import Journal

        return Journal(self._tables)

    @property
    def decisions(self) -> Decisions:
        """What people decide and observers find about runs."""
        from .decisions import Decisions

        return Decisions(self._tables, self._watching, self._existing)

    @property
    def period_usage(self) -> PeriodUsage:
        """What jobs have used in the current day or month."""
        from .period_usage import PeriodUsage

        return PeriodUsage(self._tables)

    @property
    def items(self) -> Items:
        """Batches' items, each in the scope of its batch's name."""
        from .items import Items

        return Items(self._tables)

    @property
    def step_log(self) -> StepLog:
        """Runs' steps, a chain for each run."""
        from .step_log import StepLog

        return StepLog(self._tables)

    def step_writer(self, run: RunRow) -> StepWriter:
        """For a process of the run that writes to the ledger directly: appends steps behind the run's fence."""
        from .step_log import StepWriter

        return StepWriter(self._tables, run, self._tables.skew())

    def nested_runs(self, run: RunRow) -> NestedLedger:
        """Begins and ends runs nested in this one, under its grant."""
        from .nested import NestedLedger

        return NestedLedger(self._tables, run)

    @property
    def refused_starts(self) -> RefusedStarts:
        from .refused_starts import RefusedStarts

        return RefusedStarts(self._tables)

    @property
    def slots(self) -> Slots:
        """What became of the jobs' slots."""
        from .slots import Slots

        return Slots(self._tables)

    @property
    def history(self) -> History:
        """Queries over many runs."""
        from .history import History

        return History(self._tables)

    @property
    def outbox(self) -> Outbox:
        """Alerts: what is to be sent, and which process sends it."""
        from .outbox import Outbox

        return Outbox(self._tables)

    @property
    def effects(self) -> Effects:
        """What was done to the outside world, and what is in doubt."""
        from .effects import Effects

        return Effects(self._tables)

    @property
    def agents(self) -> Agents:
        """Agents that runs launched at a vendor."""
        from .agents import Agents

        return Agents(self._tables)

    @property
    def holds(self) -> Holds:
        """Calls to models that are in flight."""
        from .holds import Holds

        return Holds(self._watching)  # so that calls do not wait for a commit that is being flushed

    def prune(
        self, keep: float, by: str, within: float = float("inf"), *, done: Callable[[str, str], bool] = _always
    ) -> Pruned:
        """Remove runs that ended over `keep` seconds ago, as far as `within` seconds allow.

        Done keys stay: they are the store's. So do effects, a batch's items, runs that wait for a person, and runs that
        succeeded and whose job and key are not `done`.
        """
        from . import pruning

        return pruning.prune(self._tables, keep, by, within, done)

    def prunable(self, keep: float, *, done: Callable[[str, str], bool] = _always) -> Pruned:
        """What `prune` would remove now."""
        from . import pruning

        return pruning.prunable(self._tables, keep, done)

    def close(self) -> None:
        """Close the connections. The next use opens them again."""
        self._tables.database.close()
        self._watching.database.close()

    def _existing(self, run_id: str) -> RunRow:
        run = self.run(run_id)
        if run is None:
            raise UsageError(f"there is no run {run_id!r}: {advice.command('runs')} lists them")
        return run
