"""Is the journal whole? Every chain from its first entry to its head, and every run's links in its job's chain.

Who owns the database can recompute all of it. So heads go out with log lines and alerts, and a head that
was kept elsewhere is compared: what was rewritten or cut off behind it can no longer be hidden.
"""

from __future__ import annotations

from ..core.value import value
from ..errors import UsageError
from .chain import head_text, job_chain, link, unpack
from .step_chain import STEPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from .tables import Tables

    Row = tuple[Any, ...]

_PAGE = 5000
_ELSEWHERE = "a head kept elsewhere"
_ENTRIES = """
SELECT chain, seq, at, kind, body, hash FROM {{prefix}}journal
WHERE {which} AND (chain, seq) > (:chain, :seq) ORDER BY chain, seq LIMIT :most
"""
_JOBS, _STEPS = (_ENTRIES.format(which=f"chain LIKE '{which}%'") for which in ("job:", STEPS))
_RUNS = _ENTRIES.format(which=f"chain NOT LIKE 'job:%' AND chain NOT LIKE '{STEPS}%'")
_HEADS = """
SELECT name, seq, head, '' FROM {prefix}chain WHERE :chain IN ('', name)
UNION ALL SELECT id, seq, head, CASE WHEN parent <> '' AND state = 'running' THEN '' ELSE job END
FROM {prefix}run WHERE :chain IN ('', id)
"""
_LEAVING = ("ended", "lost")  # entries of a run's chain that tell how far its steps had come
_CUTS = "SELECT chain, body FROM {prefix}journal WHERE kind = 'cut' ORDER BY chain, seq"


@value(frozen=True, kw_only=True)
class Break:
    """The first entry of a chain that is not as it was written, and what is wrong with it."""

    chain: str
    seq: int
    what: str

    def __str__(self) -> str:
        return f"entry {self.seq} of {self.chain} {self.what}"


@value(frozen=True, kw_only=True)
class Verdict:
    entries: int
    chains: int
    compared: int  # heads kept elsewhere that were found
    behind: int  # heads kept elsewhere that are older than what retention has left
    breaks: tuple[Break, ...]  # the first one of each chain that is broken, jobs' chains first


def heads(tables: Tables) -> list[str]:
    """The head of every job's chain. Kept elsewhere, they hold all that was linked there until now."""
    rows = tables.read("SELECT name, seq, head FROM {prefix}chain ORDER BY name")
    return [head_text(*row) for row in rows]


def parse_head(text: str) -> tuple[str, int, str]:
    """(chain, seq, hash) of a head; a bare hash has neither chain nor seq."""
    rest, _, hash_ = text.strip().rpartition(":")
    chain, _, seq = rest.rpartition(":")
    if len(hash_) == 64 and not hash_.strip("0123456789abcdef") and (not rest or (chain and seq.isdecimal())):
        return chain, int(seq or 0), hash_
    raise UsageError(f"{text!r} is no head: take one from `nightlatch audit head`, or head=… of a log line")


def verify(tables: Tables, kept: Iterable[str] = ()) -> Verdict:
    """Read the whole journal once. `kept` are heads that were kept elsewhere."""
    heads_kept = [parse_head(text) for text in kept]
    while True:
        cuts = tables.read(_CUTS)
        verdict = _Audit(tables, heads_kept, cuts).run()
        if not verdict.breaks or tables.read(_CUTS) == cuts:
            return verdict  # else something was pruned meanwhile, and is not missing


