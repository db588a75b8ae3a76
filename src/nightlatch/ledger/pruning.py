"""Retention: removes what ended long ago. Done keys stay, and so does the proof that nothing else is missing."""

from __future__ import annotations

from ..core import statuses
from ..system import clock
from . import kinds
from .chain import job_chain
from .records import ENTRY, Pruned
from .step_chain import STEPS, chains_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .tables import Tables

    Done = Callable[[str, str], bool]  # (job, key) → does the store say that it is done?

_MOST = 500  # runs in one transaction, for which other writers have to wait
_MONTH = 32 * 86_400_000  # ms; usage is kept at least this long, for caps per month

_ENDED = ", ".join(f"'{status}'" for status in statuses.TERMINAL)
_OLD = f"""
SELECT id, key, status, anchor FROM {{prefix}}run
WHERE job = :job AND status IN ({_ENDED}) AND changed < :before AND id > :after ORDER BY id LIMIT :most
"""
_ALL = f"FROM {{prefix}}run WHERE status IN ({_ENDED}) AND changed < :before"
_ALL_OLD = f"SELECT id {_ALL}"
_ENTRIES = f"""
SELECT COUNT(*) FROM {{prefix}}journal WHERE chain IN (
  {_ALL_OLD} UNION ALL SELECT '{STEPS}' || id FROM ({_ALL_OLD}) AS old
  UNION ALL SELECT '{STEPS}' || run || '#' || attempt FROM {{prefix}}attempt
  WHERE status = 'succeeded' AND run IN ({_ALL_OLD})
)
"""
# A chain whose old entries are all cuts stays as it is: removing them would add a new cut, and so on for ever. The
# first entry's time is compared first, so that only one entry is read of a chain that has no old ones.
_JOBS = f"""
SELECT job FROM {{prefix}}run WHERE status IN ({_ENDED}) AND changed < :before
UNION SELECT substr(name, 5) FROM {{prefix}}chain
WHERE (SELECT at FROM {{prefix}}journal WHERE chain = name ORDER BY seq LIMIT 1) < :before
  AND EXISTS (SELECT 1 FROM {{prefix}}journal WHERE chain = name AND at < :before AND kind <> '{kinds.CUT}')
"""
# Status and time are compared again: a run that was started again meanwhile stays.
_REMOVE = f"DELETE FROM {{prefix}}run WHERE id = :run AND status IN ({_ENDED}) AND changed < :before RETURNING id"
# The last old entry, if something newer follows it: a chain never becomes empty.
_LAST_OLD = """
SELECT seq, hash FROM {prefix}journal WHERE chain = :chain AND seq <
  (SELECT COALESCE(MIN(seq), 0) FROM {prefix}journal WHERE chain = :chain AND at >= :before)
ORDER BY seq DESC LIMIT 1
"""
# The first entry that is not old. A run linked there or later stays: an audit checks that a cut removes no young run.
_FIRST_YOUNG = "SELECT MIN(seq) FROM {prefix}journal WHERE chain = :chain AND at >= :before"
# `before` is `_SLACK` later here: a run's last link may be older than its row says, since clocks differ and a link
# waits for the chain.
_STAYING = "SELECT id, seq, head, status, anchor FROM {prefix}run WHERE job = :job AND changed < :before"
_SLACK = 86_400_000  # ms
_PUBLISHES = f"""
WHERE chain = :run AND kind IN ('{kinds.PUBLISHING}', '{kinds.PUBLISHED}', '{kinds.NOT_PUBLISHED}') ORDER BY seq
"""
_LENGTH = "SELECT COUNT(*) FROM {prefix}journal WHERE chain = :chain"
_LENGTH_UP_TO = "SELECT COUNT(*) FROM {prefix}journal WHERE chain = :chain AND seq <= :seq"
# A range whose last slot is not old stays whole.
_JOBS_WITH_SLOTS = "SELECT DISTINCT job FROM {prefix}slot_record WHERE last < :before"
_SLOTS = "DELETE FROM {prefix}slot_record WHERE job = :job AND first < :before AND last < :before RETURNING first"
_ALL_SLOTS = "SELECT COUNT(*) FROM {prefix}slot_record WHERE last < :before"
_CUT = "DELETE FROM {prefix}journal WHERE chain = :chain AND seq <= :seq RETURNING seq"


