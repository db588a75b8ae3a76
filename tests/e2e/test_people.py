"""The commands for people, as somebody uses them in the morning after a night of runs."""

from __future__ import annotations

import json
import os
import pty
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nightlatch.cli import status
from nightlatch.ledger import open_for, opening
from nightlatch.store import url as stores
from nightlatch.system import identity
from tests.programs import NIGHTLATCH, children, environment, nightlatch, start, until

TOOL = shlex.join(NIGHTLATCH)


def run(url: str, job: str, script: str, *options: str, key: str = "k") -> subprocess.CompletedProcess[str]:
    return nightlatch(url, "run", job, "--key", key, *options, "--", "sh", "-c", script)


def listed(url: str, *words: str) -> list[dict[str, Any]]:
    done = nightlatch(url, "runs", "--json", *words)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def one(url: str, job: str) -> dict[str, Any]:
    (found,) = listed(url, "--job", job)
    return found


def said(done: subprocess.CompletedProcess[str], code: int) -> str:
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("nightlatch: ")
    return done.stderr


class Running:
    """A `nightlatch run` in the middle of its command."""

    def __init__(self, url: str, folder: Path, job: str, *options: str, key: str = "k", script: str = "") -> None:
        ready, self.go = folder / f"ready-{job}-{key}", folder / f"go-{job}-{key}"
        waiting = script or f"echo began; while [ ! -e {self.go} ]; do sleep 0.05; done; echo went on"
        command = f"echo $$ > {ready}.part; mv {ready}.part {ready}; {waiting}"
        self.process = start(url, "run", job, "--key", key, *options, "--", "sh", "-c", command)
        until(lambda: ready.exists() or self.process.poll() is not None)
        assert ready.exists(), self.process.communicate()
        self.command = int(ready.read_text())
        self.id: str = next(found["run"] for found in listed(url, "--job", job) if found["key"] == key)

    def kill(self) -> None:
        """All of it at once, as a power failure would: nobody is left to record anything."""
        for pid in (self.process.pid, *children(self.process.pid), self.command):
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass
        self.process.communicate()

    def finish(self) -> int:
        self.go.touch()
        self.process.communicate(timeout=60)
        return self.process.returncode


@pytest.fixture
def lapsed(sqlite_url: str, tmp_path: Path) -> str:
    running = Running(sqlite_url, tmp_path, "crawl")
    running.kill()
    return running.id


@pytest.fixture
def in_doubt(sqlite_url: str, lapsed: str) -> str:
    asked = run(sqlite_url, "crawl", "true")
    assert asked.returncode == 76 and f"it waits for you: nightlatch show {lapsed}\n" in asked.stderr
    assert one(sqlite_url, "crawl")["state"] == "in-doubt"
    return lapsed


# ── looking ──


def test_nothing_ran_yet_says_how_to_begin(sqlite_url):
    run(sqlite_url, "report", "true")
    done = nightlatch(sqlite_url, "status", "--since", "0s")
    assert done.returncode == 0
    assert "nothing needs you" in done.stdout
    assert "nightlatch run NAME" in done.stdout


LISTS = [(), ("status",), ("runs",), ("usage",), ("lease", "list")]
LOOKING = [*LISTS, ("show", "zzzzzz"), ("logs", "zzzzzz"), ("audit", "verify"), ("lease", "show", "x")]


@pytest.mark.parametrize("words", LOOKING)
def test_looking_at_a_store_that_is_not_there_says_so_and_makes_none(state_home, tmp_path, words):
    default = said(nightlatch("", *words), 0 if words in LISTS else 64)
    assert "there is no store at " in default and "nightlatch run NAME" in default
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
    assert done.stdout.count("running") >= 3 and "the journal is whole" in done.stdout
    assert not state_home.exists()


def test_help_is_still_the_help(sqlite_url):
    assert nightlatch(sqlite_url, "--help").stdout.startswith("usage: nightlatch")


