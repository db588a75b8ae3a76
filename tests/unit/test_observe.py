"""What people ask of ledger and store, without a terminal: the views that every front end shows."""

from __future__ import annotations

import ast
import json
import os
import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import nightlatch.observe
from nightlatch.core import advice
from nightlatch.core.effects import DONE, IN_DOUBT
from nightlatch.core.model import Begun, Mark
from nightlatch.database.postgres import PostgresDatabase
from nightlatch.errors import StoreUnreachable
from nightlatch.gates.file import File
from nightlatch.ledger import kinds, open_for
from nightlatch.ledger.ledger import Ledger
from nightlatch.ledger.records import RunRow
from nightlatch.observe import evening, lease_views, open_decisions, usage_report
from nightlatch.observe.details import details
from nightlatch.observe.gate_views import gate_view
from nightlatch.observe.overview import last_night, overview
from nightlatch.observe.reader import NoStore, StoreReader
from nightlatch.observe.run_views import recent, start, view
from nightlatch.store import url
from nightlatch.system import clock, identity, zone
from nightlatch.web import usage
from tests.support.ledgers import begun, tamper

HERE = identity.holder(pid=os.getpid())


@pytest.fixture
def book(ledger_url: str) -> Ledger:
    """On each database, beside a store that was used."""
    url.connect(ledger_url).id  # noqa: B018
    return open_for(ledger_url)


@pytest.fixture
def reader(ledger_url: str, book: Ledger) -> StoreReader:
    book.id  # noqa: B018 - it is there
    return StoreReader(ledger_url)


def ended(book: Ledger, job: str, status: str, reason: str = "", key: str = "k") -> RunRow:
    return begun(book, job=job, key=key).finish(status, reason=reason)


def running(book: Ledger, store_url: str, job: str) -> RunRow:
    """With its holder, this process, at work."""
    run = book.open_run(job, "k", command="true", host="here")
    granted = url.connect(store_url).acquire(job, "grant-1", HERE, 60.0)
    book.seal(run.id, token=granted.token, grant="grant-1", holder=HERE)
    return run


def test_an_overview_has_what_needs_a_person_first_and_what_to_type(reader, book, ledger_url):
    doubt = ended(book, "mails", "in-doubt", "exit code 9")
    failed = ended(book, "broken", "failed", "exit code 3")
    lapsed = begun(book, job="crawl")._fence.look()  # nobody has the lease
    at_work = running(book, ledger_url, "agent")
    pending = book.open_run("later", "k")
    done = ended(book, "report", "succeeded")
    seen = overview(reader, None)
    assert {name: [(s.status, s.run.job, s.next.words) for s in group.runs] for name, group in seen.groups.items()} == {
        "needs you": [
            ("in-doubt", "mails", ("resolve", doubt.id)),
            ("lapsed", "crawl", ("resolve", lapsed.id)),
            ("failed", "broken", ("show", failed.id)),
        ],
        "running": [("running", "agent", ("logs", "-f", at_work.id))],
        "waiting": [("pending", "later", ("show", pending.id))],
        "done": [("succeeded", "report", ("show", done.id))],
    }
    assert [s.note for s in seen.needs_you.runs] == ["exit code 9", "its holder ann@here is gone", "exit code 3"]
    assert not seen.nothing_needs_you and not seen.empty
    facts = json.loads(json.dumps(seen.facts()))
    assert [found["status"] for found in facts["needs_you"]] == ["in-doubt", "lapsed", "failed"]
    assert facts["effects"] == facts["items"] == facts["elsewhere"] == facts["capped"] == []


def test_of_what_is_over_an_overview_has_only_what_is_young_and_of_the_rest_all(reader, book):
    ended(book, "report", "succeeded")
    ended(book, "broken", "failed")
    ended(book, "mails", "in-doubt")
    seen = overview(reader, book.history.runs().__next__().changed + 60)
    assert [s.run.job for s in seen.needs_you.runs] == ["mails"] and not seen.done.runs