class _Audit:
    def __init__(self, tables: Tables, kept: list[tuple[str, int, str]], cuts: list[Row]) -> None:
        self._tables, self._kept, self._cuts = tables, kept, cuts
        self._bare = {hash_ for chain, _, hash_ in kept if not chain}
        self._points: dict[str, dict[int, list[tuple[str, str]]]] = {}  # chain → seq → (hash it must have, who says so)
        self._cut: dict[str, tuple[int, str]] = {}  # job's chain → the last entry that was pruned
        self._pruned: set[str] = set()  # runs
        self._linked: set[str] = set()  # runs
        self._breaks: dict[str, Break] = {}
        self._entries = self._chains = self._compared = self._behind = 0

    def run(self) -> Verdict:
        # Before the entries: what is written meanwhile makes a chain longer than this, never shorter.
        stand = {chain: (seq, head, job) for chain, seq, head, job in self._tables.read(_HEADS, chain="")}
        for chain, (seq, head, _) in stand.items():
            self._expect(chain, seq, head, "its head in the ledger")
        for chain, seq, hash_ in self._kept:
            if chain:
                self._expect(chain, seq, hash_, _ELSEWHERE)
        for chain, body in self._cuts:
            self._note_cut(chain, unpack(body))
        self._walk(_JOBS, stand)  # first: they say what the runs' chains must hold
        self._walk(_RUNS, stand)  # then: they say what their steps' chains must hold
        self._walk(_STEPS, stand)
        self._check_missing(stand)
        for hash_ in self._bare:
            self._break("", 0, f"is nowhere: no entry has the hash {hash_}, so the journal was cut off or rewritten")
        return Verdict(
            entries=self._entries,
            chains=self._chains,
            compared=self._compared,
            behind=self._behind,
            breaks=tuple(self._breaks.values()),
        )

    def _walk(self, sql: str, stand: dict[str, tuple[int, str, str]]) -> None:
        chain, seq, before, broken = "", 0, "", False
        for name, number, at, kind, body, hash_ in self._read(sql):
            if name != chain:
                self._end(chain, seq, stand)
                chain, broken = name, False
                seq, before = self._begin(name)
                self._chains += 1
            self._entries += 1
            if hash_ in self._bare:
                self._bare.discard(hash_)
                self._compared += 1
            if broken:
                continue
            if number != seq + 1:
                self._break(chain, seq + 1, "is missing: it was removed")
            elif link(before, chain, number, at, kind, body) != hash_:
                self._break(
                    chain, number, "is not what was written there: it, or the one before it, was changed or moved"
                )
            else:
                self._meet(chain, number, hash_)
                if sql is _JOBS:
                    self._follow(body)
                elif sql is _RUNS and kind in _LEAVING:
                    self._follow_steps(body)
            broken = chain in self._breaks
            seq, before = number, hash_
        self._end(chain, seq, stand)

    def _begin(self, chain: str) -> tuple[int, str]:
        seq, hash_ = self._cut.get(chain, (0, ""))
        points = self._points.get(chain, {})
        if seq:
            self._meet(chain, seq, hash_)
        for older in [point for point in points if point < seq]:
            self._leave(points.pop(older))
        return seq, hash_

    def _end(self, chain: str, last: int, stand: dict[str, tuple[int, str, str]]) -> None:
        """The chain is over: nothing may be wanted of it any more, and nothing may stand behind its head."""
        points = self._points.pop(chain, {})
        if not chain or chain in self._breaks:
            return
        if points:
            (_, says), *_ = points[max(points)]
            self._break(chain, last + 1, f"is missing: the chain goes on to entry {max(points)}, by {says}")
        elif chain.startswith(STEPS):
            # Its head stands in no row while the run goes on: it may be longer than anybody knows, but not alone.
            run = chain.removeprefix(STEPS).partition("#")[0]
            if run not in stand and not self._tables.read(_HEADS, chain=run):
                self._break(chain, last, f"belongs to no run: the row of {run} was removed")
        elif last > stand.get(chain, (0,))[0]:
            now = self._tables.read(_HEADS, chain=chain)  # begun, or gone on, since the heads were read?
            if not now:
                self._break(chain, last, "belongs to no run and no job: the row with its head was removed")
            elif now[0][1] < last:
                self._break(chain, now[0][1] + 1, "was put there by no writer: it stands behind the chain's head")

    def _meet(self, chain: str, seq: int, hash_: str) -> None:
        for wanted, says in self._points.get(chain, {}).pop(seq, ()):
            if wanted != hash_:
                self._break(chain, seq, f"is not what was written there: {says} has another hash")
            elif says is _ELSEWHERE:
                self._compared += 1

    def _leave(self, point: list[tuple[str, str]]) -> None:
        """Nothing is left to compare it with."""
        self._behind += sum(says is _ELSEWHERE for _, says in point)

    def _follow(self, body: str) -> None:
        """An entry of a job's chain may link to its run's chain as it stood then."""
        facts = unpack(body)
        run = facts.get("run", "")
        if "head" in facts and run not in self._pruned:
            self._linked.add(run)
            self._expect(run, int(facts["seq"]), facts["head"], "its job's chain")

    def _follow_steps(self, body: str) -> None:
        head = unpack(body).get("steps")
        if head:
            self._expect(*parse_head(head), "its run's chain")

    def _note_cut(self, chain: str, facts: dict[str, str]) -> None:
        self._pruned |= set(facts.get("runs", "").split())
        if "hash" in facts:
            self._cut[chain] = int(facts["seq"]), facts["hash"]

    def _check_missing(self, stand: dict[str, tuple[int, str, str]]) -> None:
        """Chains of which not one entry is left, and runs that their job's chain does not know: it knows those inside
        another from their end on, and `stand` names no job for them until then."""
        for chain in list(self._points):
            points = self._points.pop(chain)
            if chain.removeprefix(STEPS).partition("#")[0] in self._pruned:
                for point in points.values():
                    self._leave(point)
            elif points:
                (_, says), *_ = points[max(points)]
                self._break(chain, min(points), f"is missing, with its whole chain: {says} knows it")
        for run, (_, _, job) in stand.items():
            chain = job_chain(job)
            if job and run not in self._linked and chain not in self._cut and chain not in self._breaks:
                self._break(run, 1, f"is not linked in {chain}: that was rewritten")

    def _expect(self, chain: str, seq: int, hash_: str, says: str) -> None:
        self._points.setdefault(chain, {}).setdefault(seq, []).append((hash_, says))

    def _break(self, chain: str, seq: int, what: str) -> None:
        self._breaks.setdefault(chain, Break(chain=chain, seq=seq, what=what))

    def _read(self, sql: str) -> Iterator[Row]:
        chain, seq, full = "", 0, True
        while full:  # not until a page is empty: writers could put off that one for ever
            rows = self._tables.read(sql, chain=chain, seq=seq, most=_PAGE)
            yield from rows
            full = len(rows) == _PAGE
            if full:
                chain, seq = rows[-1][:2]
