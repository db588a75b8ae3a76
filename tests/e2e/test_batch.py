"""`nightlatch batch`: running it again is always the right answer."""

from __future__ import annotations

import json
import subprocess

import pytest

from nightlatch.ledger import open_for
from tests.support.batches import DO, ids, jsonl
from tests.support.programs import NIGHTLATCH, alive, environment, nightlatch, start, until
from tests.support.servers.git import git_repository


def test_only_what_is_unfinished_is_done_whatever_the_order(sqlite_url, tmp_path, acts):
    command = ("--key", "{id}", "--", *DO, str(acts), "{id}")
    assert nightlatch(sqlite_url, "batch", "b", jsonl(tmp_path, *ids(1, 2, 3)), *command).returncode == 0
    again = nightlatch(sqlite_url, "batch", "b", jsonl(tmp_path, *ids(5, 3, 1, 4)), *command)
    assert "2 done, 2 skipped, 0 failed, 0 in doubt" in again.stderr
    assert acts.read_text().split() == ["1", "2", "3", "5", "4"]


def test_another_name_is_another_batch(sqlite_url, tmp_path, acts):
    items = jsonl(tmp_path, *ids(1))
    for name in ("a", "b"):
        nightlatch(sqlite_url, "batch", name, items, "--key", "{id}", "--", *DO, str(acts), "{id}")
    assert acts.read_text().split() == ["1", "1"]


def test_another_key_is_refused_since_every_item_would_be_new(sqlite_url, tmp_path, acts):
    items, do = jsonl(tmp_path, *ids(1, 2)), (*DO, str(acts), "{id}")
    assert nightlatch(sqlite_url, "batch", "b", items, "--key", "{id}", "--", *do).returncode == 0
    for words in (("--key", "post-{id}"), ("--key", "post-{id}", "--dry-run")):
        other = nightlatch(sqlite_url, "batch", "b", items, *words, "--", *do)
        assert other.returncode == 64 and "was begun with --key '{id}'" in other.stderr
    assert acts.read_text().split() == ["1", "2"]
    assert "2 skipped" in nightlatch(sqlite_url, "batch", "b", items, "--key", "{id}", "--", *do).stderr


def test_many_tries_of_one_item_are_not_many_items(sqlite_url, tmp_path, acts):
    script = 'echo "$1" >> "$0"; [ "$1" != 2 ] || [ "$(grep -c 2 "$0")" = 12 ]'
    words = ("batch", "b", jsonl(tmp_path, *ids(1, 2, 3)), "--key", "{id}", "--retries", "15", "--backoff", "1ms")
    done = nightlatch(sqlite_url, *words, "--", "sh", "-c", script, str(acts), "{id}")
    assert (done.returncode, acts.read_text().split().count("2")) == (0, 12), done.stderr


def test_failed_items_are_done_by_the_next_start(sqlite_url, tmp_path, acts):
    items, ready = jsonl(tmp_path, *ids(1, 2, 3)), tmp_path / "ready"
    script = f'[ "$1" != 2 ] || [ -e {ready} ] || {{ echo no such luck >&2; exit 3; }}; echo "$1" >> "$0"'
    command = ("batch", "b", items, "--key", "{id}", "--", "sh", "-c", script, str(acts), "{id}")
    first = nightlatch(sqlite_url, *command)
    assert first.returncode == 1
    assert "2 (exit code 3: no such luck)" in first.stderr
    assert "to continue with the unfinished items: nightlatch batch b" in first.stderr
    ready.touch()
    assert nightlatch(sqlite_url, *command).returncode == 0
    assert sorted(acts.read_text().split()) == ["1", "2", "3"]


def test_what_an_item_says_does_not_play_with_the_terminal_in_the_summary(sqlite_url, tmp_path):
    fail = ("--key", "{id}", "--", "sh", "-c", r"printf '\033[2Jgone\n' >&2; exit 3")
    summary = nightlatch(sqlite_url, "batch", "c", jsonl(tmp_path, *ids(1)), *fail).stderr.partition("nightlatch: c")[2]
    assert r"\x1b[2Jgone" in summary and "\x1b" not in summary


def test_fail_fast_starts_nothing_more(sqlite_url, tmp_path, acts):
    items = jsonl(tmp_path, *ids(1), "{not json", *ids(2))
    done = nightlatch(sqlite_url, "batch", "b", items, "--key", "{id}", "--fail-fast", "--", *DO, str(acts), "{id}")
    assert done.returncode == 1
    assert acts.read_text().split() == ["1"]


@pytest.mark.parametrize(("limit", "tried"), [("2", 3), ("10%", 3), ("100%", 20)])
def test_max_failures_starts_nothing_more(sqlite_url, tmp_path, acts, limit, tried):
    items = jsonl(tmp_path, *ids(*range(20)))
    fail = ("sh", "-c", 'echo "$1" >> "$0"; exit 1', str(acts), "{id}")
    done = nightlatch(sqlite_url, "batch", "b", items, "--key", "{id}", "--max-failures", limit, "--", *fail)
    assert done.returncode == 1
    assert len(acts.read_text().split()) == tried


