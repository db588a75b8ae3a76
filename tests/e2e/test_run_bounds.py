"""The bounds of `nightlatch run`: what hangs, overspends or fails is ended, or tried again, as asked."""

from __future__ import annotations

import json

import pytest

from tests.support.programs import TOOL, faketime, midday, nightlatch
from tests.support.runs import run_job


def test_what_hangs_is_ended_and_what_makes_progress_is_not(sqlite_url, tmp_path):
    hangs = run_job(
        sqlite_url, "--stall", "1s", "--progress", "report", "--", "sh", "-c", "while :; do echo busy; sleep 0.1; done"
    )
    assert hangs.returncode == 122
    assert "status=stalled" in hangs.stderr
    out = tmp_path / "out"
    out.mkdir()
    works = f"for i in $(seq 12); do sleep 0.5; echo $i > {out}/$i; done"
    assert (
        run_job(sqlite_url, "--new", "--stall", "5s", "--progress", str(out), "--", "sh", "-c", works).returncode == 0
    )


def test_reported_progress_is_progress(sqlite_url):
    script = f"for i in $(seq 8); do sleep 0.7; {TOOL} progress $i/8 'step $i'; done"
    done = run_job(sqlite_url, "--stall", "5s", "--progress", "report", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr


def test_a_run_that_passes_its_budget_is_ended(sqlite_url):
    script = f"{TOOL} spend usd=0.7 tokens=10; {TOOL} spend usd=0.7; sleep 600"
    done = run_job(sqlite_url, "--budget", "usd=1", "--meter", "report", "--", "sh", "-c", script)
    assert done.returncode == 121
    assert "usd=1.4" in done.stderr
    assert "tokens=10" in done.stderr


def test_a_runs_budget_counts_all_its_attempts(sqlite_url, tmp_path):
    words = ("--key", "k", "--budget", "usd=2", "--meter", "report")
    spend = f"{TOOL} spend usd=$1 && echo spent >> {tmp_path}/said; sleep $2; exit 1"
    assert run_job(sqlite_url, *words, "--", "sh", "-c", spend, "sh", "1.5", "0").returncode == 1
    second = run_job(sqlite_url, *words, "--", "sh", "-c", f"{TOOL} spend usd=0.3; {spend}", "sh", "0.3", "600")
    assert second.returncode == 121, second.stderr
    assert "usd=2.1 " in second.stderr
    third = run_job(sqlite_url, *words, "--", "echo", "never")
    assert (third.returncode, third.stdout) == (121, "") and "with a higher --budget" in third.stderr
    assert run_job(sqlite_url, *words[:2], "--budget", "usd=3", "--meter", "report", "--", "true").returncode == 0
    # Asked for once more it is work of its own, with the whole budget.
    assert run_job(sqlite_url, *words, "--again", "--", "sh", "-c", f"{TOOL} spend usd=1.9").returncode == 0
    assert run_job(sqlite_url, "--budget", "usd=0", "--meter", "report", "--new", "--", "true").returncode == 0


def test_retries_share_the_runs_budget(sqlite_url, tmp_path):
    script = f"echo x >> {tmp_path}/tries; {TOOL} spend usd=1.5; [ $NIGHTLATCH_ATTEMPT = 1 ] || sleep 600; exit 1"
    retries = ("--retries", "5", "--backoff", "10ms", "--budget", "usd=2", "--meter", "report")
    done = run_job(sqlite_url, *retries, "--", "sh", "-c", script)
    assert done.returncode == 121, done.stderr
    assert (tmp_path / "tries").read_text() == "x\n" * 2


def test_a_day_whose_budget_is_spent_starts_nothing(sqlite_url):
    words, noon = ("--budget", "usd/day=1", "--meter", "report", "--"), midday()
    assert run_job(sqlite_url, "--key", "a", *words, "sh", "-c", f"{TOOL} spend usd=1", env=noon).returncode == 0
    done = run_job(sqlite_url, "--key", "b", *words, "echo", "never", env=noon)
    assert (done.returncode, done.stdout) == (121, "")
    assert "usd/day=1" in done.stderr


def test_two_machines_in_two_time_zones_do_not_pass_one_days_cap_twice(sqlite_url):
    """Los Angeles spends the day's budget at 6 a.m. Three hours later a new day has begun in Tokyo, but not there."""
    words = ("--budget", "usd/day=1", "--meter", "report", "--")
    there = {"TZ": "America/Los_Angeles", **faketime("2026-11-17 06:00:00")}
    assert run_job(sqlite_url, "--key", "a", *words, "sh", "-c", f"{TOOL} spend usd=1", env=there).returncode == 0
    here = {"TZ": "Asia/Tokyo", **faketime("2026-11-18 02:00:00")}
    done = run_job(sqlite_url, "--key", "b", *words, "echo", "never", env=here)
    assert (done.returncode, done.stdout) == (121, ""), done.stderr
    tomorrow = {"TZ": "Asia/Tokyo", **faketime("2026-11-18 18:00:00")}
    assert run_job(sqlite_url, "--key", "b", *words, "true", env=tomorrow).returncode == 0


CLAUDE = json.dumps(
    {
        "type": "result",
        "is_error": False,
        "total_cost_usd": 0.25,
        "num_turns": 3,
        "usage": {"input_tokens": 90, "output_tokens": 10},
    }
)
CODEX = json.dumps(
    {"type": "turn.completed", "usage": {"input_tokens": 90, "cached_input_tokens": 40, "output_tokens": 10}}
)


@pytest.mark.parametrize(
    ("printed", "facts"), [(CLAUDE, ["usd=0.25", "tokens=100", "calls=3"]), (CODEX, ["tokens=100", "calls=1"])]
)
def test_usage_is_read_from_what_agents_print(sqlite_url, printed, facts):
    done = run_job(sqlite_url, "--meter", "output", "--", "echo", printed)
    assert done.stdout == printed + "\n"
    for fact in facts:
        assert fact in done.stderr


def test_an_agent_whose_result_says_is_error_has_failed_whatever_its_exit_code(sqlite_url, tmp_path):
    (tmp_path / "said").write_text(json.dumps(json.loads(CLAUDE) | {"is_error": True, "result": "API Error: 529"}))
    (tmp_path / "items").write_text("a\n")
    says = ("cat", str(tmp_path / "said"))
    done = run_job(sqlite_url, "--key", "k", "--meter", "output", "--", *says)
    assert done.returncode == 1 and "status=failed" in done.stderr and "usd=0.25" in done.stderr
    assert 'reason="its final JSON says is_error"' in done.stderr
    assert run_job(sqlite_url, "--key", "k", "--", *says).returncode == 0  # only where its output is read
    words = ("batch", "b", str(tmp_path / "items"), "--meter", "output", "--budget", "usd=9", "--", *says)
    item = nightlatch(sqlite_url, *words)
    assert item.returncode == 1 and "failed: a (its final JSON says is_error" in item.stderr


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--stall", "5m"], "needs a source of progress"),
        (["--budget", "eur=2", "--meter", "report"], "not understood"),
        (["--budget", "usd=lots", "--meter", "report"], "has no valid amount"),
        (["--slot", "soon"], "is not a schedule"),
        (["--slot", "0 2 * * *", "--tz", "Mars/Olympus"], "time zone"),
        (["--slot", "0 2 * * *", "--key", "k"], "drop --key"),
        (["--cwd", "/nowhere"], "no such folder"),
        (["--env", "A"], "NAME=VALUE"),
        (["--env", "NIGHTLATCH_GRANT=x"], "another name"),
        (["--slot", "0 0 2 * * *"], "write five"),
        (["--timeout", "5"], "ambiguous"),
        (["--lost", "perhaps"], "use one of again, doubt"),
    ],
)
def test_bad_bounds_are_refused_with_what_to_add(sqlite_url, words, hint):
    done = run_job(sqlite_url, *words, "--", "echo", "never")
    assert (done.returncode, done.stdout) == (64, "")
    assert hint in done.stderr


def test_a_failed_command_is_tried_again_with_a_new_token_each_time(sqlite_url, tmp_path):
    script = f'echo $NIGHTLATCH_TOKEN >> {tmp_path}/tokens; [ "$NIGHTLATCH_ATTEMPT" = 3 ]'
    done = run_job(sqlite_url, "--retries", "5", "--backoff", "10ms", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    tokens = (tmp_path / "tokens").read_text().split()
    assert len(tokens) == 3
    assert tokens == sorted(set(tokens))


@pytest.mark.parametrize("code", [64, 78, 127])
def test_a_mistake_is_not_tried_again(sqlite_url, tmp_path, code):
    done = run_job(
        sqlite_url, "--retries", "5", "--backoff", "10ms", "--", "sh", "-c", f"echo x >> {tmp_path}/tries; exit {code}"
    )
    assert done.returncode == code
    assert (tmp_path / "tries").read_text() == "x\n"
