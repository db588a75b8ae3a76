"""What needs you can be cleared: by `nightlatch ack`, by what other machines did, by Ctrl-C."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from nightlatch.ledger import open_for
from nightlatch.system import identity
from tests.support.programs import NIGHTLATCH, environment, nightlatch, said, start
from tests.support.runs import listed, one, run


@contextmanager
def run_in_background(url: str, job: str) -> Iterator[None]:
    running = start(url, "run", job, "--key", "long", "--", "sh", "-c", "echo ready; read _", stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE)  # fmt: skip
    assert running.stdout and running.stdout.readline() == "ready\n"
    yield
    running.communicate("\n")


def needing_you(url: str) -> list[str]:
    return [found["job"] for found in json.loads(nightlatch(url, "status", "--json").stdout)["needs_you"]]


def test_ack_clears_a_failed_run_until_it_fails_again_and_the_journal_says_who(sqlite_url):
    run(sqlite_url, "broken", "exit 3")
    found = one(sqlite_url, "broken")["run"]
    assert needing_you(sqlite_url) == ["broken"]
    assert nightlatch(sqlite_url, "ack", found[:6]).returncode == 0
    assert needing_you(sqlite_url) == []
    assert nightlatch(sqlite_url, "status", "--exit-code").returncode == 0
    entries = [entry for entry in open_for(sqlite_url).journal.of_job("broken") if entry.kind == "acknowledged"]
    assert entries[0].facts == {"run": found, "attempt": "1", "by": f"{identity.user()}@{identity.host()}"}
    assert "has seen it" in nightlatch(sqlite_url, "show", found).stdout
    assert nightlatch(sqlite_url, "audit", "verify").returncode == 0
    run(sqlite_url, "broken", "exit 3")
    assert needing_you(sqlite_url) == ["broken"]


def test_ack_takes_several_runs_jobs_or_all(sqlite_url):
    for job in ("a", "b", "c", "d"):
        run(sqlite_url, job, "exit 3")
    assert nightlatch(sqlite_url, "ack", "a", one(sqlite_url, "b")["run"]).returncode == 0
    assert sorted(needing_you(sqlite_url)) == ["c", "d"]
    assert nightlatch(sqlite_url, "ack", "--all").stdout.count("no longer needs you") == 2
    assert needing_you(sqlite_url) == []


def test_ack_does_not_clear_what_needs_a_decision_or_nobody(sqlite_url, in_doubt):
    assert f"nightlatch resolve {in_doubt}" in said(nightlatch(sqlite_url, "ack", in_doubt), 76)
    run(sqlite_url, "well", "true")
    assert "nothing to mark as seen" in said(nightlatch(sqlite_url, "ack", "well"), 64)
    assert "--all" in said(nightlatch(sqlite_url, "ack"), 64)


def test_a_row_whose_key_another_machine_did_clears_itself_and_retry_says_so(git_url, tmp_path):
    url = git_url
    here, there = ({"XDG_STATE_HOME": str(tmp_path / name)} for name in ("here", "there"))
    words = ("run", "job", "--key", "k", "--", "sh", "-c")
    assert nightlatch(url, *words, "exit 3", env=here).returncode == 3
    assert nightlatch(url, *words, "true", env=there).returncode == 0
    assert nightlatch(url, "status", "--exit-code", env=here).returncode == 0
    found = json.loads(nightlatch(url, "runs", "--json", env=here).stdout)["run"]
    assert "done, on another machine" in said(nightlatch(url, "retry", found, env=here), 64)


@pytest.mark.parametrize("script", ["sleep 60", "trap 'exit 130' INT; while :; do sleep 0.1; done"])
def test_ctrl_c_at_a_terminal_is_cancelled_and_needs_nobody(sqlite_url, script):
    words = [*NIGHTLATCH, "run", "job", "--key", "k", "--", "sh", "-c", f"echo ready; {script}"]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(words[0], words, environment(sqlite_url))
    shown = b""
    while b"ready" not in shown:
        shown += os.read(terminal, 1000)
    os.write(terminal, b"\x03")
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 130
    (found,) = listed(sqlite_url)
    assert (found["status"], needing_you(sqlite_url)) == ("cancelled", [])


def test_starts_that_were_refused_leave_one_growing_record_for_each_cause_and_no_run(sqlite_url):
    spends = ("run", "agent", "--budget", "usd/day=1", "--meter", "report", "--key")
    assert nightlatch(sqlite_url, *spends, "a", "--", *NIGHTLATCH, "spend", "usd=2").returncode in (0, 121)
    for key in ("b", "c", "d"):
        assert nightlatch(sqlite_url, *spends, key, "--", "true").returncode == 121
    with run_in_background(sqlite_url, "agent"):
        for _ in range(2):
            assert nightlatch(sqlite_url, "run", "agent", "--key", "e", "--", "true").returncode == 75
    assert {found["key"] for found in listed(sqlite_url)} == {"a", "long"}
    starts = {one.cause: one.count for one in open_for(sqlite_url).refused_starts.of("agent")}
    assert starts == {"budget": 3, "held": 2}
    shown = nightlatch(sqlite_url, "show", "agent").stdout
    assert "3 times since" in shown and "2 times since" in shown and "its budget usd/day=1 is spent" in shown


def test_a_job_whose_budget_is_spent_is_on_the_first_screen_until_it_starts_again(sqlite_url):
    words = ("run", "agent", "--meter", "report", "--key")
    assert nightlatch(sqlite_url, *words, "a", "--", *NIGHTLATCH, "spend", "usd=2").returncode == 0
    for _ in range(2):
        assert nightlatch(sqlite_url, *words, "b", "--budget", "usd/day=1", "--", "true").returncode == 121
    for form in ("", "--markdown", "--html"):
        assert "2 times since" in nightlatch(sqlite_url, "status", *filter(None, [form])).stdout
    assert nightlatch(sqlite_url, "status", "--exit-code").returncode == 0, "tomorrow it starts by itself"
    assert nightlatch(sqlite_url, *words, "b", "--budget", "usd/day=9", "--", "true").returncode == 0
    assert "times since" not in nightlatch(sqlite_url, "status").stdout