def prune(tables: Tables, keep: float, by: str, within: float, done: Done) -> Pruned:
    """Remove runs that ended over `keep` seconds ago, old entries of jobs' chains, and old slot records.

    After about `within` seconds the rest is left for the next time. A run stays if it is the only record that its work
    must not be done again (it succeeded, and its holder died before the key was `done` in the store), or of what it
    may have published before it failed.
    """
    now, started = tables.now(), clock.now()
    before = now - round(keep * 1000)
    runs: list[str] = []
    entries = 0
    for (job,) in tables.read(_JOBS, before=before):
        after: str | None = ""
        while after is not None:
            if clock.now() - started > within:
                return Pruned(runs=tuple(sorted(runs)), entries=entries, complete=False)
            page = tables.read(_OLD, job=job, before=before, after=after, most=_MOST)
            young = _first_young(tables, job, before)
            ended = [
                run
                for run, key, status, anchor in page
                if _place(anchor) < young and not _stays(tables, done, run, job, key, status)
            ]
            gone, cut = _remove(tables, job, ended, before, by)
            runs += gone
            entries += cut
            after = page[-1][0] if len(page) == _MOST else None
    with tables.database.transaction() as execute:
        execute(tables.sql("DELETE FROM {prefix}usage WHERE at < :before"), before=min(before, now - _MONTH))
        execute(tables.sql("DELETE FROM {prefix}refused_start WHERE last < :before"), before=before)
    slots = 0
    for (job,) in tables.read(_JOBS_WITH_SLOTS, before=before):
        if clock.now() - started > within:
            return Pruned(runs=tuple(sorted(runs)), entries=entries, slots=slots, complete=False)
        with tables.database.transaction() as execute:
            slots += len(execute(tables.sql(_SLOTS), job=job, before=before))
    return Pruned(runs=tuple(sorted(runs)), entries=entries, slots=slots)


def prunable(tables: Tables, keep: float, done: Done) -> Pruned:
    """What `prune` would remove now. Removes nothing."""
    before = tables.now() - round(keep * 1000)
    old = tables.read(f"SELECT id, job, key, status, anchor {_ALL}", before=before)
    young = {job: _first_young(tables, job, before) for job in {job for _, job, *_ in old}}
    staying = {
        run
        for run, job, key, status, anchor in old
        if _place(anchor) >= young[job] or _stays(tables, done, run, job, key, status)
    }
    runs = [run for run, *_ in old if run not in staying]
    entries = tables.read(_ENTRIES, before=before)[0][0]
    for run in staying:
        entries -= sum(tables.read(_LENGTH, chain=chain)[0][0] for chain in (run, *chains_of(tables.read, run)))
    for (job,) in tables.read(_JOBS, before=before):
        chain = job_chain(job)
        for seq, _ in tables.read(_LAST_OLD, chain=chain, before=before):
            entries += tables.read(_LENGTH_UP_TO, chain=chain, seq=seq)[0][0]
    slots = tables.read(_ALL_SLOTS, before=before)[0][0]
    return Pruned(runs=tuple(sorted(runs)), entries=entries, slots=slots)


def _remove(tables: Tables, job: str, ended: list[str], before: int, by: str) -> tuple[list[str], int]:
    chain_name = job_chain(job)
    with tables.on_chain(job) as chain:
        gone, entries = [], 0
        for run in ended:
            if chain(_REMOVE, run=run, before=before):
                # Chain by chain, not by a range of names: their order depends on the database's collation.
                for name in (run, *chains_of(chain, run)):
                    entries += len(chain("DELETE FROM {prefix}journal WHERE chain = :name RETURNING seq", name=name))
                chain("DELETE FROM {prefix}attempt WHERE run = :run", run=run)
                gone.append(run)
        last = chain(_LAST_OLD, chain=chain_name, before=before)
        if not gone and not last:
            return [], 0
        facts: dict[str, object] = {"runs": " ".join(gone), "by": by, "before": before}
        if last:
            seq, hash_ = last[0]
            entries += len(chain(_CUT, chain=chain_name, seq=seq))
            facts |= {"seq": seq, "hash": hash_}
            # A run that stays though its link is removed is linked in a cut instead, up to `_MOST` runs in each cut.
            staying = [
                f"{run}:{at}:{head}:{status}"
                for run, at, head, status, anchor in chain(_STAYING, job=job, before=before + _SLACK)
                if 0 < _place(anchor) <= seq
            ]
            for first in range(0, len(staying), _MOST):
                links = " ".join(staying[first : first + _MOST])
                chain.append(kinds.CUT, runs="", by=by, before=before, links=links)
        chain.append(kinds.CUT, **facts)
    return gone, entries


def _stays(tables: Tables, done: Done, run: str, job: str, key: str, status: str) -> bool:
    if status == statuses.SUCCEEDED:
        return not done(job, key)
    results = [entry.kind for entry in tables.select(ENTRY, _PUBLISHES, run=run) if not entry.facts.get("by")]
    return bool(results) and results[-1] != kinds.NOT_PUBLISHED


def _first_young(tables: Tables, job: str, before: int) -> float:
    seq = tables.read(_FIRST_YOUNG, chain=job_chain(job), before=before)[0][0]
    return float("inf") if seq is None else seq


def _place(anchor: str) -> int:
    """Where in its job's chain a run was last linked; 0: nowhere."""
    return int(anchor.rsplit(":", 2)[1]) if anchor else 0
