"""`nightlatch run --workspace git --publish git`: a clone for each attempt, its commits pushed through the gate."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support import programs
from tests.support.clones import begun, clone, commit, git
from tests.support.servers.git import git_repository
from tests.support.workspaces import run, workspaces


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    """A bare repository with one commit on main."""
    made = git_repository(tmp_path / "remote.git")
    begun(made, tmp_path / "first")
    return made


@pytest.fixture
def checkout(remote: Path, tmp_path: Path) -> Path:
    return clone(remote, tmp_path / "checkout")


def test_a_git_workspace_begins_at_what_the_remote_has(sqlite_url, remote, checkout, tmp_path):
    other = clone(remote, tmp_path / "other")
    newest = commit(other, "page", b"two\n")
    git(other, "push", "--quiet", "origin", "main")
    command = f"cat page > {tmp_path}/seen; git rev-parse HEAD >> {tmp_path}/seen"
    ran = run(sqlite_url, "--workspace", "git", command=command, cwd=checkout)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "seen").read_text().split() == ["two", newest]


def test_started_from_a_git_hook_the_commands_git_is_still_that_of_the_workspace(sqlite_url, checkout):
    env = {"GIT_DIR": str(checkout / ".git"), "GIT_INDEX_FILE": "elsewhere"}
    command = 'test "$(git rev-parse --show-toplevel)" = "$NIGHTLATCH_WORKSPACE" && git status --porcelain'
    ran = run(sqlite_url, "--workspace", "git", command=command, cwd=checkout, env=env)
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stderr


def test_its_own_push_fails_and_says_why(sqlite_url, remote, checkout, tmp_path):
    before = git(remote, "rev-parse", "main")
    command = "git commit -q --allow-empty -m x; git push"
    ran = run(sqlite_url, "--workspace", "git", command=command, cwd=checkout)
    assert ran.returncode == 128 and "this workspace cannot push" in ran.stderr
    assert git(remote, "rev-parse", "main") == before


# A git that nobody waited for would hold up the end for an hour in place of 5 s.
PATIENT = "from nightlatch.system import tree; tree._OWN_PROGRAMS_TIMEOUT = 3600\nfrom nightlatch.cli.main import main; main()"


def test_commits_are_pushed_with_trailers(sqlite_url, remote, checkout, monkeypatch):
    command = "date +%N > article; git add article; git commit -qm 'An article'"
    monkeypatch.setattr(programs, "NIGHTLATCH", [sys.executable, "-c", PATIENT])
    ran = run(sqlite_url, "--workspace", "git", "--publish", "git", command=command, cwd=checkout)
    assert ran.returncode == 0, ran.stderr
    message = git(remote, "log", "-1", "--format=%B", "main")
    assert message.startswith("An article\n")
    for trailer in ("Nightlatch-Job: job", "Nightlatch-Run: ", "Nightlatch-Token: "):
        assert trailer in message
    assert git(remote, "rev-list", "--count", "main") == "2"
    assert git(remote, "log", "-1", "--format=%an", "main") == "Ann", "the author here is the author there"


def test_what_was_left_uncommitted_is_committed_and_pushed(sqlite_url, remote, checkout):
    ran = run(
        sqlite_url,
        "--workspace",
        "git",
        "--publish",
        "git",
        command="echo new > article; echo more >> page",
        cwd=checkout,
    )
    assert ran.returncode == 0, ran.stderr
    assert git(remote, "show", "main:article") == "new" and git(remote, "show", "main:page") == "one\nmore"
    assert "left them uncommitted" in git(remote, "log", "-1", "--format=%B", "main")


def test_a_run_that_changed_nothing_succeeds_and_pushes_nothing(sqlite_url, remote, checkout):
    before = git(remote, "rev-parse", "main")
    ran = run(sqlite_url, "--key", "k", "--workspace", "git", "--publish", "git", command="true", cwd=checkout)
    assert ran.returncode == 0, ran.stderr
    assert git(remote, "rev-parse", "main") == before
    assert "skipped" in run(sqlite_url, "--key", "k", command="true").stderr


def test_somebody_elses_push_meanwhile_is_followed(sqlite_url, remote, checkout, tmp_path):
    other = clone(remote, tmp_path / "other")
    script = f"cd {other} && echo x > theirs && git add theirs && git commit -qm theirs && git push -q origin main"
    command = f"echo new > article; ({script})"
    ran = run(sqlite_url, "--workspace", "git", "--publish", "git", command=command, cwd=checkout)
    assert ran.returncode == 0, ran.stderr
    assert git(remote, "show", "main:theirs") == "x" and git(remote, "show", "main:article") == "new"


def test_a_conflict_needs_a_person_and_keeps_the_workspace(sqlite_url, remote, checkout, tmp_path):
    other = clone(remote, tmp_path / "other")
    script = f"cd {other} && echo theirs > page && git commit -qam theirs && git push -q origin main"
    words = ("--workspace", "git", "--publish", "git", "--key", "k")
    ran = run(sqlite_url, *words, command=f"echo ours > page; ({script})", cwd=checkout)
    assert ran.returncode == 76 and "status=needs-attention" in ran.stderr, ran.stderr
    (kept,) = workspaces(sqlite_url)
    assert (kept / "page").read_text() == "ours\n"
    assert git(remote, "show", "main:page") == "theirs"


REFUSE_ONCE = """#!/bin/sh
while read -r old new ref; do
  if [ "$ref" = refs/heads/main ] && [ ! -e {flag} ]; then touch {flag}; echo "away for a moment" >&2; exit 1; fi