def test_the_night_begins_at_22_in_the_ledgers_zone_and_a_failure_needs_you_for_a_day(reader, book, monkeypatch):
    morning = datetime(2026, 11, 16, 7, 12, tzinfo=zone.find(book.history.zone)).timestamp()
    for run in (ended(book, "report", "succeeded"), ended(book, "broken", "failed")):
        at = round((morning - 11 * 3600) * 1000)  # in the evening, at eight
        tamper(book, "UPDATE {prefix}run SET changed = :at WHERE id = :id", at=at, id=run.id)
    monkeypatch.setattr(clock, "wall", lambda: morning)
    seen = last_night(reader)
    assert seen.since == morning - 9.2 * 3600
    assert [s.run.job for s in seen.needs_you.runs] == ["broken"] and seen.need_you == 1 and not seen.done.runs
    monkeypatch.setattr(clock, "wall", lambda: morning - 9.5 * 3600)  # in that evening, the day counts
    assert [s.run.job for s in last_night(reader).done.runs] == ["report"]
    monkeypatch.setattr(clock, "wall", lambda: morning + 15 * 3600)
    assert last_night(reader).empty


@pytest.mark.parametrize(
    ("now", "begin"),
    [
        ("2026-11-16T07:12+01:00", "2026-11-15T22:00+01:00"), ("2026-11-16T23:30+01:00", "2026-11-15T22:00+01:00"),
        ("2026-11-16T02:00+01:00", "2026-11-15T22:00+01:00"), ("2026-10-25T07:00+01:00", "2026-10-24T22:00+02:00"),
    ],
)  # fmt: skip
def test_when_a_night_began(now, begin):
    moment = datetime.fromisoformat(now).timestamp()
    assert evening.began("Europe/Berlin", moment) == datetime.fromisoformat(begin).timestamp()


def test_a_jobs_runs_and_those_nested_in_others_are_listed_in_one_order(book):
    runs = [ended(book, "job", "succeeded" if n % 2 else "failed", key=str(n)) for n in range(6)]
    ended(book, "other", "succeeded")
    for number, run in enumerate(runs):
        tamper(book, "UPDATE {prefix}run SET changed = :at, parent = :parent WHERE id = :id", at=number * 1000,
               parent="p" if number in (1, 2) else "", id=run.id)  # fmt: skip
    assert [run.key for run in book.history.runs(job="job")] == ["5", "4", "3", "2", "1", "0"]
    assert [run.key for run in book.history.runs(job="job", limit=4)] == ["5", "4", "3", "2"]
    assert [run.key for run in book.history.runs(job="job", status="failed", since=1.0)] == ["4", "2"]
    assert [run.key for run in book.history.runs(job="job", since=1.0, until=4.0)] == ["3", "2", "1"]


def test_runs_are_found_by_the_state_that_is_shown(reader, book, ledger_url):
    begun(book, job="crawl")
    running(book, ledger_url, "agent")
    assert [s.run.job for s in recent(reader, status="lapsed", limit=10)] == ["crawl"]
    assert [s.run.job for s in recent(reader, status="running", limit=10)] == ["agent"]
    assert len(recent(reader, limit=1)) == 1


def test_a_run_in_detail_has_its_attempts_journal_refusals_and_choices(reader, book):
    writer = begun(book)
    writer.progress(3, 10, "three\x1b[2J articles")
    writer.usage(usd=0.25)
    book.journal.note("job", kinds.REFUSED, run=writer.run.id, what="file:///srv/report", token=1, stands=2)
    run = writer.finish("failed", exit_code=2, reason="exit code 2")
    seen = details(reader, run)
    assert [(attempt.attempt, attempt.exit_code) for attempt in seen.attempts] == [(1, 2)]
    assert [entry.kind for entry in seen.entries if entry not in seen.refusals] == [
        "opened", "started", "progress", "usage", "ended",
    ]  # fmt: skip
    assert [event.sentence for event in seen.timeline][1:4] == [
        "attempt 1 started on here (token 1)", "progress: 3 of 10 (three\x1b[2J articles)", "used $0.25",
    ]  # fmt: skip
    assert [event.sentence for event in seen.refused] == [
        "refused: file:///srv/report, by attempt … with token 1; a newer holder has token 2"
    ]
    assert [entry.facts["what"] for entry in seen.refusals] == ["file:///srv/report"]
    assert seen.progress == "3/10 three\x1b[2J articles"  # as it was reported: a front end makes it safe to show
    assert [choice.words for choice in seen.choices] == [("logs", run.id), ("retry", run.id)]
    facts = json.loads(json.dumps(seen.facts()))
    assert facts["usage"]["usd"] == 0.25 and len(facts["attempts"]) == 1 and facts["tail"] == []


