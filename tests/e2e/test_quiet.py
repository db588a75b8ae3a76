"""What a run prints: one short line for people, logfmt elsewhere, and with --quiet nothing unless somebody is needed."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

from nightlatch.runtime.shared import verdict
from tests.support.programs import NIGHTLATCH, TOOL, environment, nightlatch
from tests.support.runs import Running, one, run


def on_a_terminal(url: str, *words: str) -> str:
    """What the command shows on a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([*NIGHTLATCH, *words], env=environment(url), stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while data := os.read(ours, 4096):
            shown += data
    except OSError:  # EIO: the last writer is gone
        pass
    process.wait()
    os.close(ours)
    return shown.decode().replace("\r\n", "\n")


def test_on_a_terminal_a_run_ends_with_one_line_for_people(sqlite_url):
    script = f"{TOOL} spend usd=0.83"
    shown = on_a_terminal(sqlite_url, "run", "articles", "--key", "k", "--timeout", "1m", "--", "sh", "-c", script)
    made = one(sqlite_url, "articles")["run"]
    assert re.fullmatch(rf"articles: succeeded in \S+, \$0\.83 · nightlatch show {made}\n", shown), shown
    again = on_a_terminal(sqlite_url, "run", "articles", "--key", "k", "--timeout", "1m", "--", "true")
    assert again == f"articles: skipped, its key is done · nightlatch show {made}\n"
    failed = on_a_terminal(sqlite_url, "run", "broken", "--timeout", "1m", "--", "false")
    assert re.fullmatch(r"broken: failed in \S+, exit code 1 · nightlatch show \w+\n", failed), failed


def test_a_slot_that_had_its_attempts_is_quiet_for_cron_and_not_for_a_person_who_types_the_line(sqlite_url):
    words = ("run", "articles", "--slot", "@daily", "--timeout", "1m", "--quiet", "--", "false")
    for _ in range(3):
        assert "status=failed" in nightlatch(sqlite_url, *words).stderr
    assert nightlatch(sqlite_url, *words).stderr == ""
    assert "3 attempts were made at this slot; allow another: nightlatch retry" in on_a_terminal(sqlite_url, *words)


def test_on_a_terminal_a_batch_says_how_its_command_gets_an_item_that_it_does_not_name(sqlite_url, tmp_path):
    (tmp_path / "items").write_text("one\n")
    note = "nightlatch: the command has no placeholder such as {}, so it gets each item on standard input"
    assert note in on_a_terminal(sqlite_url, "batch", "a", f"{tmp_path}/items", "--", "cat")
    assert note not in on_a_terminal(sqlite_url, "batch", "b", f"{tmp_path}/items", "--", "echo", "{}")


def test_elsewhere_a_run_ends_with_one_line_for_grep(sqlite_url):
    done = run(sqlite_url, "articles", "echo words")
    assert done.stdout == "words\n" and done.stderr.startswith("ts=") and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["run", "well", "--key", "k", "--", "sh", "-c", "echo out; echo err >&2"], 0),
        (["run", "well", "--key", "k", "--", "sh", "-c", "echo out"], 0),
        (["run", "busy", "--key", "k", "--held-ok", "--", "echo", "out"], 0),
        (["run", "busy", "--key", "k", "--", "echo", "out"], 75),
        (["batch", "items", "items.txt", "--", "echo"], 0),
    ],
    ids=["succeeded", "skipped", "held-ok", "held", "batch"],
)
def test_quiet_prints_nothing_when_all_is_well(sqlite_url, tmp_path, words, code):
    (tmp_path / "items.txt").write_text("a\nb\n")
    busy = Running(sqlite_url, tmp_path, "busy") if "busy" in words else None
    run(sqlite_url, "well", "true", key="k" if words[-1] == "echo out" else "other")
    done = nightlatch(sqlite_url, words[0], words[1], "--quiet", *words[2:], cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")
    if busy:
        busy.finish()


def test_quiet_says_what_failed_with_the_end_of_its_output_and_its_output_is_kept(sqlite_url):
    done = run(sqlite_url, "broken", "echo out; echo why >&2; exit 3", "--quiet")
    line, *tail = done.stderr.splitlines()
    assert done.returncode == 3 and done.stdout == "" and "status=failed" in line
    assert sorted(tail) == ["  | out", "  | why"]
    assert "out" in nightlatch(sqlite_url, "logs", one(sqlite_url, "broken")["run"]).stdout


def test_quiet_says_what_needs_a_person(sqlite_url, in_doubt):
    done = run(sqlite_url, "crawl", "true", "--quiet")
    assert done.returncode == 76 and "nightlatch resolve" in done.stderr


def test_quiet_says_only_once_that_a_slot_has_had_its_attempts(sqlite_url):
    words = ("run", "nightly", "--slot", "0 2 * * *", "--quiet", "--", "false")
    said = [nightlatch(sqlite_url, *words).stderr for _ in range(7)]
    assert said[0] and said[-1] == "", said


def test_status_with_exit_code_is_1_when_something_needs_you_and_silent_otherwise(sqlite_url):
    run(sqlite_url, "report", "true")
    calm = nightlatch(sqlite_url, "status", "--exit-code")
    assert (calm.returncode, calm.stdout, calm.stderr) == (0, "", "")
    run(sqlite_url, "broken", "exit 3")
    needed = nightlatch(sqlite_url, "status", "--exit-code")
    assert needed.returncode == 1 and "broken" in needed.stdout
    assert nightlatch(sqlite_url, "status").returncode == 0


def test_runs_log_is_rotated_and_no_line_is_lost(tmp_path, monkeypatch):
    line = verdict.Verdict(job="a", key="k", status="succeeded", exit_code=0).line() + "\n"
    monkeypatch.setattr(verdict, "LOG_CAP", len(line) * 2)
    log, older = tmp_path / "runs.log", tmp_path / "runs.log.1"
    for number in range(5):
        verdict.append(str(tmp_path), verdict.Verdict(job="a", key="k", status="succeeded", exit_code=0))
        lines = sum(path.read_text().count("\n") for path in (log, older) if path.exists())
        assert lines == [1, 2, 3, 4, 5][number]
    assert older.read_text().count("\n") == 3


def test_of_two_runs_that_find_the_log_too_large_the_second_does_not_put_the_new_one_in_its_place(tmp_path: Path):
    path = tmp_path / "runs.log"
    path.write_text("old\n")
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    path.rename(f"{path}.1")  # the first run's rotation
    path.write_text("new\n")
    verdict._rotate(fd, str(path))
    os.close(fd)
    assert (path.read_text(), Path(f"{path}.1").read_text()) == ("new\n", "old\n")


def test_runs_log_is_json_where_the_file_says_so(sqlite_url, tmp_path):
    file = tmp_path / "nightlatch.toml"
    for text, is_json in (('log = "json"  # for jq\n[jobs.x]\ncommand = "true"\n', True), ("[jobs.x]\n", False)):
        file.write_text(text)
        nightlatch(sqlite_url, "run", "report", "--key", str(is_json), "--config", str(file), "--", "true")
        last = (tmp_path / "state" / "nightlatch.db.d" / "runs.log").read_text().splitlines()[-1]
        assert last.startswith('{"ts": ') is is_json
        assert not is_json or json.loads(last)["status"] == "succeeded"
