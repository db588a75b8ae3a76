"""Hints that can be pasted, and `nightlatch retry`, which starts what was recorded."""

from __future__ import annotations

import json
import shlex
import subprocess

import pytest

from nightlatch.core import advice
from nightlatch.core.job import Job
from nightlatch.core.options import RUN, as_flag, rows
from nightlatch.ledger import open_for
from nightlatch.runtime.shared import recorded_start
from tests.support.programs import nightlatch, said
from tests.support.runs import Running, one, run

FAILS_ONCE = 'printf "%s\\n" "$PWD" "$GREETING" "$@" >> seen; test -e mended'


def failed(url, folder, *words):
    """A run with awkward words that fails until a file `mended` is there."""
    env = ("--env", "GREETING=good 'morning'")
    command = ("sh", "-c", FAILS_ONCE, "sh", "a b", "it's $HOME", "*")
    done = nightlatch(url, "run", "job", "--key", "k", *env, *words, "--", *command, cwd=folder)
    assert done.returncode == 1, done.stderr
    return one(url, "job")["run"]


def test_retry_starts_the_same_words_options_and_folder_from_anywhere(sqlite_url, tmp_path):
    work, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
    work.mkdir()
    elsewhere.mkdir()
    found = failed(sqlite_url, work, "--timeout", "90s")
    (work / "mended").touch()
    done = nightlatch(sqlite_url, "retry", found, cwd=elsewhere)
    assert done.returncode == 0, done.stderr
    first, second = (work / "seen").read_text().splitlines()[:5], (work / "seen").read_text().splitlines()[5:]
    assert first == second == [str(work), "good 'morning'", "a b", "it's $HOME", "*"]
    report = one(sqlite_url, "job")
    assert (report["run"], report["status"], report["attempt"]) == (found, "succeeded", 2)
    kept = open_for(sqlite_url).run(found)
    recorded = kept and recorded_start.find(open_for(sqlite_url), kept)
    assert recorded and recorded.job.timeout == 90


def test_the_recorded_command_can_be_pasted_into_a_shell(sqlite_url, tmp_path):
    failed(sqlite_url, tmp_path)
    assert shlex.split(one(sqlite_url, "job")["command"])[-3:] == ["a b", "it's $HOME", "*"]


def test_retry_with_later_only_allows_the_attempt(sqlite_url, tmp_path):
    found = failed(sqlite_url, tmp_path)
    done = nightlatch(sqlite_url, "retry", found, "--later")
    assert done.returncode == 0 and f"nightlatch retry {found}" in done.stdout
    assert one(sqlite_url, "job")["status"] == "pending"


def test_where_a_secret_was_taken_out_the_line_to_complete_is_printed_and_nothing_started(sqlite_url, tmp_path):
    words = ("run", "job", "--key", "k", "--timeout", "5m", "--", "sh", "-c", "exit 1", "sh", "hunter2hunter2")
    nightlatch(sqlite_url, *words, cwd=tmp_path, env={"API_TOKEN": "hunter2hunter2"})
    done = nightlatch(sqlite_url, "retry", one(sqlite_url, "job")["run"])
    line = done.stdout.splitlines()[-1]
    assert done.returncode == 0 and "secrets were removed" in done.stdout and "hunter2" not in done.stdout
    assert shlex.split(line)[:2] == ["cd", str(tmp_path)]
    assert shlex.split(line)[3:] == ["nightlatch", *words[:-1], "[API_TOKEN]"]
    assert one(sqlite_url, "job")["attempt"] == 1


def test_what_succeeded_is_done_once_more_by_retry_with_again(sqlite_url, tmp_path):
    run(sqlite_url, "a", f"echo x >> {tmp_path}/acts")
    found = one(sqlite_url, "a")["run"]
    assert f"nightlatch retry {found} --again" in said(nightlatch(sqlite_url, "retry", found), 64)
    assert nightlatch(sqlite_url, "retry", found, "--again").returncode == 0
    assert (tmp_path / "acts").read_text() == "x\nx\n"