def test_a_batch_that_died_is_started_again_about_the_store_of_whoever_reads(reader, book):
    writer = begun(book, job="posts")
    writer.event("batch", again="nightlatch batch --store sqlite:////old.db posts 'my items' -- sh -c 'x --store y'")
    again = view(reader, book.find("posts", "k")).next
    assert again.words == ("batch", "posts", "my items", "--", "sh", "-c", "x --store y")
    assert again.shell("sqlite:////new one.db") == (
        "nightlatch --store 'sqlite:////new one.db' batch posts 'my items' -- sh -c 'x --store y'"
    )


def test_a_batch_whose_line_lost_a_quote_with_a_secret_is_still_named(reader, book):
    begun(book, job="posts").event("batch", again="nightlatch batch posts 'items [redacted]")
    run = book.find("posts", "k")
    assert view(reader, run).next.shell() == f"nightlatch show {run.id}"


def test_how_a_run_is_started_again_can_be_pasted(reader, book):
    run = ended(book, "report", "failed", key="two words")
    assert start(reader, run).shell() == f"nightlatch retry {run.id}"


def test_an_effect_in_doubt_is_named_by_its_key_and_scope(reader, book):
    def doubt(scope: str, key: str) -> None:
        effect = book.effects.begin(scope, key, attempt=1, token=1, grant="g", holder=HERE, command="c", input="",
                                    lasting=60)  # fmt: skip
        book.effects.finish(effect, IN_DOUBT, exit_code=7, result="", reason="exit code 7")

    doubt("once", "-f")
    doubt("mails", "-f")
    (once,), (mails,) = (
        [one for one in open_decisions.here(reader) if one.scope == scope] for scope in ("once", "mails")
    )
    assert once.sentence == "the effect -f is in-doubt: exit code 7"
    assert once.resolve("done").words == ("resolve", "--", "-f", "done")
    assert once.resolve(whole=True).words == ("resolve", "--scope", "once", "--", "-f")
    assert mails.resolve("done").words == ("resolve", "--scope", "mails", "--", "-f", "done")
    assert open_decisions.named(reader, "-f", scope="mails") == [mails]
    assert [one.key for one in overview(reader, None).decisions_besides_runs] == ["-f", "-f"]


def test_an_effect_that_is_done_needs_nobody(reader, book):
    effect = book.effects.begin("once", "k", attempt=1, token=1, grant="g", holder=HERE, command="c", input="",
                                lasting=60)  # fmt: skip
    assert open_decisions.here(reader) == []  # it is being done
    book.effects.finish(effect, DONE, exit_code=0, result="", reason="")
    assert open_decisions.here(reader) == [] and overview(reader, None).empty


def test_usage_by_job_and_by_day(reader, book):
    writer = begun(book)
    writer.usage(usd=0.5, tokens=100)
    writer.usage(usd=0.25)
    by_job, by_day = usage_report.report(reader), usage_report.report(reader, ("day", "job"))
    assert {name: by_job.facts()[0][name] for name in ("version", "job", "usd", "tokens", "runs", "share")} == {
        "version": 1, "job": "job", "usd": 0.75, "tokens": 100, "runs": 0, "share": 1.0,
    }  # fmt: skip
    assert sum(row.amounts.usd for row in by_day.rows) == 0.75 and all(
        len(str(fact["day"])) == 10 for fact in by_day.facts()
    )
    assert usage_report.report(reader, job="another").rows == ()


