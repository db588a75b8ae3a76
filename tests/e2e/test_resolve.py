"""`nightlatch resolve`: one command for runs, effects and items; and where those are shown that wait for it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from nightlatch.ledger import open_for
from tests.support.programs import nightlatch, python
from tests.support.runs import one
from tests.support.servers.git import git_repository

# A command that is killed as soon as the store has its first done key.
KILLED = """
import os, signal, sys
from nightlatch.cli.main import main
from nightlatch.store.url import connect, resolve

store = type(connect(resolve(None)))
real = store.settle

def settle(*args, **more):
    real(*args, **more)
    os.kill(os.getpid(), signal.SIGKILL)

store.settle = settle
main(sys.argv[1:])
"""


def doubtful_effect(store: str, key: str, *more: str) -> None:
    assert nightlatch(store, "once", key, *more, "--", "sh", "-c", "exit 5").returncode == 76


def items_that_fail_for_good(store: str, folder: Path, batch: str, *keys: str) -> tuple[str, ...]:
    (folder / "items").write_text("".join(f"{key}\n" for key in keys))
    words = ("batch", batch, str(folder / "items"), "--")
    assert nightlatch(store, *words, "sh", "-c", "exit 70").returncode == 1
    return words


@pytest.mark.parametrize(("word", "done"), [("done", "skipped"), ("failed", "did"), ("again", "did")])
def test_an_effect_by_its_key(sqlite_url, word, done):
    doubtful_effect(sqlite_url, "invoice/7")
    asked = nightlatch(sqlite_url, "resolve", "invoice/7")
    assert asked.returncode == 76 and "nightlatch resolve invoice/7 again" in asked.stdout
    assert nightlatch(sqlite_url, "resolve", "invoice/7", word).returncode == 0
    after = nightlatch(sqlite_url, "once", "invoice/7", "--", "echo", "did")
    assert after.returncode == 0 and done in after.stdout + after.stderr


def test_an_effect_in_a_scope_of_its_own(sqlite_url):
    doubtful_effect(sqlite_url, "k", "--scope", "mails")
    report = json.loads(nightlatch(sqlite_url, "resolve", "k", "done", "--json").stdout)
    assert (report["version"], report["scope"], report["key"], report["status"]) == (1, "mails", "k", "done")


def test_an_item_by_its_key(sqlite_url, tmp_path):
    words = items_that_fail_for_good(sqlite_url, tmp_path, "posts", "a", "b")
    assert nightlatch(sqlite_url, "resolve", "a", "done").returncode == 0
    assert nightlatch(sqlite_url, "resolve", "b", "again", "--batch", "posts").returncode == 0
    done = nightlatch(sqlite_url, *words, "echo", "did {}")
    assert (done.returncode, done.stdout) == (0, "did b\n")


def test_what_is_printed_about_a_key_can_be_typed(sqlite_url, tmp_path):
    for key in ("-rf", "--batch", "it's -x", "- a"):
        items_that_fail_for_good(sqlite_url, tmp_path, "posts", key)
        choices = nightlatch(sqlite_url, "resolve", "--batch", "posts", "--", key).stdout.splitlines()
        words = shlex.split(choices[1].removesuffix("it did its work"))
        assert words[0] == "nightlatch" and nightlatch(sqlite_url, *words[1:]).stdout.endswith(" is done\n")


def test_what_goes_by_one_key_is_told_apart(sqlite_url, tmp_path):
    items_that_fail_for_good(sqlite_url, tmp_path, "posts", "same")
    items_that_fail_for_good(sqlite_url, tmp_path, "mails", "same")
    doubtful_effect(sqlite_url, "same")
    several = nightlatch(sqlite_url, "resolve", "same", "done")
    assert several.returncode == 64
    for command in ("resolve same --batch posts", "resolve same --batch mails", "resolve same --scope once"):
        assert f"nightlatch {command}" in several.stderr
        assert nightlatch(sqlite_url, *command.split(), "done").returncode == 0
    assert nightlatch(sqlite_url, "resolve", "same", "done").returncode == 64


@pytest.mark.parametrize(
    "words", [("never",), ("never", "done"), ("never", "done", "--batch", "b"), ("x" * 2000, "done")]
)
def test_what_is_not_there_is_64(sqlite_url, words):
    nightlatch(sqlite_url, "once", "k", "--", "true")
    refused = nightlatch(sqlite_url, "resolve", *words)
    assert refused.returncode == 64 and "nightlatch status" in refused.stderr


def in_doubt(store: str) -> None:
    both = "kill -9 $(ps -o ppid= -p $PPID) $PPID; sleep 600"
    nightlatch(store, "run", "job", "--key", "k", "--", "sh", "-c", both)
    assert nightlatch(store, "run", "job", "--key", "k", "--wait", "20s", "--", "true").returncode == 76


def needs_attention(store: str) -> None:
    nightlatch(store, "run", "job", "--key", "k", "--", "false")
    run = str(one(store, "job")["run"])
    assert nightlatch(store, "retry", run, "--later").returncode == 0
    open_for(store).decisions.attention(run, "a gate cannot be sealed", "ann")


@pytest.mark.parametrize("before", [in_doubt, needs_attention, None])
def test_a_run_whose_key_is_settled_has_not_failed(any_store, before):
    """By a decision that was killed, or by the run itself. As failed, it would be skipped silently from then on."""
    words = ["run", "job", "--key", "k", "--", "true"]
    if before:
        before(any_store)
        words = ["resolve", str(one(any_store, "job")["run"]), "done"]
    killed = python(any_store, KILLED, *words)
    killed.communicate()
    assert killed.returncode == -9
    run = one(any_store, "job")
    for outcome in ("failed", "again"):
        refused = nightlatch(any_store, "resolve", run["run"], outcome, "--wait", "20s")
        assert refused.returncode == 64, refused.stdout + refused.stderr
        assert f"nightlatch resolve {run['run']} done" in refused.stderr
    assert one(any_store, "job")["status"] == run["status"], "nothing was decided"
    assert nightlatch(any_store, "resolve", run["run"], "done", "--wait", "20s").returncode == 0
    assert one(any_store, "job")["status"] == "succeeded"
    assert "skipped" in nightlatch(any_store, "run", "job", "--key", "k", "--", "false").stderr


def test_an_attempt_after_its_key_was_done_may_have_failed(any_store):
    """With --again: the key that it found done says nothing about it."""
    assert nightlatch(any_store, "run", "job", "--key", "k", "--", "true").returncode == 0
    both = "kill -9 $(ps -o ppid= -p $PPID) $PPID; sleep 600"
    nightlatch(any_store, "run", "job", "--key", "k", "--again", "--", "sh", "-c", both)
    run = one(any_store, "job")["run"]
    assert nightlatch(any_store, "resolve", run, "failed", "--wait", "20s").returncode == 0
    assert one(any_store, "job")["status"] == "failed"


def test_what_is_done_is_not_resolved(sqlite_url):
    nightlatch(sqlite_url, "once", "k", "--", "true")
    refused = nightlatch(sqlite_url, "resolve", "k", "again")
    assert refused.returncode == 64 and "the effect k is done: there is nothing to resolve" in refused.stderr


def test_an_effect_that_another_machine_began_can_be_resolved_here(tmp_path):
    git_repository(tmp_path / "shared.git")
    store = f"git+file://{tmp_path}/shared.git"
    here, there = ({"XDG_STATE_HOME": str(tmp_path / machine)} for machine in ("here", "there"))
    assert nightlatch(store, "once", "k", "--", "sh", "-c", "exit 1", env=here).returncode == 76
    resolved = nightlatch(store, "resolve", "k", "done", env=there)
    assert resolved.returncode == 0, resolved.stderr
    assert "skipped" in nightlatch(store, "once", "k", "--", "true", env=here).stderr


def test_the_first_screen_shows_what_waits_until_somebody_decides(sqlite_url, tmp_path):
    items_that_fail_for_good(sqlite_url, tmp_path, "posts", "a", "b")
    doubtful_effect(sqlite_url, "invoice/7")
    shown = nightlatch(sqlite_url, env={"COLUMNS": "200"}).stdout.splitlines()
    assert shown[0].endswith("The only run did not succeed, 3 things need you")
    (effect,) = [line for line in shown if "invoice/7" in line]
    assert effect.split()[1:4] == ["once", "in", "doubt"] and effect.endswith("  resolve invoice/7")
    (items,) = [line for line in shown if "2 items" in line]
    assert items.split()[1:4] == ["posts", "needs", "attention"] and items.endswith("  resolve a --batch posts")
    report = json.loads(nightlatch(sqlite_url, "status", "--json").stdout)
    assert [(one["key"], one["status"]) for one in report["effects"]] == [("invoice/7", "in-doubt")]
    assert [(one["batch"], one["items"], one["reason"]) for one in report["items"]] == [("posts", 2, "exit code 70")]
    assert "as a: exit code 70" in items
    for key in ("invoice/7", "a", "b"):
        assert nightlatch(sqlite_url, "resolve", key, "done").returncode == 0
    assert "needs attention" not in nightlatch(sqlite_url).stdout


def test_show_counts_the_items_of_a_batch(sqlite_url, tmp_path):
    items_that_fail_for_good(sqlite_url, tmp_path, "posts", "a", "b")
    run = json.loads(nightlatch(sqlite_url, "runs", "--json").stdout)["run"]
    shown = nightlatch(sqlite_url, "show", run).stdout
    assert "2 needs-attention" in shown and "exit code 70  nightlatch resolve a --batch posts" in shown
    assert json.loads(nightlatch(sqlite_url, "show", run, "--json").stdout)["items"] == {"needs-attention": 2}


def test_on_postgresql(postgres_url, tmp_path):
    items_that_fail_for_good(postgres_url, tmp_path, "posts", "a")
    doubtful_effect(postgres_url, "k")
    shown = nightlatch(postgres_url).stdout.splitlines()
    assert shown[0].endswith("3 things need you") and any(
        "exit code 70" in line and "--batch posts" in line for line in shown
    )
    assert [nightlatch(postgres_url, "resolve", key, "done").returncode for key in ("a", "k")] == [0, 0]


def test_once_as_json(sqlite_url):
    def once(key: str, *command: str) -> tuple[int, dict[str, object]]:
        done = nightlatch(sqlite_url, "once", key, "--not-done", "7", "--json", "--", *command)
        return done.returncode, json.loads(done.stdout)

    code, report = once("k", "echo", "posted")
    assert (code, report["version"], report["status"], report["result"]) == (0, 1, "done", "posted\n")
    assert once("k", "echo", "posted")[1]["status"] == "skipped"
    assert once("l", "sh", "-c", "exit 7")[1]["status"] == "failed"
    code, report = once("m", "sh", "-c", "exit 5")
    assert (code, report["status"], report["exit_code"]) == (76, "in-doubt", 76)
    assert "nightlatch resolve m done" in str(report["reason"])


def test_retry_goes_on_with_a_batch_by_the_command_that_show_names(sqlite_url, tmp_path):
    words = items_that_fail_for_good(sqlite_url, tmp_path, "posts", "a b")
    run = json.loads(nightlatch(sqlite_url, "runs", "--json").stdout)["run"]
    shown = nightlatch(sqlite_url, "show", run).stdout
    assert f"nightlatch batch posts {words[2]} -- sh -c 'exit 70'" in shown
    assert nightlatch(sqlite_url, "retry", run).returncode == 1, "both items are still set aside"