def test_a_batch_is_retried_as_it_was_started(sqlite_url, tmp_path):
    (tmp_path / "items").write_text("a\nb\n")
    words = ("batch", "posts", "items", "--", "sh", "-c", "echo $0 >> seen; test -e mended", "{}")
    assert nightlatch(sqlite_url, *words, cwd=tmp_path).returncode == 1
    (tmp_path / "mended").touch()
    assert nightlatch(sqlite_url, "retry", "posts").returncode == 0
    assert sorted((tmp_path / "seen").read_text().split()) == ["a", "a", "b", "b"]


def test_a_batch_from_standard_input_says_what_to_type(sqlite_url, tmp_path):
    nightlatch(sqlite_url, "batch", "posts", "-", "--", "false", "{}", input="a\n", cwd=tmp_path)
    done = nightlatch(sqlite_url, "retry", "posts")
    assert "standard input" in done.stdout and "nightlatch batch posts - -- false '{}'" in done.stdout


@pytest.mark.parametrize("command", ["run", "lock", "once"])
def test_a_literal_ellipsis_is_refused_and_burns_no_attempt(sqlite_url, command):
    run(sqlite_url, "a", "exit 1")
    assert "literal …" in said(nightlatch(sqlite_url, command, "a", "--", "…"), 64)
    assert one(sqlite_url, "a")["attempt"] == 1


@pytest.mark.parametrize("word", ["", "a b", "it's", "$HOME", "`x`", "a\nb", "ü", "-", "x;y", "!", "~", "a\\b"])
def test_a_quoted_word_is_the_same_word_for_a_shell(word):
    done = subprocess.run(["bash", "-c", f"printf %s {advice.quoted(word)}"], capture_output=True, text=True)
    assert done.stdout == word


def test_every_option_of_a_run_can_be_typed_again():
    """What is printed for a run that cannot be started here is read back as the same job."""
    from nightlatch.core.target import Command
    from nightlatch.runtime.shared.job import read

    values = {
        "tz": None, "ttl": "90s", "wait": "250ms", "timeout": "none", "stall": "1h1m1s", "progress": ["report", "./out"],
        "grace": "3s", "budget": "usd=2,usd/day=10", "meter": "report", "env": ["A=b c", "D="], "cwd": "/", "retries": 3,
        "workspace": "scratch", "publish": ["a=b", "c=d"], "input": [], "lost": "again", "pass_store": True,
        "keep_awake": True, "backoff": "1m", "require": ["test -e a"], "ensure": ["test -e b"], "ping": "https://example.org/p",
    }  # fmt: skip
    missing = {"key", "slot", "again", "new"} ^ (rows(Job, RUN).keys() - values.keys())
    assert not missing, f"give a value for {missing}"
    given = {name: value for name, value in values.items() if value not in (None, [])}
    made = read("job", Command(words=("true",)), given | {"key": "k"}, RUN)
    words = recorded_start.RecordedStart(job=made, folder="/", hidden=False).typed()
    assert words
    found: dict[str, object] = {}
    flags = list(words[2 : words.index("--")])
    while flags:
        name = flags.pop(0)
        row = next(row for row in rows(Job, RUN).values() if as_flag(row.name) == name)
        value: object = True if row.flag else int(flags.pop(0)) if row.number else flags.pop(0)
        found[row.name] = [*found.get(row.name, []), value] if row.many else value  # type: ignore[misc]
    assert read("job", Command(words=("true",)), found, RUN) == made


def test_cancel_and_retry_take_a_jobs_name(sqlite_url, tmp_path):
    running = Running(sqlite_url, tmp_path, "agent", "--grace", "1s")
    assert nightlatch(sqlite_url, "cancel", "agent").returncode == 0
    running.process.communicate(timeout=60)
    assert one(sqlite_url, "agent")["status"] == "cancelled"
    assert "agent" in json.loads(nightlatch(sqlite_url, "retry", "agent", "--later", "--json").stdout)["job"]
    nightlatch(sqlite_url, "run", "agent", "--key", "other", "--", "false")
    nightlatch(sqlite_url, "retry", "agent", "--later")
    assert "2 such runs" in said(nightlatch(sqlite_url, "cancel", "agent"), 64)


def test_resolving_as_failed_names_a_command_that_can_be_pasted(sqlite_url, in_doubt):
    done = nightlatch(sqlite_url, "resolve", in_doubt, "failed")
    assert done.stdout.rstrip().endswith(f"nightlatch retry {in_doubt}")
