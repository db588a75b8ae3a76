"""Which commit on a branch is an attempt's result, and which machines know that there may be one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from shutil import which

import pytest

from nightlatch.ledger import open_for
from tests.faults.test_publish_runs import AWAIT_PID, DOES_NOT_SETTLE, WORK, Place, on_another_machine
from tests.support.clones import clone, git
from tests.support.git_remote import Remote
from tests.support.programs import TOOL, environment, nightlatch


@pytest.fixture
def place(tmp_path: Path, sqlite_url: str, state_home: Path) -> Place:
    return Place(tmp_path, sqlite_url)


@pytest.fixture
def shared(tmp_path: Path, file_remote: Remote) -> Place:
    """Two machines share a git store; the articles are in another repository."""
    return Place(tmp_path, file_remote.store_url)


# The push of the result is refused, and its supervisor killed.
DIES = """#!/bin/sh
while read -r old new ref; do
  [ "$ref" = refs/heads/main ] && [ -e {pid} ] && git log -1 --format=%s "$new" | grep -q Article || continue
  kill -9 "$(cat {pid})"; rm {pid}; exit 1
done
"""

PUSH_PART = f"""
echo part > part && git add part && git commit -qm "A part" && {TOOL} push "$1/remote.git" main
"""


def test_a_part_that_the_command_pushed_is_not_taken_for_its_result(place: Place):
    """It was killed before the rest had landed: that lands now."""
    hook = place.remote / "hooks" / "pre-receive"
    hook.write_text(DIES.format(pid=place.folder / "pid"))
    hook.chmod(0o755)
    running = place.start("k", AWAIT_PID + PUSH_PART + WORK)
    place.tell_pid(running)
    assert running.wait(60) == -signal.SIGKILL, running.communicate()
    assert place.articles("k") == 0
    assert place.run("k").returncode == 0
    place.judge("k")


def test_a_part_with_an_earlier_results_message_is_not_taken_for_its_result(shared: Place):
    assert shared.run("before").returncode == 0
    part = f'{WORK}\ngit commit -q --amend -C origin/main\n{TOOL} push "$1/remote.git" main\n'
    running = shared.start("k", f'{AWAIT_PID}{part}kill -9 "$(cat "$1/pid")"; sleep 600')
    shared.tell_pid(running)
    assert running.wait(60) == -signal.SIGKILL, running.communicate()
    again = on_another_machine(shared, "k")
    assert again.returncode == 0 and len(shared.attempts("k")) == 2, again.stderr


def push_without_settling(place: Place, program: str = DOES_NOT_SETTLE) -> None:
    words = [sys.executable, "-c", program, *place.words("k", WORK, "--ttl", "3s")]
    first = subprocess.run(words, env=environment(place.store), cwd=place.folder, capture_output=True, text=True)
    assert first.returncode and place.articles("k") == 1, first.stderr


def is_adopted(place: Place) -> None:
    again = on_another_machine(place, "k")
    assert again.returncode == 0 and "published by attempt 1 on " in again.stderr, again.stderr
    assert place.attempts("k") == ["1"] and place.articles("k") == 1


def test_a_commit_that_a_person_has_squashed_by_a_merge_is_still_found(shared: Place):
    """`git merge --squash` indents the messages of the commits."""
    push_without_settling(shared)
    person = clone(shared.remote, shared.folder / "person")
    git(person, "reset", "--quiet", "--hard", "HEAD~1")
    git(person, "merge", "--quiet", "--squash", "origin/main")
    git(person, "commit", "--quiet", "--no-edit")
    git(person, "push", "--quiet", "--force", "origin", "HEAD:main")
    assert "    Nightlatch-Attempt: 1" in git(shared.remote, "log", "-1", "--format=%B", "main")
    is_adopted(shared)


def test_another_key_that_ends_on_its_machine_does_not_hide_what_may_have_been_pushed(
    shared: Place, monkeypatch: pytest.MonkeyPatch
):
    """Whatever the user's settings for searching with git are."""
    setting = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "grep.patternType", "GIT_CONFIG_VALUE_0": "fixed"}
    for name, text in setting.items():
        monkeypatch.setenv(name, text)
    push_without_settling(shared)
    assert shared.run("another").returncode == 0
    is_adopted(shared)


def test_an_attempt_that_could_not_look_does_not_hide_what_may_have_been_pushed(shared: Place):
    """The network fails when it has the lease and clones the branch: on the machine that pushed, then on another."""
    push_without_settling(shared)
    fails = shared.folder / "bin" / "git"
    fails.parent.mkdir()
    fails.write_text(f'#!/bin/sh\ncase "$*" in *" fetch "*refs/heads/main*) exit 128; esac\nexec {which("git")} "$@"\n')
    fails.chmod(0o755)
    env = {"PATH": f"{fails.parent}:{os.environ['PATH']}"}
    for machine in ({}, {"XDG_STATE_HOME": str(shared.folder / "another")}):
        failed = nightlatch(shared.store, *shared.words("k"), cwd=shared.folder, env=env | machine)
        assert "could not be cloned" in failed.stderr, failed.stderr
    is_adopted(shared)


def test_retention_keeps_a_run_that_may_have_published(place: Place):
    """It pushed, could not mark its key, and has failed: started again, it is found on the branch."""
    program = DOES_NOT_SETTLE.replace("store.git.store import GitStore", "store.sql import SqlStore as GitStore")
    push_without_settling(place, program)
    nightlatch(place.store, "prune", "--keep", "0s")
    again = place.run("k")
    assert again.returncode == 0 and "published by attempt 1" in again.stderr, again.stderr
    place.judge("k")
    assert nightlatch(place.store, "prune", "--keep", "0s").returncode == 0
    assert not open_for(place.store).find("job", "k")
