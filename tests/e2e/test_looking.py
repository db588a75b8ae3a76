"""The commands that show runs, as somebody uses them in the morning after a night."""

from __future__ import annotations

import json
import signal
import sys

import pytest

from nightlatch.cli import status
from nightlatch.ledger import open_for, opening
from nightlatch.observe import overview
from nightlatch.system import identity
from tests.support.programs import TOOL, nightlatch, said
from tests.support.runs import Running, listed, one, run


def test_nothing_ran_yet_says_how_to_begin(sqlite_url):
    run(sqlite_url, "report", "true")
    done = nightlatch(sqlite_url, "status", "--since", "0s")
    assert done.returncode == 0
    assert "nothing needs you" in done.stdout
    assert "nightlatch run hello -- echo hello" in done.stdout


LISTS = [(), ("status",), ("runs",), ("usage",), ("lease", "list")]
LOOKING = [*LISTS, ("show", "zzzzzz"), ("logs", "zzzzzz"), ("audit", "verify"), ("lease", "show", "x")]


@pytest.mark.parametrize("words", LOOKING)
def test_looking_at_a_store_that_is_not_there_says_so_and_makes_none(state_home, tmp_path, words):
    default = said(nightlatch("", *words), 0 if words in LISTS else 64)
    assert "there is no store at " in default and "nightlatch run hello -- echo hello" in default
    for named in (
        nightlatch("", "--store", f"sqlite:///{tmp_path}/misspelt.db", *words),
        nightlatch(f"sqlite:///{tmp_path}/misspelt.db", *words),
    ):
        assert f"there is no store at {tmp_path}/misspelt.db" in said(named, 64)
    assert list(tmp_path.iterdir()) == []