def test_bare_shows_what_needs_you_first_and_each_row_ends_in_what_to_type(sqlite_url, tmp_path, in_doubt):
    run(sqlite_url, "report", "true")
    run(sqlite_url, "broken", "exit 3")
    running = Running(sqlite_url, tmp_path, "agent")
    shown = nightlatch(sqlite_url).stdout
    assert running.finish() == 0
    lines = [line.split() for line in shown.splitlines() if line.startswith("  ")]
    assert [line[:2] for line in lines] == [
        ["in-doubt", "crawl"], ["failed", "broken"], ["running", "agent"], ["succeeded", "report"],
    ]  # fmt: skip
    assert [line[-3:-1] for line in lines] == [
        ["nightlatch", "resolve"], ["nightlatch", "show"], ["logs", "-f"], ["nightlatch", "show"],
    ]  # fmt: skip
    assert [line for line in shown.splitlines() if line and not line.startswith("  ")] == [
        "needs you (2)", "running (1)", "done (1)",
    ]  # fmt: skip
    assert "exit code 3" in shown


def test_status_as_json_is_one_object(sqlite_url):
    run(sqlite_url, "broken", "exit 3")
    run(sqlite_url, "report", "true")
    told = json.loads(nightlatch(sqlite_url, "status", "--json").stdout)
    assert told["version"] == 1
    assert [found["job"] for found in told["needs_you"]] == ["broken"]
    assert [found["job"] for found in told["done"]] == ["report"]
    assert told["running"] == told["waiting"] == []


def test_a_failure_is_not_hidden_by_many_successes_after_it(sqlite_url, monkeypatch, capsys):
    run(sqlite_url, "broken", "exit 3")
    for key in range(4):
        run(sqlite_url, "report", "true", key=str(key))
    monkeypatch.setattr(status, "_MOST", 2)
    status.main(["--store", sqlite_url])
    shown = capsys.readouterr().out
    assert "needs you (1)" in shown and "broken" in shown
    assert "done (2+)" in shown


def test_a_store_named_on_the_command_line_stands_in_the_commands_to_type(sqlite_url):
    run(sqlite_url, "report", "true")
    shown = nightlatch("", "--store", sqlite_url).stdout
    assert f"nightlatch --store {sqlite_url} show" in shown


def test_runs_are_filtered_by_job_state_time_and_number(sqlite_url):
    run(sqlite_url, "a", "true", key="1")
    run(sqlite_url, "a", "exit 1", key="2")
    run(sqlite_url, "b", "true", key="3")
    keys = lambda *words: [found["key"] for found in listed(sqlite_url, *words)]  # noqa: E731
    assert keys() == ["3", "2", "1"]
    assert keys("--job", "a") == ["2", "1"]
    assert keys("--state", "succeeded") == ["3", "1"]
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
    told = one(sqlite_url, "a")
    assert (told["version"], told["job"], told["key"], told["state"]) == (1, "a", "k", "failed")
    assert (told["attempt"], told["exit_code"], told["reason"]) == (1, 4, "exit code 4")
    assert told["created"] <= told["started"] <= told["ended"]
    assert told["token"] > 0 and told["head"].startswith("job:a:")


def test_a_state_that_does_not_exist_is_64_with_those_that_do(sqlite_url):
    assert "in-doubt" in said(nightlatch(sqlite_url, "runs", "--state", "broken"), 64)


def test_show_has_attempts_timeline_usage_progress_and_the_end_of_the_output(sqlite_url):
    run(sqlite_url, "a", "echo first; exit 1")
    run(
        sqlite_url, "a", f"{TOOL} progress 3/10 'three articles'; {TOOL} spend usd=0.25 tokens=900; echo second; exit 2"
    )
    found = one(sqlite_url, "a")
    shown = nightlatch(sqlite_url, "show", found["run"][:6]).stdout
    for text in ("failed", "exit code 2", "3/10 three articles", "usd=0.25 tokens=900", "| first", "| second"):
        assert text in shown
    for kind in ("opened", "started", "progress", "usage", "ended", "opened-again"):
        assert f"  {kind}  " in shown.replace("opened-again", " opened-again ")
    told = json.loads(nightlatch(sqlite_url, "show", found["run"], "--json").stdout)
    assert [attempt["exit_code"] for attempt in told["attempts"]] == [1, 2]
    assert told["attempts"][0]["token"] < told["attempts"][1]["token"]
    assert told["tail"] == ["first", "second"]
    kinds = [entry["kind"] for entry in told["timeline"]]
    assert kinds == ["opened", "started", "ended", "opened-again", "started", "progress", "usage", "ended"]
    assert told["usage"]["usd"] == 0.25


