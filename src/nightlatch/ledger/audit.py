"""Is the journal intact, and does the rest of the ledger agree with it?

Every chain is read from its first entry to its head, every run is compared with its links in its job's chain, and
every row with what follows from the journal (`replay`). The owner of the database can recompute all of it. So heads go
out with log lines and alerts: a head that was kept elsewhere shows whether an older entry was rewritten or removed.
Retention removes entries too, and records that in a `cut` (`cuts`), which is checked against the times of what it
removes, and against the heads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..core.value import value
from ..errors import UsageError
from . import cuts, kinds, row_checks
from .chain import head_text, job_chain, link, unpack
from .cuts import Cuts
from .kept_heads import KeptHead, parse_head, parse_kept
from .replay import Links, Replay
from .snapshot import Snapshot
from .step_chain import STEPS
from .tables import Tables

_PAGE = 5000  # entries in one query
_ELSEWHERE = "a head kept elsewhere"
_ENTRIES = """
SELECT chain, seq, at, kind, body, hash FROM {{prefix}}journal
WHERE {which} AND (chain, seq) > (:chain, :seq) ORDER BY chain, seq LIMIT :most
"""
_JOBS, _STEPS = (_ENTRIES.format(which=f"chain LIKE '{which}%'") for which in ("job:", STEPS))
_RUNS = _ENTRIES.format(which=f"chain NOT LIKE 'job:%' AND chain NOT LIKE '{STEPS}%'")
_HEAD = """
SELECT seq FROM {prefix}chain WHERE name = :chain UNION ALL SELECT seq FROM {prefix}run WHERE id = :chain
"""
_RUN_KINDS, _ITEM_KINDS, _EFFECT_KINDS = map(kinds.evidence_for, (kinds.RUN, kinds.ITEMS, kinds.EFFECT))


@value(frozen=True, kw_only=True)
class Break:
    """The first entry of a chain that is not as it was written, and what is wrong with it. `seq` 0: a row is wrong."""

    chain: str
    seq: int
    what: str

    def __str__(self) -> str:
        return f"entry {self.seq} of {self.chain} {self.what}" if self.seq else f"{self.chain} {self.what}"


@value(frozen=True, kw_only=True)
class AuditResult:
    entries: int
    chains: int
    compared: int  # heads kept elsewhere that were found
    behind: int  # heads kept elsewhere whose entries were pruned
    unproven: tuple[str, ...]  # chains with only such heads: no log line's time shows whether the pruning was due
    breaks: tuple[Break, ...]  # the first of each broken chain, jobs' chains first


def heads(tables: Tables) -> list[str]:
    """The head of every job's chain. Kept elsewhere, they show later whether anything linked there has changed."""
    rows = tables.read("SELECT name, seq, head FROM {prefix}chain ORDER BY name")
    return [head_text(*row) for row in rows]


def verify(tables: Tables, kept: Iterable[str] = (), keep: float | None = None) -> AuditResult:
    """Read the whole journal once. `kept` are heads that were kept elsewhere, or log lines with them.

    A cut of entries younger than `keep` seconds (None: any cut) is believed only if a head kept elsewhere is newer than
    the cut. Chains of which no head was kept are not judged by this.
    """
    heads_kept = [parse_kept(text) for text in kept]
    while True:
        found = cuts.read(tables)
        verdict = _Audit(tables, heads_kept, Cuts(found), keep).run()
        if not verdict.breaks or cuts.read(tables) == found:
            return verdict  # otherwise retention removed something meanwhile: read again