def test_status_as_json_is_an_object_also_without_a_store(state_home):
    done = nightlatch("", "status", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["needs_you"] == []


def test_looking_from_inside_a_run_shows_the_runs_own_store(sqlite_url, state_home):
    script = f"{TOOL} status && {TOOL} runs && {TOOL} show report && {TOOL} audit verify"
    done = nightlatch("", "run", "report", "--store", sqlite_url, "--key", "k", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("running") >= 3 and "the journal is intact" in done.stdout
    assert not state_home.exists()


def test_help_is_still_the_help(sqlite_url):
    assert nightlatch(sqlite_url, "--help").stdout.startswith("usage: nightlatch")


def test_help_of_a_command_and_the_version_in_short(sqlite_url):
    assert nightlatch(sqlite_url, "help", "run").stdout == nightlatch(sqlite_url, "run", "--help").stdout
    assert nightlatch(sqlite_url, "help").stdout == nightlatch(sqlite_url, "--help").stdout
    assert nightlatch(sqlite_url, "-V").stdout == nightlatch(sqlite_url, "--version").stdout != ""
    assert "unknown command 'rnu'" in said(nightlatch(sqlite_url, "help", "rnu"), 64)


@pytest.mark.parametrize(("signum", "needs"), [(signal.SIGTERM, 1), (signal.SIGINT, 0)])
def test_what_a_shutdown_ended_needs_you_and_what_ctrl_c_ended_does_not(sqlite_url, tmp_path, signum, needs):
    running = Running(sqlite_url, tmp_path, "agent", "--grace", "1s", "--lost", "again")
    running.process.send_signal(signum)
    running.process.communicate(timeout=60)
    report = json.loads(nightlatch(sqlite_url, "status", "--json").stdout)
    assert [len(report[name]) for name in ("needs_you", "done")] == [needs, 1 - needs]
    assert run(sqlite_url, "agent", "true").returncode == 0  # the next attempt
    assert "nothing needs you" in nightlatch(sqlite_url).stdout


def test_bare_shows_what_needs_you_first_and_each_row_ends_in_what_to_type(sqlite_url, tmp_path, in_doubt):
    run(sqlite_url, "report", "true")
    run(sqlite_url, "broken", "exit 3")
    running = Running(sqlite_url, tmp_path, "agent")
    shown = nightlatch(sqlite_url).stdout
    assert running.finish() == 0
    lines = [line.split() for line in shown.splitlines() if line.startswith("  ")]
    assert [line[:2] for line in lines] == [
        ["?", "crawl"], ["x", "broken"], ["*", "agent"], ["+", "report"],
    ]  # fmt: skip
    assert [line[-2] for line in lines] == ["resolve", "show", "-f", "show"]
    first, *titles, last = [line for line in shown.splitlines() if line and not line.startswith("  ")]
    assert first.endswith("1 of 2 runs succeeded, 2 things need you") and titles == [
        "needs you",
        "running",
        "done",
    ]
    assert last == "type `nightlatch` and the last column" and "exit code 3" in shown
    for line in lines:  # it can be typed as it is
        assert nightlatch(sqlite_url, "show", line[-1]).returncode == 0 and len(line[-1]) == 4


def test_status_counts_failures_in_a_row_up_to_each_run(sqlite_url):
    run(sqlite_url, "broken", "true", key="0")
    for key in "123":
        run(sqlite_url, "broken", "exit 3", key=key)
    run(sqlite_url, "broken", "true", key="4")
    rows = {line.split()[4]: line for line in nightlatch(sqlite_url).stdout.splitlines() if "exit code 3" in line}
    assert "in a row" not in rows["1:"], rows
    assert "second time in a row" in rows["2:"] and "third time in a row" in rows["3:"]


def test_status_as_json_is_one_object(sqlite_url):
    run(sqlite_url, "broken", "exit 3")
    run(sqlite_url, "report", "true")
    report = json.loads(nightlatch(sqlite_url, "status", "--json").stdout)
    assert report["version"] == 1
    assert [found["job"] for found in report["needs_you"]] == ["broken"]
    assert [found["job"] for found in report["done"]] == ["report"]
    assert report["running"] == report["waiting"] == []


def test_a_failure_is_not_hidden_by_many_successes_after_it(sqlite_url, monkeypatch, capsys):
    run(sqlite_url, "broken", "exit 3")
    for key in range(4):
        run(sqlite_url, "report", "true", key=str(key))
    monkeypatch.setattr(overview, "_MOST", 2)
    status.main(["--store", sqlite_url])
    shown = capsys.readouterr().out
    assert "1 thing needs you" in shown and "x broken" in shown


def test_a_store_named_on_the_command_line_stands_in_the_commands_to_type(sqlite_url):
    run(sqlite_url, "report", "true")
    shown = nightlatch("", "--store", sqlite_url).stdout
    assert f"type `nightlatch --store {sqlite_url}` and the last column" in shown


def test_runs_are_filtered_by_job_state_time_and_number(sqlite_url):
    run(sqlite_url, "a", "true", key="1")
    run(sqlite_url, "a", "exit 1", key="2")
    run(sqlite_url, "b", "true", key="3")
    keys = lambda *words: [found["key"] for found in listed(sqlite_url, *words)]  # noqa: E731
    assert keys() == ["3", "2", "1"]
    assert keys("--job", "a") == ["2", "1"]
    assert keys("--status", "succeeded") == ["3", "1"]
    assert keys("--limit", "1") == ["3"]
    assert keys("--since", "1h") == ["3", "2", "1"]
    assert keys("--since", "0s") == []


def test_a_long_reason_does_not_push_the_key_away(sqlite_url):
    run(sqlite_url, "posts", f"exec {TOOL} fail '{'every post was refused ' * 20}'", key="2026-11-16T02:00Z")
    for words in ((), ("runs",)):
        shown = nightlatch(sqlite_url, *words, env={"COLUMNS": "100"}).stdout
        assert "2026-11-16T02:00Z" in shown and "every post was" in shown


def test_runs_as_json_have_the_glossarys_words_and_exact_times(sqlite_url):
    run(sqlite_url, "a", "exit 4")
    report = one(sqlite_url, "a")
    assert (report["version"], report["job"], report["key"], report["status"]) == (1, "a", "k", "failed")
    assert (report["attempt"], report["exit_code"], report["reason"]) == (1, 4, "exit code 4")
    assert report["created"] <= report["started"] <= report["ended"]
    assert report["token"] > 0 and report["head"].startswith("job:a:")


def test_a_state_that_does_not_exist_is_64_with_those_that_do(sqlite_url):
    assert "in-doubt" in said(nightlatch(sqlite_url, "runs", "--status", "broken"), 64)


def test_show_has_attempts_timeline_usage_progress_and_the_end_of_the_output(sqlite_url):
    run(sqlite_url, "a", "echo first; exit 1")
    run(
        sqlite_url, "a", f"{TOOL} progress 3/10 'three articles'; {TOOL} spend usd=0.25 tokens=900; echo second; exit 2"
    )
    found = one(sqlite_url, "a")
    shown = nightlatch(sqlite_url, "show", found["run"][:6]).stdout
    for text in ("failed", "exit code 2", "3/10 three articles", "usd=0.25 tokens=900", "| first", "| second"):
        assert text in shown
    for sentence in (
        "  opened on ", "  attempt 1 started on ", "  attempt 1 ended: failed (exit code 1), after ", "  opened again on ",
        "; it was failed before", "  attempt 2 started on ", "  progress: 3 of 10 (three articles)",
        "  used $0.25, 900 tokens",
    ):  # fmt: skip
        assert sentence in shown
    report = json.loads(nightlatch(sqlite_url, "show", found["run"], "--json").stdout)
    assert [attempt["exit_code"] for attempt in report["attempts"]] == [1, 2]
    assert report["attempts"][0]["token"] < report["attempts"][1]["token"]
    assert report["tail"] == ["first", "second"]
    kinds = [entry["kind"] for entry in report["timeline"]]
    assert kinds == ["opened", "started", "ended", "opened-again", "started", "progress", "usage", "ended"]
    assert report["usage"]["usd"] == 0.25


def test_show_has_what_was_refused(sqlite_url):
    run(sqlite_url, "a", "true")
    found = one(sqlite_url, "a")
    open_for(sqlite_url).journal.note("a", "refused", run=found["run"], what="file:///srv/report", token=1, stands=2)
    shown = nightlatch(sqlite_url, "show", found["run"]).stdout
    assert "file:///srv/report" in shown.partition("refused")[2]


# The lease is taken from under the command: a newer holder seals the gate and writes; then the command writes too.
OVERTAKEN = """
{me} publish one {target} || exit 1
{python} -c "from nightlatch.store import url; url.connect('{store}').evict('job')"
{me} lock job --store {store} -- {me} publish two {target} --store {store} || exit 1
{me} publish one {target}
echo $? > refused
"""


def test_show_has_what_a_gate_refused_to_the_command_itself(sqlite_url, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    target = tmp_path / "target"
    script = OVERTAKEN.format(me=TOOL, python=sys.executable, target=target, store=sqlite_url)
    nightlatch(sqlite_url, "run", "job", "--key", "k", "--", "sh", "-c", script, cwd=tmp_path)
    assert target.read_text() == "two" and (tmp_path / "refused").read_text() in ("73\n", "123\n")
    shown = nightlatch(sqlite_url, "show", one(sqlite_url, "job")["run"], env={"COLUMNS": "400"}).stdout
    refused = shown.partition("\nrefused\n")[2]
    token = one(sqlite_url, "job")["token"]
    assert f"refused: file://{identity.machine()}{target}, by attempt 1 with token {token}" in refused, shown


def test_an_unknown_run_is_64_with_what_to_type(sqlite_url):
    run(sqlite_url, "report", "true")
    for command in ("show", "logs", "cancel", "retry", "resolve"):
        assert "nightlatch runs" in said(nightlatch(sqlite_url, command, "zzzzzz"), 64)


def test_a_beginning_that_several_runs_have_is_64(sqlite_url, monkeypatch):
    ids = iter(["7k3faaaaaaaa", "7k3fbbbbbbbb"])
    monkeypatch.setattr(opening, "new_id", lambda: next(ids))
    for key in ("1", "2"):
        open_for(sqlite_url).open_run("a", key)
    assert "several runs begin" in said(nightlatch(sqlite_url, "show", "7k3f"), 64)
    assert nightlatch(sqlite_url, "show", "7k3fa").returncode == 0


def test_usage_by_job_and_by_day(sqlite_url):
    for key, spend in (("1", "usd=0.5 tokens=100"), ("2", "usd=0.25 calls=2")):
        run(sqlite_url, "a", f"{TOOL} spend {spend}", key=key)
    (report,) = map(json.loads, nightlatch(sqlite_url, "usage", "--json").stdout.splitlines())
    assert report.pop("seconds") > 0
    assert report == {
        "version": 1, "job": "a", "usd": 0.75, "tokens": 100, "calls": 2, "units": 0, "doubt": 0, "runs": 2, "failed": 0,
        "items": 0, "share": 1.0,
    }  # fmt: skip
    days = [json.loads(line) for line in nightlatch(sqlite_url, "usage", "--by", "day", "--json").stdout.splitlines()]
    assert sum(day["usd"] for day in days) == 0.75 and all(len(day["day"]) == 10 for day in days)
    assert "0.7500" in nightlatch(sqlite_url, "usage", "a").stdout
    assert "nothing was used" in nightlatch(sqlite_url, "usage", "b").stdout


def test_usage_by_model_and_tag_as_a_table_and_for_a_spreadsheet(sqlite_url):
    run(sqlite_url, "a", f"{TOOL} spend usd=0.5 --model large --tag site=x && {TOOL} spend usd=1 --tag '=cmd()'")
    shown = nightlatch(sqlite_url, "usage", "--by", "model,tag").stdout
    assert [line.split()[:3] for line in shown.splitlines()[1:4]] == [
        ["-", "=cmd()", "1.0000"], ["large", "site=x", "0.5000"], ["total", "1.5000", "100"],
    ]  # fmt: skip
    assert "ends at $" in shown
    header, *rows = nightlatch(sqlite_url, "usage", "--by", "tag", "--csv").stdout.splitlines()
    assert header.startswith("tag,usd,") and [row.split(",")[0] for row in rows] == ["'=cmd()", "site=x"]
    assert "use job, day" in said(nightlatch(sqlite_url, "usage", "--by", "colour"), 64)
    assert "or write a day" in said(nightlatch(sqlite_url, "usage", "--since", "yesterday"), 64)


def test_usage_of_a_job_says_from_when_on_changes_are_known(sqlite_url):
    run(sqlite_url, "a", f"{TOOL} spend usd=0.5")
    assert "1 runs that succeeded" in nightlatch(sqlite_url, "usage", "a", "--changes").stdout
    assert "nothing to accept" in said(nightlatch(sqlite_url, "usage", "a", "--usual"), 64)
    assert "are about one job" in said(nightlatch(sqlite_url, "usage", "--changes"), 64)
