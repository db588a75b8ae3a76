"""The ledger as everybody but a run's writer uses it: look, open, seal, decide."""

from __future__ import annotations

from ..core import advice, statuses
from ..errors import LeaseLost, RunEnded, StaleToken, StoreUnreachable, UsageError
from . import decisions, kinds, opening, sealing, step_chain
from .chain import job_chain
from .records import ATTEMPT, ENTRY, RUN, Attempt, Entry, Pruned, RunRow, Usage, newest_runs, of_any_status
from .sealing import NO_FACTS
from .tables import Tables
from .typed_table import where

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ..core.model import Holder
    from ..database.postgres import PostgresDatabase
    from ..database.sqlite import SqliteDatabase
    from .agents import Agents
    from .audit import AuditResult
    from .effects import Effects
    from .history import History
    from .holds import Holds
    from .items import Items
    from .journal_reader import JournalReader
    from .nested import NestedLedger
    from .outbox import Outbox
    from .refused_starts import RefusedStarts
    from .slots import Slots
    from .step_log import StepLog, StepWriter
    from .writer import Writer

_MOMENT = 2.0  # seconds that a supervisor waits for the database to answer
_SHORT = 4  # the fewest characters of an id that may name its run
_NEWEST = f"{RUN.select} WHERE job = :job AND parent = '' ORDER BY changed DESC, id LIMIT 1"
_OF_KIND = "WHERE chain = :chain AND kind = :kind ORDER BY seq DESC LIMIT :most"
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
                raise RunEnded(f"{decisions.title(run)} is {run.status}: nobody left it behind", run)
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

    def runs(
        self,
        job: str | None = None,
        status: str | None = None,
        since: float | None = None,
        until: float | None = None,
        limit: int = 1000,
    ) -> Iterator[RunRow]:
        """Runs whose status changed at or after `since`, and before `until`, the newest change first."""
        which = {name: text for name, text in (("job", job), ("status", status)) if text}
        times = {"since": _ms(since)} | ({} if until is None else {"until": _ms(until)})
        within = ["changed >= :since", *([] if until is None else ["changed < :until"])]
        by = list(which)
        if job and status and statuses.is_terminal(status):
            # Many runs have this status, and few of them are the job's: SQLite, which keeps no statistics, must not use
            # the index of statuses.
            by, within = ["job"], [*within, f"{'' if self.many_machines else '+'}status = :status"]
        if job:  # its newest runs and its newest nested runs: an index has each of them in order
            parts = [where(by, *within, f"parent {sign} ''") for sign in ("=", "<>")]
        elif status:
            parts = [where(by, *within)]
        else:  # of each status more runs are read than are returned, but only their ids
            ids = newest_runs("id, changed", of_any_status(*within))
            parts = [where((), f"id IN (SELECT id FROM ({ids}) AS newest)")]
        return map(RUN.read, self._tables.read(newest_runs(RUN.names, parts), **which, **times, most=limit))

    def newest(self, job: str) -> RunRow | None:
        """The run of a job that changed last, without nested ones."""
        return self.newest_of([job]).get(job)

    def newest_of(self, jobs: Sequence[str]) -> dict[str, RunRow]:
        """`newest` of each of these jobs that has a run."""
        found = self._tables.read_each(_NEWEST, [{"job": job} for job in jobs])
        return {job: RUN.read(rows[0]) for job, rows in zip(jobs, found, strict=True) if rows}

    def attempts(self, run_id: str) -> list[Attempt]:
        return self._tables.select(ATTEMPT, "WHERE run = :run ORDER BY attempt", run=run_id)

    def last_success(self, run_id: str) -> int:
        """The attempt of a run that succeeded last, by its own verdict or a person's; 0: none."""
        return step_chain.last_success(self._tables.read, run_id)

    def entries(self, run_id: str) -> Iterator[Entry]:
        """The run's journal, in order."""
        return self._entries(run_id)

    def job_entries(self, job: str, since: float | None = None) -> Iterator[Entry]:
        """The journal of a job's chain: runs opened and ended, and what people decided; all of it, or since then."""
        return self._entries(job_chain(job), since)

    def usage(self, job: str | None = None, since: float | None = None, *, by_day: bool = False) -> list[Usage]:
        """What was used, for each job, or for each job and day of the ledger's zone; the oldest day first."""
        from . import tally

        return tally.usage(self._tables, job, _ms(since), by_day=by_day)

    def used(self, job: str, unit: str, period: str, besides: RunRow | None = None) -> float:
        """What a job has used of a unit in the current day or month, without the newest attempt of `besides`."""
        from . import tally

        return tally.used(self._tables, job, unit, period, besides)

    def periods(self) -> dict[str, str]:
        """The names of the current day and month."""
        day, _ = self._tables.days.beginning("day")
        return {"day": day, "month": day[:7]}

    def used_by_attempt(self, run: RunRow, unit: str, period: str) -> float | None:
        """What the newest attempt of a run has used in the current period; None: all of it, as it began within it."""
        from . import tally

        return tally.used_by_attempt(self._tables, run, unit, period)

    def request_cancel(self, run_id: str, by: str, *, state: str = "") -> RunRow:
        """Ask for a run's end. One that is not running is cancelled at once; a running one's holder finds the request.

        `state`, here and below: what the person saw (`decisions.state_of`). If the run has changed since, nothing
        is done, and `RunEnded` carries the run as it is.
        """
        return self._decided(run_id, lambda run: decisions.cancel(self._tables, run, by), state)

    def set_budget(self, run: RunRow, caps: str, by: str) -> None:
        """A person sets a run's budget; its supervisor finds it within seconds."""
        decisions.set_budget(self._tables, run, caps, by)

    def budget_of(self, run_id: str) -> str:
        """The budget that a person has set for a run; "" if nobody has."""
        return decisions.budget_of(self._watching, run_id, patience=_MOMENT)

    def resolve(
        self, run_id: str, outcome: str, by: str, *, state: str = "", settle: Callable[[], object] | None = None
    ) -> RunRow:
        """A person decides how a run that is in doubt or needs attention ended: succeeded, failed or cancelled.
        `settle` is called only if no other decision was first, and before any later one."""
        return self._decided(run_id, lambda run: decisions.resolve(self._tables, run, outcome, by, settle), state)

    def retry(self, run_id: str, by: str, *, state: str = "") -> RunRow:
        """A person wants another attempt: the run is pending again."""
        return self._decided(run_id, lambda run: decisions.retry(self._tables, run, by), state)

    def hold(self, run_id: str, until: float) -> RunRow:
        """Let a run that has not begun wait for an approval; any other is returned as it is."""
        return self._decided(run_id, lambda run: decisions.hold(self._tables, run, until))

    def approve(self, run_id: str, head: str, by: str) -> RunRow:
        """A person approves the plan that has this head: the run is pending, and carries the approval."""
        return self._decided(run_id, lambda run: decisions.approve(self._tables, run, head, by))

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

    def acknowledge(self, run: RunRow, by: str) -> None:
        """Record that a person has seen how the run's newest attempt ended."""
        decisions.acknowledge(self._tables, run, by)

    def acknowledged(self, job: str) -> frozenset[tuple[str, int]]:
        """(run, attempt) of each failure of a job that a person has seen."""
        return decisions.acknowledged(self._watching, job)

    def end_waiting(self, run: RunRow, reason: str, by: str, *, person: bool) -> RunRow | None:
        """Cancel a run that waits for its next try, if it is still as it was seen; otherwise return None.

        `person`: a person cancelled it, and knows that the work is not done; after a shutdown nobody knows that yet.
        """
        return decisions.end(self._tables, run, reason, by, person=person)

    def attention(self, run_id: str, reason: str, by: str) -> RunRow:
        """Record that a run needs a person: a gate cannot be sealed, or the store has lost what it knew."""
        return self._decided(run_id, lambda run: decisions.attention(self._tables, run, reason, by))

    def note(self, job: str, kind: str, /, **facts: object) -> str:
        """Journal an observation that needs no lease: a refusal, a lapse. Returns the head of the job's chain."""
        with self._tables.on_chain(job) as chain:
            return chain.append(kind, **facts)

    def last_note(self, job: str, kind: str) -> Entry | None:
        """The last note of that kind on a job's chain."""
        return self._last(job_chain(job), kind)

    def tries(self, run: RunRow) -> int:
        """How many tries of a waiting run were made, 0 for any other run; a person's `retry` starts the count again."""
        ended = self._last(run.id, kinds.ENDED) if run.status == statuses.WAITING else None
        return int(ended.facts.get("tries", 1)) if ended else 0

    def attempts_since_retry(self, run: RunRow) -> int:
        """How many attempts of a run were made since a person's last `retry`."""
        recent = self._tables.select(ENTRY, _OF_KIND, chain=job_chain(run.job), kind=kinds.RETRIED, most=50)
        before = next((entry.facts["attempt"] for entry in recent if entry.facts["run"] == run.id), 0)
        return run.attempt - int(before)

    def clock(self) -> float:
        """The wall clock that all users of the ledger share, in seconds. `due` of a run is a time of this clock."""
        return self._tables.now() / 1000

    def last_link(self, run: RunRow) -> Entry | None:
        """The newest entry of the job's chain that links to the run; None if retention has removed it."""
        chain, seq, _ = run.anchor.rsplit(":", 2) if run.anchor else ("", "0", "")
        return self._tables.first(ENTRY, "WHERE chain = :chain AND seq = :seq", chain=chain, seq=int(seq))

    def note_refusal(
        self, job: str, run: str, attempt: int, token: int, what: str, refused: StaleToken | RunEnded | LeaseLost
    ) -> None:
        """Journal a write that came too late, for `nightlatch show` of its run. The run itself does not change, and a
        failure to write this does not hide the refusal."""
        stands = refused.current.token if isinstance(refused, StaleToken) and refused.current else None
        try:
            facts = {"run": run, "attempt": attempt, "what": what, "token": token, "stands": stands, "reason": refused}
            self.note(job, kinds.REFUSED, **facts)
        except StoreUnreachable:
            pass

    @property
    def address(self) -> str:
        """The file or URL by which another process can open the ledger; "" if that needs a secret."""
        return self._tables.database.address

    @property
    def many_machines(self) -> bool:
        """Do all machines that share the store share this ledger too?"""
        return self._tables.database.many_machines

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

    def nested_in(self, run: RunRow) -> list[RunRow]:
        """The nested runs that this attempt has begun."""
        within = ("changed >= :since", "grant_id = :grant", "id <> :id")
        parts = [where(["job"], f"parent {sign} ''", *within) for sign in ("=", "<>")]  # as in `runs`
        values = {"job": run.job, "since": _ms(run.started), "grant": run.grant, "id": run.id}
        return [one for part in parts for one in self._tables.select(RUN, part, **values)]

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

    def journal_reader(self, reader: str) -> JournalReader:
        """The position of one reader in the journal."""
        from .journal_reader import JournalReader

        return JournalReader(self._tables, reader)

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

    def heads(self) -> list[str]:
        """The head of every job's chain, to be kept elsewhere."""
        from . import audit

        return audit.heads(self._tables)

    def verify(self, heads: Iterable[str] = (), keep: float | None = 90 * 86400.0) -> AuditResult:
        """Is the journal intact, do the rows agree with it, and does it contain these heads, which were kept elsewhere?

        What was pruned although younger than `keep` seconds must be older than one of the heads.
        """
        from . import audit

        return audit.verify(self._tables, heads, keep)

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

    def _entries(self, chain: str, since: float | None = None) -> Iterator[Entry]:
        sql = f"{ENTRY.select} WHERE chain = :chain AND at >= :since ORDER BY seq"
        return map(ENTRY.read, self._tables.read(sql, chain=chain, since=_ms(since)))

    def _last(self, chain: str, kind: str) -> Entry | None:
        return self._tables.first(ENTRY, _OF_KIND, chain=chain, kind=kind, most=1)

    def _existing(self, run_id: str) -> RunRow:
        run = self.run(run_id)
        if run is None:
            raise UsageError(f"there is no run {run_id!r}: {advice.command('runs')} lists them")
        return run

    def _decided(self, run_id: str, decide: Callable[[RunRow], RunRow | None], state: str = "") -> RunRow:
        while True:  # until the run has not changed between the read and the decision
            run = self._existing(run_id)
            if state and decisions.state_of(run) != state:
                raise RunEnded(f"{decisions.title(run)} is {run.status} by now, at attempt {run.attempt}", run)
            decided = decide(run)
            if decided:
                return decided


def _ms(since: float | None) -> int:
    return round((since or 0) * 1000)