done
"""


def test_a_push_that_failed_is_tried_again_without_doing_the_work_again(sqlite_url, remote, checkout, tmp_path):
    hook = remote / "hooks" / "pre-receive"
    hook.write_text(REFUSE_ONCE.format(flag=tmp_path / "flag"))
    hook.chmod(0o755)
    words = ("--workspace", "git", "--publish", "git", "--key", "k", "--retries", "1", "--backoff", "10ms")
    ran = run(sqlite_url, *words, command=f"echo x >> {tmp_path}/worked; echo new > article", cwd=checkout)
    assert ran.returncode == 0 and "status=waiting exit=69" in ran.stderr and "status=succeeded" in ran.stderr, (
        ran.stderr
    )
    assert git(remote, "show", "main:article") == "new" and git(remote, "rev-list", "--count", "main") == "2"
    assert (tmp_path / "worked").read_text() == "x\n"
    assert workspaces(sqlite_url) == []


def test_a_repository_can_be_named_and_may_be_empty(sqlite_url, tmp_path):
    empty = git_repository(tmp_path / "empty.git")
    words = ("--workspace", f"git:{empty}#main", "--publish", "git")
    ran = run(sqlite_url, *words, command="echo first > page", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert git(empty, "show", "main:page") == "first"


def test_with_the_store_in_the_same_repository_the_key_lands_with_the_push(remote, checkout, state_home):
    words = ("--key", "k", "--workspace", "git", "--publish", "git")
    for expected in ("status=succeeded", "status=skipped"):
        ran = run("git+origin", *words, command="date +%N > article", cwd=checkout)
        assert ran.returncode == 0 and expected in ran.stderr, ran.stderr
    assert git(remote, "rev-list", "--count", "main") == "2"


def test_git_origin_of_another_repository_is_another_store_with_its_own_ledger(remote, checkout, state_home, tmp_path):
    other = git_repository(tmp_path / "other.git")
    begun(other, tmp_path / "other-first")
    words = ("--key", "k", "--workspace", "git", "--publish", "git")
    for place in (checkout, clone(other, tmp_path / "wiki")):
        ran = run("git+origin", *words, command="date +%N > article", cwd=place)
        assert ran.returncode == 0 and "status=succeeded" in ran.stderr, ran.stderr
    git(checkout, "remote", "rename", "origin", "home")
    again = run("git+home", *words, command="date +%N > article", cwd=checkout)
    assert "status=skipped" in again.stderr, "another name of the same remote is the same store"


def test_an_unreachable_repository_fails_the_run_with_what_to_do(sqlite_url, tmp_path):
    ran = run(sqlite_url, "--workspace", f"git:{tmp_path}/nowhere.git#main", command="true", cwd=tmp_path)
    assert ran.returncode == 69 and "status=failed" in ran.stderr and "git ls-remote" in ran.stderr
