"""The journal as its readers use it, and notes that need no lease: refusals, lapses, what a person did."""

from __future__ import annotations

from ..errors import LeaseLost, RunEnded, StaleToken, StoreUnreachable
from . import kinds
from .chain import job_chain
from .kinds import RARE
from .outline import outline
from .records import ENTRY, Entry, RunRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .audit import AuditResult
    from .journal_reader import JournalReader
    from .tables import Tables

_NO_END = 32_503_680_000.0  # later than any entry
_LENGTH = "SELECT seq FROM {prefix}chain WHERE name = :name"


class Journal:
    """Made by `Ledger.journal`."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def of_run(self, run_id: str) -> Iterator[Entry]:
        """The entries of a run's chain, in order."""
        return self._entries(run_id, 0.0)

    def of_job(self, job: str, since: float = 0.0) -> Iterator[Entry]:
        """The entries of a job's chain since then, in order: runs opened and ended, and what people decided."""
        return self._entries(job_chain(job), since)

    def _entries(self, chain: str, since: float) -> Iterator[Entry]:
        sql = f"{ENTRY.select} WHERE chain = :chain AND at >= :since ORDER BY seq"
        return map(ENTRY.read, self._tables.read(sql, chain=chain, since=round(since * 1000)))

    def newest(self, chain: str, kind: str, *, most: int = 1) -> list[Entry]:
        """The newest entries of that kind on a chain, the newest first."""
        of_kind = "WHERE chain = :chain AND kind = :kind ORDER BY seq DESC LIMIT :most"
        return self._tables.select(ENTRY, of_kind, chain=chain, kind=kind, most=most)

    def rare_entries(
        self, *kinds: str, job: str | None = None, since: float = 0.0, until: float = _NO_END, most: int = 1000
    ) -> list[Entry]:
        """Rare entries, such as refusals and people's decisions, the newest first; of these kinds, or of all."""
        values: dict[str, object] = {f"kind{number}": kind for number, kind in enumerate(kinds)}
        which = f" AND kind IN ({', '.join(f':{name}' for name in values)})" if kinds else ""
        if job:  # not as a plain comparison: without statistics a database would walk a busy job's whole chain
            which, values = f"{which} AND chain || '' = :chain", values | {"chain": job_chain(job)}
        values |= {"since": round(since * 1000), "until": round(until * 1000), "most": most}
        condition = f"WHERE at >= :since AND at < :until AND {RARE}{which} ORDER BY at DESC LIMIT :most"
        return self._tables.select(ENTRY, condition, **values)

    def page(self, chain: str, *, before: int = 1 << 62, most: int = 100) -> list[Entry]:
        """Entries of a chain before entry `before`, the newest first; as fast in a long chain as in a short one."""
        newest = "WHERE chain = :chain AND seq < :before ORDER BY seq DESC LIMIT :most"
        return self._tables.select(ENTRY, newest, chain=chain, before=before, most=most)

    def length(self, job: str) -> int:
        """How long a job's chain is: it grows with every run that ends, and with what people decide about the job."""
        rows = self._tables.read(_LENGTH, name=job_chain(job))
        return int(rows[0][0]) if rows else 0

    def outline(self, run_id: str) -> list[Entry]:
        """A run's journal in order; of a long one its beginning, the beginning of the last attempts, and its end."""
        return outline(self._tables, run_id)

    def last_link(self, run: RunRow) -> Entry | None:
        """The newest entry of the job's chain that links to the run; None if retention has removed it."""
        chain, seq, _ = run.anchor.rsplit(":", 2) if run.anchor else ("", "0", "")
        return self._tables.first(ENTRY, "WHERE chain = :chain AND seq = :seq", chain=chain, seq=int(seq))

    def last_note(self, job: str, kind: str) -> Entry | None:
        """The last note of that kind on a job's chain."""
        return next(iter(self.newest(job_chain(job), kind)), None)

    def note(self, job: str, kind: str, /, **facts: object) -> str:
        """Record an observation that needs no lease: a refusal, a lapse. Returns the head of the job's chain."""
        with self._tables.on_chain(job) as chain:
            return chain.append(kind, **facts)

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

    def reader(self, name: str) -> JournalReader:
        """The position of one reader in the journal."""
        from .journal_reader import JournalReader

        return JournalReader(self._tables, name)

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