def test_the_batch_pauses_when_most_items_fail_in_the_same_way(sqlite_url, tmp_path, acts):
    items = jsonl(tmp_path, *ids(*range(200)))
    fail = ("sh", "-c", 'echo "$1" >> "$0"; echo "request $1: bad key" >&2; exit 9', str(acts), "{id}")
    done = nightlatch(sqlite_url, "batch", "b", items, "--key", "{id}", "--", *fail)
    assert done.returncode == 1
    assert "paused: most of the last items failed in the same way (exit code 9: request #: bad key)" in done.stderr
    assert len(acts.read_text().split()) < 20


def test_a_timeout_ends_the_item_and_all_it_started(sqlite_url, tmp_path):
    items, pid = jsonl(tmp_path, *ids(1)), tmp_path / "pid"
    hang = ("sh", "-c", f"sleep 600 & echo $! > {pid}; wait")
    done = nightlatch(sqlite_url, "batch", "b", items, "--key", "{id}", "--timeout", "2s", "--", *hang)
    assert done.returncode == 1
    assert "not done after 2s" in done.stderr
    assert not alive(int(pid.read_text()))


def test_retries_try_again_in_the_same_start(sqlite_url, tmp_path, acts):
    items = jsonl(tmp_path, *ids(1))
    flaky = ("sh", "-c", 'echo x >> "$0"; [ $(wc -l < "$0") -ge 3 ]', str(acts))
    assert nightlatch(sqlite_url, "batch", "b", items, "--key", "{id}", "--retries", "3", "--", *flaky).returncode == 0
    (step,) = open_for(sqlite_url).items.every("b", "done")
    assert step.tries == 3


def test_items_run_side_by_side(sqlite_url, tmp_path):
    """Each waits for the other: one at a time they would never end."""
    items = jsonl(tmp_path, *ids(0, 1))
    script = 'touch "$0-$1"; until [ -e "$0-$((1 - $1))" ]; do sleep 0.02; done'
    meet = ("sh", "-c", script, str(tmp_path / "here"), "{id}")
    command = ("batch", "b", items, "--key", "{id}", "-j", "2", "--timeout", "50s", "--", *meet)
    assert nightlatch(sqlite_url, *command).returncode == 0


def test_a_second_start_is_75_and_says_who_works_on_it(sqlite_url, tmp_path):
    items, go = jsonl(tmp_path, *ids(1)), tmp_path / "go"
    wait = ("sh", "-c", f"touch {tmp_path}/begun; until [ -e {go} ]; do sleep 0.02; done")
    first = start(sqlite_url, "batch", "b", items, "--key", "{id}", "--", *wait)
    until((tmp_path / "begun").exists)
    second = nightlatch(sqlite_url, "batch", "b", items, "--key", "{id}", "--", "true")
    go.touch()
    assert first.wait(60) == 0
    assert second.returncode == 75
    assert f"pid {first.pid}" in second.stderr


def test_a_dry_run_claims_and_starts_nothing(sqlite_url, tmp_path, acts):
    items = jsonl(tmp_path, *ids(1, 2), "{", *ids(2))
    command = ("batch", "b", items, "--key", "{id}", "--dry-run", "--", *DO, str(acts), "{id}")
    shown = nightlatch(sqlite_url, *command)
    assert shown.returncode == 1
    assert shown.stdout.splitlines()[-1] == "2 to do, 0 done, 0 in doubt, 1 repeated, 1 unreadable"
    planned = nightlatch(sqlite_url, *command[:5], "--json", *command[5:]).stdout.splitlines()
    assert [json.loads(line)["command"][-1] for line in planned] == ["1", "2"]
    assert acts.read_text() == "" and not list(open_for(sqlite_url).history.runs())


def test_checkpoints_stand_in_the_runs_journal(sqlite_url, tmp_path):
    nightlatch(sqlite_url, "batch", "b", jsonl(tmp_path, *ids(1)), "--key", "{id}", "--", "echo", "hello")
    ledger = open_for(sqlite_url)
    (run,) = ledger.history.runs()
    steps = [entry.facts for entry in ledger.journal.of_run(run.id) if entry.kind == "steps"]
    assert steps == [{"begun": "1"}, {"done": "1"}]
    (step,) = ledger.items.every("b", "done")
    assert (step.key, step.result, step.exit_code) == ("1", "hello\n", 0)
    assert not ledger.journal.verify().breaks


@pytest.mark.parametrize("machine", ["another", ""], ids=["another machine", "another user of this machine"])
def test_where_ledgers_are_apart_a_batch_goes_on_where_it_was_begun(tmp_path, acts, machine):
    git_repository(tmp_path / "shared.git")
    store, items = f"git+file://{tmp_path}/shared.git", jsonl(tmp_path, *ids(1))
    command = ("batch", "b", items, "--key", "{id}", "--", *DO, str(acts), "{id}")
    env = {"XDG_STATE_HOME": str(tmp_path / "here")}
    assert nightlatch(store, *command, env=env).returncode == 0
    elsewhere = (
        "import sys\nfrom nightlatch.system import identity\n"
        f"identity._known['machine'] = {machine!r} or identity.machine()\n"
        f"from nightlatch.cli.main import run\nsys.exit(run({list(command)!r}))"
    )
    env = {"XDG_STATE_HOME": str(tmp_path / "there")}
    there = subprocess.run(
        [NIGHTLATCH[0], "-c", elsewhere], env=environment(store, **env), capture_output=True, text=True
    )
    assert there.returncode == 75
    assert (
        "was begun by" in there.stderr and "Continue there, or share a store that has the ledger in it" in there.stderr
    )
    assert acts.read_text().split() == ["1"]