class _Audit:
    def __init__(self, tables: Tables, kept: list[KeptHead], cuts: Cuts, keep: float | None) -> None:
        self._tables, self._kept, self._cuts, self._keep = tables, kept, cuts, keep
        self._bare_hashes = {head.hash for head in kept if not head.chain}  # those that were not found yet
        self._expected: dict[str, dict[int, list[tuple[str, str]]]] = {}  # chain → seq → (expected hash, its source)
        self._links: dict[str, Links] = {}  # by run
        self._linked_in: dict[str, str] = {}  # run → job's chain
        self._effects: dict[tuple[str, str], dict[str, Any]] = {}  # by scope and key
        self._items = row_checks.ItemChecks()
        self._found: dict[str, int] = {}  # chain → number of the newest entry that a kept head confirmed
        self._breaks: dict[str, Break] = {}
        self._with_entries: set[str] = set()  # runs whose chain has entries
        self._entries = self._chains = self._compared = 0

    def run(self) -> AuditResult:
        # Read before the entries: meanwhile a chain may grow beyond its head in the snapshot, but never shrinks.
        self._snapshot = Snapshot(self._tables)
        for chain, (seq, head) in self._snapshot.heads.items():
            self._expect(chain, seq, head, "its head in the ledger")
        for kept in self._kept:
            if kept.chain:
                self._expect(kept.chain, kept.seq, kept.hash, _ELSEWHERE)
        self._walk(_JOBS)  # first: they say what the runs' chains must hold
        self._check_missing([chain for chain in self._expected if chain.startswith("job:")])
        self._check_linked()
        self._walk(_RUNS)  # then: they say what their steps' chains must hold
        self._walk(_STEPS)
        self._check_rows()
        self._check_missing(list(self._expected))
        behind, unproven = self._judge_cuts()
        for hash_ in self._bare_hashes:
            self._break(_ELSEWHERE, 0, f"is nowhere: no entry has the hash {hash_}")
        return AuditResult(
            entries=self._entries,
            chains=self._chains,
            compared=self._compared,
            behind=behind,
            unproven=unproven,
            breaks=tuple(self._breaks.values()),
        )

    def _walk(self, sql: str) -> None:
        chain, seq, before, broken = "", 0, "", False
        replay: Replay | None = None
        snapshot_seq = 0  # the chain's last entry in the snapshot
        for name, number, at, kind, body, hash_ in self._tables.in_pages(sql, _PAGE, {"chain": "", "seq": 0}):
            if name != chain:
                self._end(chain, seq, replay)
                chain, broken = name, False
                seq, before = self._begin(name)
                self._chains += 1
                snapshot_seq = self._snapshot.heads.get(name, (0, ""))[0]
                replay = self._replay(name) if sql is _RUNS else None
            self._entries += 1
            if hash_ in self._bare_hashes:
                self._bare_hashes.discard(hash_)
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
                self._compare(chain, number, hash_)
                try:
                    if sql is _JOBS:
                        self._follow(chain, number, at, kind, unpack(body), hash_, in_snapshot=number <= snapshot_seq)
                    elif replay and kind in _RUN_KINDS:
                        self._follow_steps(kind, body)
                        if number <= snapshot_seq:
                            replay.enter(number, at, kind, body)
                    elif replay and kind in _ITEM_KINDS:
                        self._items.add_entry(replay.row["job"], chain, body)
                except (LookupError, ValueError, UsageError):
                    self._break(chain, number, f"is not what was written there: no {kind!r} of ours has these facts")
            broken = chain in self._breaks
            seq, before = number, hash_
        self._end(chain, seq, replay)

    def _begin(self, chain: str) -> tuple[int, str]:
        cut = self._cuts.newest.get(chain)
        if not cut:
            return 0, ""
        self._compare(chain, cut.last, cut.hash)
        expected = self._expected.get(chain, {})
        for older in [seq for seq in expected if seq < cut.last]:
            del expected[older]  # the cut removed that entry
        return cut.last, cut.hash

    def _end(self, chain: str, last: int, replay: Replay | None) -> None:
        """After a chain's last entry: all expected entries must have been met, and none may follow its head."""
        expected = self._expected.pop(chain, {})
        if not chain or chain in self._breaks:
            return
        if expected:
            (_, source), *_ = expected[max(expected)]
            self._break(chain, last + 1, f"is missing: the chain goes on to entry {max(expected)}, says {source}")
        elif chain.startswith(STEPS):
            # While the run goes on, no row has this chain's head: its length cannot be checked, but its run must exist.
            run = chain.removeprefix(STEPS).partition("#")[0]
            if run not in self._snapshot.runs and not self._tables.read(_HEAD, chain=run):
                self._break(chain, last, f"belongs to no run: the row of {run} was removed")
        elif last > self._snapshot.heads.get(chain, (0, ""))[0]:
            now = self._tables.read(_HEAD, chain=chain)  # the chain may have begun or grown since the snapshot
            if not now:
                self._break(chain, last, "belongs to no run and no job: the row with its head was removed")
            elif now[0][0] < last:
                self._break(chain, now[0][0] + 1, "was put there by no writer: it follows the chain's head")
        if replay and chain not in self._breaks:
            replay.finish()
            self._report(row_checks.check_run(self._tables, self._snapshot, chain, replay))

    def _compare(self, chain: str, seq: int, hash_: str) -> None:
        for wanted, source in self._expected.get(chain, {}).pop(seq, ()):
            if wanted != hash_:
                self._break(chain, seq, f"is not what was written there: {source} has another hash")
            elif source is _ELSEWHERE:
                self._compared += 1
                self._found[chain] = max(seq, self._found.get(chain, 0))

    def _follow(
        self, chain: str, seq: int, at: int, kind: str, facts: dict[str, str], hash_: str, *, in_snapshot: bool
    ) -> None:
        """Take in an entry of a job's chain: a link to a run's head, a cut, or the status of an effect or of items."""
        run = facts.get("run", "")
        if "head" in facts:
            self._expect(run, int(facts["seq"]), facts["head"], "its job's chain")
        if kind == kinds.CUT:
            self._follow_cut(chain, seq, facts)
        elif run and ("head" in facts or kind == kinds.CANCEL_REQUESTED):
            self._linked_in[run] = chain
            if in_snapshot:
                self._links.setdefault(run, Links()).add(at, kind, facts, head_text(chain, seq, hash_))
        elif in_snapshot and kind in _EFFECT_KINDS:
            self._effects[facts["scope"], facts["key"]] = row_checks.effect_row(facts)
        elif kind in _ITEM_KINDS:
            self._items.add(chain.removeprefix("job:"), "", facts["status"], facts["keys"])

    def _follow_cut(self, chain: str, seq: int, facts: dict[str, str]) -> None:
        cut = self._cuts.at(chain, seq)  # `_walk` reports a KeyError
        for run in cut.runs:
            links = self._links.get(run)
            if links and links.at >= cut.before and self._linked_in[run] == chain:
                self._break(chain, seq, f"removes {run}, which is younger than the retention that it names")
        for text in facts.get("links", "").split():
            run, place, head, status = text.split(":")
            self._expect(run, int(place), head, "its job's chain")
            self._linked_in[run] = chain
            self._links.setdefault(run, Links()).carry(cut.before, int(place), status)

    def _follow_steps(self, kind: str, body: str) -> None:
        """Some entries name the head of the run's steps at that time."""
        head = unpack(body).get("steps") if "steps" in kinds.ROWS[kind].fields[kinds.RUN] else None
        if head:
            self._expect(*parse_head(head), "its run's chain")

    def _replay(self, run: str) -> Replay | None:
        self._with_entries.add(run)
        row = self._snapshot.runs.get(run)
        if not row:
            return None
        links = self._links.get(run) or Links()
        return Replay(links, whole=links.whole or job_chain(row["job"]) not in self._cuts.newest)

    def _check_linked(self) -> None:
        """Every run must be in its job's chain; a nested run, once it has ended."""
        for run, row in self._snapshot.runs.items():
            chain, nested_and_running = job_chain(row["job"]), row["parent"] and row["status"] == "running"
            if not nested_and_running and self._linked_in.get(run) != chain and chain not in self._breaks:
                self._break(run, 1, f"is not linked in {chain}: that was rewritten")

    def _check_rows(self) -> None:
        broken = set(self._breaks)
        cut = {chain.removeprefix("job:") for chain in (*self._cuts.newest, *broken)}
        effects = {place: row for place, row in self._effects.items() if job_chain(place[0]) not in broken}
        self._report(row_checks.check_effects(self._snapshot, effects, cut))
        self._report(self._items.check(self._tables, self._snapshot, broken))
        self._report(row_checks.check_tally(self._tables))

    def _report(self, wrong: Iterator[tuple[str, str]]) -> None:
        for name, what in wrong:
            self._break(name, 0, what)

    def _check_missing(self, chains: list[str]) -> None:
        """Report expected chains that have no entry left, unless they were pruned."""
        for chain in chains:
            expected = self._expected.pop(chain)
            if expected and not self._was_pruned(chain):
                (_, source), *_ = expected[max(expected)]
                self._break(chain, min(expected), f"is missing, with its whole chain: {source} knows it")

    def _was_pruned(self, chain: str) -> bool:
        """Does a cut name the chain's run, and is nothing of that run left?"""
        run = chain.removeprefix(STEPS).partition("#")[0]
        named = self._cuts.names(run, self._linked_in.get(run))
        return named and not run.startswith("job:") and run not in self._snapshot.runs and run not in self._with_entries

    def _judge_cuts(self) -> tuple[int, tuple[str, ...]]:
        """Report cuts that the kept heads disprove; returns `behind` and `unproven` of the result."""
        behind, unproven = 0, []
        for head in self._kept:
            cuts = self._cuts.behind(head)
            if not cuts and (not head.chain or head.chain.startswith("job:") or not self._was_pruned(head.chain)):
                continue
            behind += 1
            if (head.at is None or not cuts) and head.chain not in self._found and head.chain not in unproven:
                unproven.append(head.chain)
        limit = float("-inf") if self._keep is None else self._snapshot.now - self._keep * 1000
        for chain, seq, what in self._cuts.disproved(self._kept, lambda chain: self._found.get(chain, 0), limit):
            self._break(chain, seq, what)
        return behind, tuple(unproven)

    def _expect(self, chain: str, seq: int, hash_: str, source: str) -> None:
        self._expected.setdefault(chain, {}).setdefault(seq, []).append((hash_, source))

    def _break(self, chain: str, seq: int, what: str) -> None:
        self._breaks.setdefault(chain, Break(chain=chain, seq=seq, what=what))