def test_the_pages_csv_has_every_digit_and_no_formula(reader, book):
    begun(book, job="=job").usage(usd=0.5, tokens=12_345_678)
    head, row = (line.split(",") for line in usage.csv(reader, "job").splitlines())
    found = dict(zip(head, row, strict=True))
    assert float(found["tokens"]) == 12_345_678 and found["job"].strip('"') == "'=job"


def test_leases_with_what_was_begun_under_them_and_has_not_ended(any_store):
    store = url.connect(any_store)
    key = Begun(key="two words", attempt=1)
    first = store.acquire("nightly", "grant", HERE, 60.0, begin=key if store.lists_begun else None)
    (seen,) = lease_views.every(store)
    assert (one := lease_views.lease(store, "nightly")) and one.record.grant == seen.record.grant == "grant"
    assert (seen.record.token, seen.facts()["held"], seen.left_behind) == (first.token, True, 0)
    store.release("nightly", "grant")
    (seen,) = lease_views.every(store)
    assert not seen.facts()["held"] and lease_views.lease(store, "none") is None
    if store.lists_begun:
        (left,) = seen.begun
        assert left.resolve is not None
        assert left.resolve.shell("git+x") == "nightlatch --store git+x resolve 'two words' --job nightly"
        assert json.loads(json.dumps(seen.facts()))["begun"][0]["left_behind"] is True


def test_a_gate_says_who_sealed_it_and_how_it_gets_a_mark(tmp_path):
    target = tmp_path / "my report.html"
    seen = gate_view(File(target), str(target))
    assert seen.missing and seen.facts()["marks"] == []
    assert seen.first_seal.shell() == f"nightlatch lock NAME --gate '{target}' -- true"
    File(target).seal(Mark(store="s", name="reports", token=7, grant="g"), "ann@here")
    (mark,) = gate_view(File(target), str(target)).marks.items()
    assert (mark[0], mark[1].mark.token, mark[1].by) == ("reports", 7, "ann@here")


def test_a_command_is_typed_as_it_is_meant():
    found = advice.to("show", "it's\x1b[2J")
    assert found == advice.Advice(words=("show", "it's\x1b[2J"))
    assert found.shell() == r"nightlatch show $'it\'s\x1b[2J'"
    assert "s3cret" not in found.shell("postgresql://me:s3cret@db/jobs")


LOOKS = [
    lambda reader, run: overview(reader, None),
    lambda reader, run: recent(reader, limit=10),
    details,
    lambda reader, run: usage_report.report(reader, ("day", "job")),
    lambda reader, run: (lease_views.every(reader.store), lease_views.lease(reader.store, run.job)),
    lambda reader, run: open_decisions.named(reader, "k"),
]


def test_looking_changes_nothing_of_ledger_and_store(reader, book, ledger_url):
    run = ended(book, "report", "succeeded")
    running(book, ledger_url, "agent")
    lapsed = begun(book, job="crawl")._fence.look()
    before = rows(ledger_url)
    for look in LOOKS:
        look(reader, run)
        look(reader, lapsed)
    assert rows(ledger_url) == before


def rows(store_url: str) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table of ledger and store."""
    databases: list[Any] = [open_for(store_url)._tables.database, url.connect(store_url)._db]  # type: ignore[attr-defined]
    found: dict[str, list[tuple[object, ...]]] = {}
    for database in databases:
        tables = (
            f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{database.schema}'"
            if database.prefix
            else "SELECT name FROM sqlite_master WHERE type = 'table'"
        )
        for (table,) in database.read(tables):
            found[f"{database.area}.{table}"] = sorted(database.read(f"SELECT * FROM {database.prefix}{table}"))
    assert len(found) > 5
    return found


OBSERVE = sorted(Path(nightlatch.observe.__file__).parent.rglob("*.py"))
OF_A_SCREEN = {"print", "sys", "argparse", "screen", "paint", "colour", "color", "width", "columns", "isatty", "ESCAPE",
               "ljust", "rjust", "cut"}  # fmt: skip


def of_a_screen(source: str) -> set[str]:
    """Names and imports that only somebody with a screen needs."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                names.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                module = getattr(node, "module", None) or ""
                names |= {part for alias in aliases for part in (*module.split("."), *alias.name.split("."))}
            case ast.FormattedValue(format_spec=ast.JoinedStr() as spec) if ast.unparse(spec)[2:3] not in ",.g0":
                names.add("width")  # {name:<9}, but not {usd:,.2f}
            case ast.Constant(value=str(text)) if "\x1b" in text:
                names.add("ESCAPE")
    return names & OF_A_SCREEN


