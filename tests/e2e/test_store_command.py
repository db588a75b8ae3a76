"""nightlatch store: where it is, and its removal for good."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.support.programs import Held, nightlatch, said
from tests.support.runs import run


def test_it_says_where_the_log_is(any_store):
    assert run(any_store, "articles", "true").returncode == 0
    shown = json.loads(nightlatch(any_store, "store", "show", "--json").stdout)
    assert "job=articles" in Path(shown["log"]).read_text()
    assert shown["log"] in nightlatch(any_store, "store", "show").stdout


def test_nothing_of_it_is_left_and_the_next_run_begins_anew(any_store, tmp_path):
    assert run(any_store, "articles", "true").returncode == 0
    before = json.loads(nightlatch(any_store, "store", "show", "--json").stdout)
    assert "no terminal" in nightlatch(any_store, "store", "remove").stderr, "it asks first"
    assert "skipped" in run(any_store, "articles", "true").stderr
    removed = nightlatch(any_store, "store", "remove", "--yes")
    assert removed.returncode == 0 and removed.stdout.endswith("removed\n"), removed.stderr
    assert not Path(before["folder"]).exists()
    assert not list((tmp_path / "state").glob("*")) if any_store.startswith("sqlite") else True
    if any_store.startswith("git+"):
        refs = subprocess.run(["git", "ls-remote", any_store.removeprefix("git+")], capture_output=True, text=True)
        assert refs.returncode == 0 and refs.stdout == ""
    again = run(any_store, "articles", "true")
    assert again.returncode == 0 and "status=succeeded" in again.stderr, "its key is not done any more"
    assert json.loads(nightlatch(any_store, "store", "show", "--json").stdout)["id"] != before["id"]


def test_of_a_remote_only_its_own_refs_go(git_url, tmp_path):
    bare = git_url.removeprefix("git+")
    subprocess.run(["git", "init", "-q", "-b", "main", "work"], cwd=tmp_path, check=True)
    commit = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"]
    subprocess.run(commit, cwd=tmp_path / "work", check=True)
    push = ["git", "push", "-q", bare, "main", "main:refs/nightlatch-not/x", "main:refs/heads/refs/nightlatch/y"]
    subprocess.run(push, cwd=tmp_path / "work", check=True)
    before = subprocess.run(["git", "ls-remote", bare], capture_output=True, text=True, check=True).stdout
    assert run(git_url, "articles", "true").returncode == 0
    for _ in range(2):  # the second time there is nothing of a store
        assert nightlatch(git_url, "store", "remove", "--yes").returncode == 0
    assert subprocess.run(["git", "ls-remote", bare], capture_output=True, text=True).stdout == before


def test_it_is_refused_while_a_lease_is_held(any_store, tmp_path):
    held = Held(any_store, tmp_path, "reports")
    try:
        assert "reports is held by" in said(nightlatch(any_store, "store", "remove", "--yes"), 75)
    finally:
        held.process.kill()
        held.process.wait()
    removed = nightlatch(any_store, "store", "remove", "--yes")
    assert removed.returncode == 0, f"a holder that was killed is in nobody's way: {removed.stderr}"


def test_a_run_may_not_remove_it(sqlite_url):
    from tests.support.programs import TOOL

    assert run(sqlite_url, "articles", f"{TOOL} store remove --yes").returncode == 77
