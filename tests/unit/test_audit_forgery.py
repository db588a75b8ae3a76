"""An owner of the ledger's file recomputes its chains: heads kept from log lines find what was done.

The attacker's tools are SQL and the hash; nothing of the ledger's own verbs. On both databases.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from nightlatch.core.model import Holder
from nightlatch.ledger import kinds
from nightlatch.ledger.chain import link, pack
from nightlatch.ledger.items import ITEM
from nightlatch.ledger.ledger import Ledger
from nightlatch.ledger.records import RunRow
from nightlatch.system import clock
from tests.support.ledgers import CHAIN, ME, OTHER, begun, night, rewritten, tamper

DAY = 86400.0


def log_line(run: RunRow, at: float | None = None) -> str:
    """As in runs.log, which is kept elsewhere."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at or clock.wall()))
    return f"ts={stamp} job={run.job} run={run.id} status={run.status} head={run.anchor}"


def named(book: Ledger, *kept: str) -> str:
    return "\n".join(map(str, book.journal.verify(kept).breaks))


def forge_cut(book: Ledger, *, job: str = "job", at: int | None = None, **facts: object) -> None:
    """Append a `cut` to a job's chain, as a prune would."""
    chain = f"job:{job}"
    seq, head = book._tables.read("SELECT seq, head FROM {prefix}chain WHERE name = :chain", chain=chain)[0]
    at, body = at or int(clock.wall() * 1000), pack(facts)
    hash_ = link(head, chain, seq + 1, at, "cut", body)
    tamper(book, "INSERT INTO {prefix}journal VALUES (:chain, :seq, :at, 'cut', :body, :hash)",
           chain=chain, seq=seq + 1, at=at, body=body, hash=hash_)  # fmt: skip
    tamper(book, "UPDATE {prefix}chain SET seq = :seq, head = :hash WHERE name = :chain",
           chain=chain, seq=seq + 1, hash=hash_)  # fmt: skip


def ago(seconds: float) -> int:
    return int((clock.wall() - seconds) * 1000)


def remove_run(book: Ledger, run: RunRow) -> None:
    for table, column in (("journal", "chain"), ("run", "id"), ("attempt", "run"), ("usage", "run")):
        tamper(book, f"DELETE FROM {{prefix}}{table} WHERE {column} = :run", run=run.id)


def change_run(book: Ledger, run: RunRow) -> None:
    tamper(book, "UPDATE {prefix}journal SET body = 'number=9' WHERE chain = :run AND seq = 4", run=run.id)
    rewritten(book, run.id)


RETENTIONS: dict[str, dict[str, Any]] = {"none": {}, "old": {"before": ago(100 * DAY)}, "now": {"before": ago(-60)}}


@pytest.mark.parametrize("before", RETENTIONS)
@pytest.mark.parametrize("forgery", [change_run, remove_run])
def test_a_forged_cut_neither_hides_a_changed_run_nor_a_removed_one(book, forgery, before):
    run, other = night(book, "1"), night(book, "2")
    kept = [log_line(run), log_line(other)]
    assert not named(book, *kept)
    forgery(book, run)
    forge_cut(book, runs=run.id, by="cron@here", **RETENTIONS[before])
    assert named(book, *kept)


def test_a_run_whose_row_is_still_there_was_not_pruned(book):
    run, _ = night(book, "1"), night(book, "2")
    tamper(book, "DELETE FROM {prefix}journal WHERE chain = :run", run=run.id)
    forge_cut(book, runs=run.id, by="cron@here", before=ago(-60))
    assert run.id in named(book)


def test_a_forged_cut_of_another_job_exempts_neither_a_run_nor_a_chain(book):
    run, other = night(book, "1"), night(book, "2", job="other")
    kept = [log_line(run), log_line(other)]
    remove_run(book, run)
    for sql in ("DELETE FROM {prefix}journal WHERE chain = :chain", "DELETE FROM {prefix}chain WHERE name = :chain"):
        tamper(book, sql, chain=CHAIN)
    forge_cut(book, job="other", runs=f"{run.id} {CHAIN}", by="cron@here", before=ago(100 * DAY))
    assert CHAIN in named(book, *kept)


@pytest.mark.parametrize("before", RETENTIONS)
def test_a_forged_cut_does_not_take_the_beginning_of_a_jobs_chain_away(book, before):
    runs = [night(book, str(number)) for number in range(4)]
    kept = [log_line(run) for run in runs]
    last = list(book.journal.of_job("job"))[-2]  # the newest run was opened there; all before it goes
    for run in runs[:3]:
        remove_run(book, run)
    tamper(book, "DELETE FROM {prefix}journal WHERE chain = :chain AND seq < :seq", chain=CHAIN, seq=last.seq)
    head = runs[2].anchor.rsplit(":", 1)[1]
    forge_cut(book, runs=" ".join(run.id for run in runs[:3]), by="cron@here", seq=last.seq - 1, hash=head,
              **RETENTIONS[before])  # fmt: skip
    assert named(book, *kept)