@pytest.mark.parametrize("path", OBSERVE, ids=lambda path: path.name)
def test_a_view_knows_neither_screen_nor_width_nor_colour(path):
    assert of_a_screen(path.read_text()) == set()


@pytest.mark.parametrize(
    "source", ["print(1)", "from ..cli import screen", "f'{job:<9}'", "RED = '\\x1b[31m'", "def f(width): 0"]
)
def test_the_check_sees_what_belongs_to_a_screen(source):
    assert of_a_screen(source)


def test_looking_at_a_store_that_has_no_ledger_yet_makes_none(any_store, tmp_path):
    store = url.connect(any_store)
    store.acquire("nightly", "grant", HERE, 60.0)
    reader = StoreReader(any_store)
    assert overview(reader, None).empty and recent(reader, limit=10) == [] and usage_report.report(reader).rows == ()
    assert open_decisions.named(reader, "k") == [] and reader.ledger.run("7k3f") is None
    assert [seen.record.name for seen in lease_views.every(reader.store)] == ["nightly"]
    assert list(tmp_path.rglob("*ledger*")) == []
    if any_store.startswith("postgresql"):
        assert PostgresDatabase(any_store, "ledger").areas() == {"store"}


def test_looking_into_an_empty_database_makes_no_store(postgres_url):
    with pytest.raises(NoStore, match="there is no store at postgresql://"):
        StoreReader(postgres_url)
    assert PostgresDatabase(postgres_url, "ledger").areas() == set()


@pytest.mark.parametrize("content", ["nothing", "a table of another program"])
def test_looking_at_a_file_that_is_not_a_store_leaves_it_as_it_is(tmp_path, content):
    path = tmp_path / "other.db"
    path.touch()
    if content != "nothing":
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE other (x)")
    before = path.read_bytes()
    with pytest.raises(NoStore, match="there is no store at"):
        StoreReader(f"sqlite:///{path}")
    assert path.read_bytes() == before and not list(tmp_path.glob("*ledger*"))


def test_the_connection_of_a_view_refuses_to_write(sqlite_url):
    url.connect(sqlite_url).id  # noqa: B018
    open_for(sqlite_url).open_run("report", "k")
    with pytest.raises(StoreUnreachable, match="read-only"):
        StoreReader(sqlite_url).ledger.open_run("report", "another")


def test_there_is_nothing_to_read_of_a_store_that_is_not_there(tmp_path):
    with pytest.raises(NoStore, match="there is no store at"):
        StoreReader(f"sqlite:///{tmp_path}/misspelt.db")
    assert list(tmp_path.iterdir()) == []


def test_progress_and_usage_that_alternate_are_one_line_each(book, reader):
    writer = begun(book)
    for number in range(1, 6):
        writer.progress(number, 5)
        writer.usage({"model": "large", "item": str(number)}, usd=0.25, tokens=1000)
    sentences = [event.sentence for event in details(reader, writer.finish("succeeded")).timeline]
    assert sentences[2:4] == ["progress: 5 of 5", "used $1.25, 5,000 tokens, model large"] and len(sentences) == 5


def test_a_target_on_this_machine_is_shown_as_its_path_and_a_commit_in_short(book, reader):
    writer = begun(book)
    writer.event(kinds.PUBLISHED, attempt=1, target=f"file://{identity.machine()}/srv/page", landed="c" * 40)
    writer.event(kinds.PUBLISHED, attempt=1, target="file://another/srv/page")
    sentences = [event.sentence for event in details(reader, writer.finish("succeeded")).timeline]
    assert sentences[2:4] == [f"published to file:///srv/page as {'c' * 12}", "published to file://another/srv/page"]
