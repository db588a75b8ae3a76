"""Retention: what is old and over goes. Done keys stay, and so does the proof that the rest is whole."""

from __future__ import annotations

from ..core import states
from .chain import job_chain
from .model import Pruned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .tables import Tables

_MOST = 500  # runs in one transaction: writers wait no longer than that takes
_MONTH = 32 * 86_400_000  # ms; usage is kept for caps per month, however little else is

_ENDED = ", ".join(f"'{state}'" for state in states.TERMINAL)
_OLD = f"""
SELECT id FROM {{prefix}}run WHERE job = :job AND state IN ({_ENDED}) AND changed < :before ORDER BY id LIMIT :most
"""
_JOBS = f"""
SELECT job FROM {{prefix}}run WHERE state IN ({_ENDED}) AND changed < :before
UNION SELECT substr(chain, 5) FROM {{prefix}}journal WHERE chain LIKE 'job:%' AND at < :before
"""
# Compared again: a run that was started again since it was seen stays.
_REMOVE = f"DELETE FROM {{prefix}}run WHERE id = :run AND state IN ({_ENDED}) AND changed < :before RETURNING id"
# The last old entry, if something newer follows it: a chain never becomes empty.
_LAST_OLD = """
SELECT seq, hash FROM {prefix}journal WHERE chain = :chain AND seq <
  (SELECT COALESCE(MIN(seq), 0) FROM {prefix}journal WHERE chain = :chain AND at >= :before)
ORDER BY seq DESC LIMIT 1
"""
_CUT = "DELETE FROM {prefix}journal WHERE chain = :chain AND seq <= :seq RETURNING seq"


def prune(tables: Tables, keep: float, by: str) -> Pruned:
    """Remove runs that ended over `keep` seconds ago, and the journal behind a recorded head."""
    today = tables.now()
    before = today - round(keep * 1000)
    runs: list[str] = []
    entries = 0
    for (job,) in tables.read(_JOBS, before=before):
        while True:
            gone, cut = _prune_some(tables, job, before, by)
            runs += gone
            entries += cut
            if len(gone) < _MOST:
                break
    with tables.database.transaction() as execute:
        execute(tables.sql("DELETE FROM {prefix}usage WHERE at < :before"), before=min(before, today - _MONTH))
    return Pruned(runs=tuple(runs), entries=entries)


def _prune_some(tables: Tables, job: str, before: int, by: str) -> tuple[list[str], int]:
    chain_name = job_chain(job)
    with tables.on_chain(job) as chain:
        gone, entries = [], 0
        for (run,) in chain(_OLD, job=job, before=before, most=_MOST):
            if chain(_REMOVE, run=run, before=before):
                chain("DELETE FROM {prefix}attempt WHERE run = :run", run=run)
                entries += len(chain("DELETE FROM {prefix}journal WHERE chain = :run RETURNING seq", run=run))
                gone.append(run)
        last = chain(_LAST_OLD, chain=chain_name, before=before)
        if not gone and not last:
            return [], 0
        facts: dict[str, object] = {"runs": " ".join(gone), "by": by}
        if last:
            seq, hash_ = last[0]
            entries += len(chain(_CUT, chain=chain_name, seq=seq))
            facts |= {"seq": seq, "hash": hash_}
        chain.append("cut", **facts)
    return gone, entries