def test_a_cut_that_removes_more_than_its_retention_is_named_without_any_kept_head(book):
    run, _ = night(book, "1"), night(book, "2")
    remove_run(book, run)
    forge_cut(book, runs=run.id, by="cron@here", before=ago(DAY))
    assert "younger" in named(book)


def prune_until(book: Ledger, monkeypatch: pytest.MonkeyPatch, moment: float) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(book._tables, "now", lambda: round(moment * 1000))
        book.prune(0, "ann")


def test_each_chain_has_to_hold_a_head_of_its_own(book, monkeypatch):
    """That another job's head was found proves nothing of this one."""
    night(book, "1")
    time.sleep(0.02)
    prune_until(book, monkeypatch, night(book, "2").created - 0.005)
    other = night(book, "3", job="other")
    verdict = book.journal.verify([f"{CHAIN}:1:{'0' * 64}", log_line(other)], keep=-3600)
    assert (verdict.breaks, verdict.compared, verdict.unproven) == ((), 1, (CHAIN,))


def test_a_pruned_ledger_is_whole_and_its_runs_whose_links_were_cut_are_still_held(book, monkeypatch):
    old, asking = night(book, "1"), book.open_run("job", "p")
    book.decisions.attention(asking.id, "look", "ann")
    writer = begun(book, key="w", token=3)
    writer.usage(usd=0.1, tokens=3)
    waiting = writer.finish("failed", exit_code=1, again_at=clock.wall() + 5)
    time.sleep(0.02)
    fresh = night(book, "2")
    prune_until(book, monkeypatch, fresh.created - 0.005)
    kept = [log_line(old, fresh.created - 2), log_line(fresh)]
    assert book.run(old.id) is None and not book.journal.verify(kept, keep=-3600).breaks
    book.decisions.resolve(asking.id, "failed", "ann")
    assert not named(book)
    for run in (asking, waiting):
        tamper(book, "UPDATE {prefix}run SET status = 'succeeded' WHERE id = :run", run=run.id)
        assert run.id in named(book)
    change_run(book, waiting)
    assert f"of {waiting.id}" in named(book)


def test_a_prune_by_hand_is_whole_once_a_newer_head_is_kept(book):
    run = night(book, "1")
    book.prune(-5, "ann")
    assert "no head kept elsewhere" in named(book, log_line(run))
    assert not named(book, log_line(run), *book.journal.heads())
    assert not book.journal.verify([log_line(run)], keep=-3600).breaks


def storied(book: Ledger) -> RunRow:
    """A run with two attempts, usage, progress, a person's words and an end."""
    writer = begun(book, key="s")
    writer.usage(usd=0.25, tokens=100)
    writer.progress(3, 10, "pages")
    writer.finish("failed", exit_code=3, reason="no paper", elapsed=1.5)
    book.decisions.retry(writer.run.id, "ann")
    second = book.seal(writer.run.id, token=5, grant="grant-5", holder=OTHER)
    second.usage(usd=0.1, calls=1)
    book.decisions.request_cancel(writer.run.id, "bob")
    second.progress(1)
    return second.finish("cancelled", reason="bob asked", elapsed=2.5)


ROWS = [
    ("run", "status = 'succeeded'"),
    ("run", "attempt = 1"),
    ("run", "token = 6"),
    ("run", "grant_id = 'other'"),
    ("run", "exit_code = 0"),
    ("run", "reason = ''"),
    ("run", "usd = 0"),
    ("run", "tokens = tokens + 1"),
    ("run", "elapsed = 1"),
    ("run", "ended = ended - 1000"),
    ("run", "key = 'another'"),
    ("run", "command = 'rm'"),
    ("run", "host = 'elsewhere'"),
    ("run", "cancel = ''"),
    ("run", "anchor = ''"),
    ("run", "done = 10"),
    ("attempt", "status = 'succeeded'"),
    ("attempt", "exit_code = 0"),
    ("attempt", "token = 4"),
    ("attempt", "reason = 'x'"),
    ("attempt", "started = started - 1"),
    ("usage", "usd = 0"),
    ("usage", "at = at - 86400000"),
    ("usage", "job = 'other'"),
]


@pytest.mark.parametrize(("table", "change"), ROWS, ids=[f"{table}.{change.split()[0]}" for table, change in ROWS])
def test_a_row_that_its_journal_does_not_say_is_named(book, table, change):
    run = storied(book)
    assert not named(book, log_line(run))
    column = "id" if table == "run" else "run"
    tamper(book, f"UPDATE {{prefix}}{table} SET {change} WHERE {column} = :run", run=run.id)
    found = book.journal.verify().breaks
    rows = [one.chain for one in found if not one.chain.startswith("the tally of")]  # which follows from usage
    assert rows == [run.id] and change.split()[0] in str(found[0])