def test_show_has_what_was_refused(sqlite_url):
    run(sqlite_url, "a", "true")
    found = one(sqlite_url, "a")
    open_for(sqlite_url).note("a", "refusal", run=found["run"], gate="file:///srv/report", token=1, stands=2)
    shown = nightlatch(sqlite_url, "show", found["run"]).stdout
    assert "file:///srv/report" in shown.partition("refused")[2]


# The lease is taken from under the command: a newer holder seals the gate and writes; then the command writes too.
OVERTAKEN = """
{me} publish one {target} || exit 1
{me} lease release job --store {store} --force
{me} lock job --store {store} -- {me} publish two {target} --store {store} || exit 1
{me} publish one {target}
echo $? > refused
"""


def test_show_has_what_a_gate_refused_to_the_command_itself(sqlite_url, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    target = tmp_path / "target"
    script = OVERTAKEN.format(me=TOOL, target=target, store=sqlite_url)
    nightlatch(sqlite_url, "run", "job", "--key", "k", "--", "sh", "-c", script, cwd=tmp_path)
    assert target.read_text() == "two" and (tmp_path / "refused").read_text() in ("73\n", "123\n")
    shown = nightlatch(sqlite_url, "show", one(sqlite_url, "job")["run"]).stdout
    assert f"what=file://{identity.machine()}{target}" in shown.partition("\nrefused\n")[2], shown


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
    (told,) = map(json.loads, nightlatch(sqlite_url, "usage", "--json").stdout.splitlines())
    assert told == {"version": 1, "job": "a", "usd": 0.75, "tokens": 100, "calls": 2, "units": 0}
    days = [json.loads(line) for line in nightlatch(sqlite_url, "usage", "--by", "day", "--json").stdout.splitlines()]
    assert sum(day["usd"] for day in days) == 0.75 and all(len(day["day"]) == 10 for day in days)
    assert "0.7500" in nightlatch(sqlite_url, "usage", "--job", "a").stdout
    assert "nothing was used" in nightlatch(sqlite_url, "usage", "--job", "b").stdout


# ── output ──


def test_logs_pass_the_output_on_without_escapes_and_raw_with_them(sqlite_url):
    run(sqlite_url, "a", r"printf 'a\033[31mred\033[0m\n\033]0;title\007b\n'; echo err >&2")
    found = one(sqlite_url, "a")["run"]
    assert nightlatch(sqlite_url, "logs", found).stdout == "ared\nb\nerr\n"
    raw = nightlatch(sqlite_url, "logs", "--raw", found).stdout
    assert raw == "a\x1b[31mred\x1b[0m\n\x1b]0;title\x07b\nerr\n"


def test_logs_follow_until_the_run_ends(sqlite_url, tmp_path):
    running = Running(sqlite_url, tmp_path, "a")
    following = start(sqlite_url, "logs", "-f", running.id)
    assert following.stdout and following.stdout.readline() == "began\n"
    assert running.finish() == 0
    out, err = following.communicate(timeout=60)
    assert (following.returncode, out) == (0, "went on\n")
    assert "is succeeded" in err


def test_following_a_run_whose_holder_is_gone_ends_too(sqlite_url, lapsed):
    done = nightlatch(sqlite_url, "logs", "-f", lapsed)
    assert (done.returncode, done.stdout) == (0, "began\n")
    assert "lapsed" in done.stderr


def test_logs_of_what_has_not_begun_say_so(sqlite_url):
    waiting = open_for(sqlite_url).open_run("a", "k").id
    assert "nothing yet" in said(nightlatch(sqlite_url, "logs", waiting), 64)


def test_hostile_text_is_harmless_wherever_it_is_shown(sqlite_url):
    bad = "\x1b]0;owned\x07\x1b[2J\u202e"
    run(sqlite_url, "a", f"{TOOL} progress 1/2 \"$1\"; printf '%s\\n' '{bad}'; exit 1", key=f"k{bad}")
    nightlatch(sqlite_url, "run", "b", "--key", bad, "--", "sh", "-c", f'{TOOL} progress 1 "$1"; exit 1', "sh", bad)
    nightlatch(sqlite_url, "retry", one(sqlite_url, "b")["run"], env={"LOGNAME": f"me{bad}"})
    for words in ([], ["runs"], *(["show", found["run"]] for found in listed(sqlite_url))):
        shown = nightlatch(sqlite_url, *words).stdout
        assert [letter for letter in shown if not letter.isprintable() and letter != "\n"] == [], words
        assert "\\x1b" in shown
    for command in ("status", "runs"):
        assert nightlatch(sqlite_url, command, "--json").stdout.isascii()


@pytest.mark.parametrize(("more", "coloured"), [({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False)])
def test_colour_is_for_terminals_and_no_color_is_respected(sqlite_url, more, coloured):
    run(sqlite_url, "a", "true")
    ours, theirs = pty.openpty()
    env = environment(sqlite_url, TERM="xterm", **more)
    done = subprocess.run(NIGHTLATCH, env=env, stdout=theirs, stdin=subprocess.DEVNULL, timeout=60)
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert done.returncode == 0
    assert ("\x1b[" in shown) == coloured
    assert "\x1b" not in nightlatch(sqlite_url, env={"TERM": "xterm"}).stdout


# ── a holder that is gone ──


def test_a_run_whose_holder_was_killed_is_shown_as_lapsed(sqlite_url, lapsed):
    assert one(sqlite_url, "crawl")["state"] == "lapsed"
    assert [found["run"] for found in listed(sqlite_url, "--state", "lapsed")] == [lapsed]
    assert listed(sqlite_url, "--state", "running") == []
    assert f"nightlatch resolve {lapsed}" in nightlatch(sqlite_url).stdout
    assert "its holder is gone" in nightlatch(sqlite_url, "show", lapsed).stdout


def test_looking_changes_nothing(sqlite_url, lapsed):
    def standing() -> tuple[object, object, object]:
        ledger, store = open_for(sqlite_url), stores.connect(sqlite_url)
        record = store.read("crawl")
        assert record
        return ledger.run(lapsed), list(ledger.job_entries("crawl")), (record.token, record.grant, record.version)

    before = standing()
    for words in ([], ["runs"], ["show", lapsed], ["logs", lapsed], ["resolve", lapsed], ["usage"]):
        nightlatch(sqlite_url, *words)
    assert standing() == before


def test_a_run_that_works_is_not_lapsed(sqlite_url, tmp_path):
    running = Running(sqlite_url, tmp_path, "agent")
    assert one(sqlite_url, "agent")["state"] == "running"
    assert running.finish() == 0


def test_a_run_whose_lease_ran_out_is_lapsed_though_its_supervisor_lives(sqlite_url, tmp_path):
    running = Running(sqlite_url, tmp_path, "agent", "--ttl", "2s")
    os.kill(running.process.pid, signal.SIGSTOP)
    try:
        until(lambda: one(sqlite_url, "agent")["state"] == "lapsed", timeout=40)
    finally:
        os.kill(running.process.pid, signal.SIGCONT)
    running.process.communicate(timeout=60)
    assert one(sqlite_url, "agent")["state"] == "lost"


def test_neither_cancel_nor_retry_decides_a_lapsed_run(sqlite_url, lapsed):
    for command in ("cancel", "retry"):
        assert f"nightlatch resolve {lapsed}" in said(nightlatch(sqlite_url, command, lapsed), 76)


def test_a_batch_that_died_is_to_be_started_again_and_its_steps_are_counted(sqlite_url, tmp_path):
    (tmp_path / "items").write_text("".join(f"{number}\n" for number in range(7)))
    stuck = tmp_path / "stuck"
    script = f'[ "$1" != 6 ] || {{ echo $$ > {stuck}; exec sleep 60; }}; echo "wrote $1"'
    batch = ["batch", "posts", str(tmp_path / "items"), "--", "sh", "-c", script, "-", "{}"]
    process = start(sqlite_url, *batch)
    until(lambda: stuck.exists() and stuck.read_text())
    for pid in (process.pid, *children(process.pid), int(stuck.read_text())):
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            pass  # the warden was faster
    process.communicate()
    (row,) = (line for line in nightlatch(sqlite_url).stdout.splitlines() if "lapsed" in line)
    assert f"nightlatch batch posts {tmp_path}/items -- sh -c" in row
    shown = nightlatch(sqlite_url, "show", "posts").stdout
    assert "  command   batch posts -- sh -c" in shown
    assert "  steps    6 done, the last 5; begun: 6\n" in shown, shown
    assert shown.count("nightlatch batch posts") == 2  # in the timeline, and under next
    assert nightlatch(sqlite_url, "logs", "posts").stdout.splitlines() == [f"wrote {number}" for number in range(6)]


# ── deciding ──


def test_cancel_from_another_process_ends_the_command_with_120(sqlite_url, tmp_path):
    running = Running(sqlite_url, tmp_path, "agent", "--grace", "1s")
    done = nightlatch(sqlite_url, "cancel", running.id[:8], env={"LOGNAME": "ann"})
    assert done.returncode == 0
    assert "asked to end" in done.stdout
    _, err = running.process.communicate(timeout=30)
    assert running.process.returncode == 120
    assert "cancelled by ann@" in err
    assert one(sqlite_url, "agent")["state"] == "cancelled"


def test_what_nobody_has_begun_is_cancelled_at_once(sqlite_url):
    run(sqlite_url, "a", "exit 1")
    found = one(sqlite_url, "a")["run"]
    nightlatch(sqlite_url, "retry", found)
    assert "is cancelled" in nightlatch(sqlite_url, "cancel", found).stdout
    assert one(sqlite_url, "a")["state"] == "cancelled"


def test_what_has_ended_cannot_be_cancelled(sqlite_url):
    run(sqlite_url, "a", "true")
    assert "ended already" in said(nightlatch(sqlite_url, "cancel", one(sqlite_url, "a")["run"]), 64)


def test_retry_makes_it_pending_and_says_how_it_is_started(sqlite_url):
    run(sqlite_url, "a", "exit 1", key="a key")
    found = one(sqlite_url, "a")["run"]
    done = nightlatch(sqlite_url, "retry", found)
    assert done.returncode == 0
    assert "nightlatch run a --key 'a key' -- …" in done.stdout
    assert one(sqlite_url, "a")["state"] == "pending"
    assert run(sqlite_url, "a", "true", key="a key").returncode == 0
    told = one(sqlite_url, "a")
    assert (told["run"], told["state"], told["attempt"]) == (found, "succeeded", 2)


def test_what_succeeded_is_not_retried(sqlite_url):
    run(sqlite_url, "a", "true")
    assert "--again" in said(nightlatch(sqlite_url, "retry", one(sqlite_url, "a")["run"]), 64)


def test_what_is_in_doubt_is_not_retried_before_it_is_resolved(sqlite_url, in_doubt):
    assert f"nightlatch resolve {in_doubt}" in said(nightlatch(sqlite_url, "retry", in_doubt), 76)


def test_resolve_without_an_outcome_lists_the_choices_each_ready_to_type(sqlite_url, in_doubt):
    done = nightlatch(sqlite_url, "resolve", in_doubt)
    assert done.returncode == 76 and "is in-doubt: " in done.stdout
    told = nightlatch(sqlite_url, "resolve", in_doubt, "--json")
    assert told.returncode == 76 and json.loads(told.stdout)["outcomes"] == ["done", "failed", "again"]
    for outcome in ("done", "failed", "again"):
        assert f"nightlatch resolve {in_doubt} {outcome} " in done.stdout
    assert "|" not in done.stdout
    assert one(sqlite_url, "crawl")["state"] == "in-doubt"


def test_resolved_as_done_is_not_done_again_on_any_machine(sqlite_url, in_doubt):
    assert nightlatch(sqlite_url, "resolve", in_doubt, "done", env={"LOGNAME": "ann"}).returncode == 0
    told = json.loads(nightlatch(sqlite_url, "show", in_doubt, "--json").stdout)
    assert told["state"] == "succeeded"
    assert told["timeline"][-1]["kind"] == "resolved"
    assert told["timeline"][-1]["facts"]["by"].startswith("ann@")
    done = stores.connect(sqlite_url).look("crawl", "k")  # what machines share; the ledger may be each one's own
    assert done and done.value == in_doubt
    again = run(sqlite_url, "crawl", "echo ran")
    assert (again.returncode, again.stdout) == (0, "")
    assert "status=skipped" in again.stderr


@pytest.mark.parametrize(("outcome", "state"), [("failed", "failed"), ("again", "pending")])
def test_resolved_as_failed_or_again_it_is_attempted_again(sqlite_url, in_doubt, outcome, state):
    assert nightlatch(sqlite_url, "resolve", in_doubt, outcome).returncode == 0
    assert one(sqlite_url, "crawl")["state"] == state
    again = run(sqlite_url, "crawl", "echo ran")
    assert (again.returncode, again.stdout) == (0, "ran\n")


@pytest.mark.parametrize(("outcome", "state"), [("done", "succeeded"), ("failed", "failed"), ("again", "pending")])
def test_a_lapsed_run_is_taken_over_and_decided(sqlite_url, lapsed, outcome, state):
    done = nightlatch(sqlite_url, "resolve", lapsed, outcome)
    assert done.returncode == 0, done.stderr
    told = json.loads(nightlatch(sqlite_url, "show", lapsed, "--json").stdout)
    assert told["state"] == state
    assert [attempt["state"] for attempt in told["attempts"]] == ["lost"]
    assert (stores.connect(sqlite_url).look("crawl", "k") is not None) == (outcome == "done")
    assert '"held": false' in nightlatch(sqlite_url, "lease", "show", "crawl", "--json").stdout


def test_what_needs_attention_is_pending_again_when_it_is_resolved_so(sqlite_url):
    ledger = open_for(sqlite_url)
    waiting = ledger.attention(ledger.open_run("a", "k").id, "a gate cannot be sealed", "nightlatch").id
    assert "a gate cannot be sealed" in nightlatch(sqlite_url).stdout
    assert nightlatch(sqlite_url, "resolve", waiting, "again").returncode == 0
    assert one(sqlite_url, "a")["state"] == "pending"


def test_done_waits_for_the_jobs_lease_and_says_who_has_it(sqlite_url, tmp_path, in_doubt):
    other = Running(sqlite_url, tmp_path, "crawl", key="other")
    assert "crawl is held by" in said(nightlatch(sqlite_url, "resolve", in_doubt, "done", "--wait", "0s"), 75)
    assert other.finish() == 0
    assert nightlatch(sqlite_url, "resolve", in_doubt, "done").returncode == 0


def test_there_is_nothing_to_resolve_in_a_run_that_ended(sqlite_url):
    run(sqlite_url, "a", "exit 1")
    found = one(sqlite_url, "a")["run"]
    assert "nothing to resolve" in said(nightlatch(sqlite_url, "resolve", found, "done"), 64)
    assert "none of done" in said(nightlatch(sqlite_url, "resolve", found, "maybe"), 64)