def test_a_day_whose_tally_was_lowered_is_named(book):
    storied(book)
    assert not book.journal.verify().breaks
    tamper(book, "UPDATE {prefix}tally SET usd = 0")
    assert "the tally of job on" in named(book)


@pytest.mark.parametrize("table", ["attempt", "usage"])
def test_a_row_that_is_missing_or_that_nobody_wrote_is_named(book, table):
    run = storied(book)
    (columns,) = {"attempt": ("run, 9, token, grant_id, holder, status, exit_code, reason, started, ended, elapsed",),
                  "usage": ("run, 9, job, at, usd, tokens, calls, units, attempt, model, kind, source, item, tag, doubt, agent",)}[table]  # fmt: skip
    tamper(book, f"INSERT INTO {{prefix}}{table} SELECT {columns} FROM {{prefix}}{table} WHERE run = :run LIMIT 1",
           run=run.id)  # fmt: skip
    assert run.id in named(book)
    tamper(book, f"DELETE FROM {{prefix}}{table} WHERE run = :run", run=run.id)
    assert run.id in named(book)


@pytest.mark.parametrize("change", ["status = 'failed'", "attempt = 7", "token = 7", "exit_code = 7", "reason = 'x'"])
def test_an_effect_that_its_journal_does_not_say_is_named(book, change):
    begin = {"attempt": 1, "token": 1, "grant": "g", "holder": ME, "command": "mail", "input": "", "lasting": 1.0}
    effect = book.effects.begin("once", "invoice/1", **begin)
    book.effects.finish(effect, "done", exit_code=0, result="sent", reason="")
    doubt = book.effects.begin("once", "invoice/2", **begin)
    doubt = book.effects.finish(doubt, "in-doubt", exit_code=None, result="", reason="killed")
    book.effects.decide(doubt, "failed", by="ann")
    assert not named(book, *book.journal.heads())
    tamper(book, f"UPDATE {{prefix}}effect SET {change} WHERE key = 'invoice/1'")
    assert "invoice/1" in named(book)
    tamper(book, "DELETE FROM {prefix}effect WHERE key = 'invoice/1'")
    assert "invoice/1" in named(book)


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE {prefix}item SET status = 'failed' WHERE key = 'a'",
        "UPDATE {prefix}item SET status = 'done' WHERE key = 'b'",
        "DELETE FROM {prefix}item WHERE key = 'a'",
        "UPDATE {prefix}item SET key = 'c' WHERE key = 'a'",
    ],
    ids=["undone", "done", "removed", "renamed"],
)
def test_an_item_that_its_journal_does_not_say_is_named(book, sql):
    writer = begun(book)
    for status, keys in (("begun", "ab"), ("done", "a"), ("in-doubt", "b")):
        rows = [("job", f"{key}0", key, status, 1, writer.run.id, 1, None, "", "", 5) for key in keys]
        writer.record("steps", [(ITEM, rows)], **{status: "\n".join(keys)})
    book.items.resolve("job", "b", "failed", reason="ann", seen=book.items.states("job", "b"))
    writer.finish("failed")
    assert not named(book, *book.journal.heads())
    tamper(book, sql)
    assert "the item" in named(book)


def test_what_people_and_successors_did_to_a_run_agrees_with_its_row(book):
    lost = begun(book, key="lost").run
    book.seal(lost.id, token=2, grant="grant-2", holder=OTHER).finish("needs-attention", reason="look\nthere")
    book.decisions.resolve(lost.id, "succeeded", "ann")
    book.open_run("job", "lost", again=True)
    reaped = begun(book, key="reaped").run
    book.reap(reaped.id, token=2, grant="grant-2", doubt=True)
    book.decisions.resolve(reaped.id, "failed", "ann")
    gone = begun(book, key="gone").run
    book.reap(gone.id, token=2, grant="grant-2")
    raised = begun(book, key="raised").run
    book.seal(raised.id, token=4, grant=raised.grant, holder=ME).progress(2, 3, "x" * 70000)
    edited = book.open_run("job", "edited", command="a\\nb", definition="d", slot="2026")
    book.seal(edited.id, token=1, grant="g", holder=Holder(incarnation="i", user="a b", host="h", pid=3), command="c")
    book.decisions.request_cancel(book.open_run("job", "cancelled").id, "ann")
    assert not named(book, *book.journal.heads())


@pytest.mark.parametrize("kind", sorted(kinds.evidence_for(kinds.RUN)))
def test_an_entry_whose_facts_make_no_sense_is_named_and_does_not_end_the_audit(book, kind):
    run = storied(book)
    sql = "UPDATE {prefix}journal SET kind = :kind, body = 'attempt=x' WHERE chain = :run AND seq > 2"
    tamper(book, sql, kind=kind, run=run.id)
    rewritten(book, run.id)
    assert run.id in named(book)
    forge_cut(book, runs="x", seq="y", hash="z", before="w")
    tamper(book, "UPDATE {prefix}run SET holder = 'pid=x' WHERE id = :run", run=run.id)
    assert run.id in named(book) and CHAIN in named(book)
