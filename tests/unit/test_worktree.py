"""What a push does in the repository it comes from."""

from __future__ import annotations

import json
import os
import resource
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from nightlatch import gates
from nightlatch.core.model import Mark
from nightlatch.errors import GateUnreachable
from nightlatch.system import identity
from tests.support.clones import clone, commit, git
from tests.support.servers.git import git_repository


class Work:
    """A clone whose pushes go through a gate that is sealed."""

    def __init__(self, root: Path) -> None:
        self.root, self.remote = root, git_repository(root / "site.git")
        self.folder = clone(self.remote, root / "work")
        self.gate = gates.Git(f"file://{self.remote}", "main")
        self.mark = Mark(store=identity.new_id(), name="articles", token=1000, grant=identity.new_id())
        self.gate.seal(self.mark, "ann@here")
        self.number = 0

    def commit(self, folder: Path | None = None, message: str = "A change") -> str:
        self.number += 1
        return commit(folder or self.folder, "page", b"%d\n" % self.number, message)

    def push(self, folder: Path | None = None) -> str:
        return self.gate.push(self.mark, folder=str(folder or self.folder))

    def said(self) -> str:
        return git(self.remote, "log", "-1", "--format=%B", "main")


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Work:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Work(tmp_path)


def test_a_push_talks_to_the_remote_once(work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work.commit()
    work.push()
    work.commit()
    trace = tmp_path / "trace"
    monkeypatch.setenv("GIT_TRACE2_EVENT", str(trace))
    landed = work.push()
    monkeypatch.delenv("GIT_TRACE2_EVENT")
    events = [json.loads(line) for line in trace.read_text().splitlines()]
    started = [event["argv"][3] for event in events if event["event"] == "start" and "/" not in event["sid"]]
    read = ["rev-parse", "merge-base", "cat-file", "for-each-ref"]
    assert started == [*read, "interpret-trailers", "hash-object", "update-ref", "push"]
    assert git(work.remote, "rev-parse", "main") == git(work.folder, "rev-parse", "HEAD") == landed
    assert git(work.folder, "status", "--porcelain") == ""


OURS = "Nightlatch-Job: articles\nNightlatch-Token: 1000\n"


@pytest.mark.parametrize(
    ("message", "landed"),
    [
        ("A title", f"A title\n\n{OURS}"),
        ("A title\n\nWith a text.\n", f"A title\n\nWith a text.\n\n{OURS}"),
        ("A title\n\nAcked-by: Ann <ann@example.org>\n", f"A title\n\nAcked-by: Ann <ann@example.org>\n{OURS}"),
        ("A title\n\nNightlatch-Token: 7\n", f"A title\n\n{OURS}"),
        ("Gr\udcfc\udcdfe", f"Gr\udcfc\udcdfe\n\n{OURS}"),  # in ISO-8859-1: it keeps its bytes
    ],
)
def test_trailers_go_to_the_end_of_the_message(work: Work, message: str, landed: str) -> None:
    work.commit()
    if not message.isascii():
        git(work.folder, "config", "i18n.commitEncoding", "ISO-8859-1")
    words = ["git", "-C", str(work.folder), "commit", "--quiet", "--amend", "--cleanup=verbatim", "-F", "-"]
    subprocess.run(words, input=os.fsencode(message), check=True)
    work.push()
    show = ["git", "-C", str(work.remote), "cat-file", "commit", "main"]
    found = subprocess.run(show, capture_output=True, check=True).stdout.partition(b"\n\n")[2]
    assert found == os.fsencode(landed)


def usual(work: Work) -> Path:
    return work.folder


def packed(work: Work) -> Path:
    git(work.folder, "gc", "--quiet", "--prune=now")
    return work.folder


def subfolder(work: Work) -> Path:
    (work.folder / "deep").mkdir()
    return work.folder / "deep"


def shared(work: Work) -> Path:
    git(work.folder, "config", "core.sharedRepository", "0640")
    return work.folder


def own_branch(work: Work) -> Path:
    git(work.folder, "worktree", "add", "--quiet", "-b", "other", str(work.root / "other"))
    return work.root / "other"


def detached(work: Work) -> Path:
    git(work.folder, "checkout", "--quiet", "--detach")
    return work.folder


def many_tags(work: Work) -> Path:
    git(work.folder, "tag", "-a", "-m", "one", "one", "HEAD~1")
    git(work.folder, "tag", "two", "HEAD~1")
    git(work.folder, "pack-refs", "--all")
    return work.folder


@pytest.mark.parametrize("shape", [usual, packed, subfolder, shared, own_branch, detached, many_tags])
def test_whatever_a_repository_looks_like_its_tip_lands_with_trailers(work: Work, shape) -> None:
    work.commit()
    work.push()
    work.commit()
    place = shape(work)
    for round in range(2):
        if round or shape is not packed:
            commit(place, "page", b"round %d\n" % round)
        landed = work.push(place)
        assert landed == git(work.remote, "rev-parse", "main") == git(place, "rev-parse", "HEAD")
        assert work.said() == "A change\n\nNightlatch-Job: articles\nNightlatch-Token: 1000"
        assert git(place, "fsck", "--strict") == "" and git(place, "status", "--porcelain") == ""
        assert "nightlatch push: trailers" in git(place, "reflog", "-1")
    if shape is shared:
        made = work.folder / ".git" / "objects" / landed[:2] / landed[2:]
        assert stat.S_IMODE(made.stat().st_mode) == 0o440, "it is written for those that may read it"


def test_a_tag_put_on_a_commit_between_two_pushes_keeps_that_commits_name(work: Work) -> None:
    for _ in range(2):
        work.commit()
        work.push()
    tagged = work.commit()
    git(work.folder, "tag", "-a", "-m", "a release", "v1")
    assert work.push() == tagged == git(work.remote, "rev-parse", "main")
    later = work.commit()
    assert work.push() != later, "what comes after it is ours again"


def test_settings_that_say_how_trailers_look_are_followed(work: Work) -> None:
    work.commit()
    work.push()
    git(work.folder, "config", "trailer.separators", "=:")
    git(work.folder, "config", "trailer.Nightlatch-Job.key", "Job=")
    work.commit()
    work.push()
    assert "Job=articles" in work.said()


def test_a_hook_before_the_push_sees_what_is_pushed_in_head(work: Work, tmp_path: Path) -> None:
    work.commit()
    hooks = {
        "pre-push": f"git rev-parse HEAD > {tmp_path}/seen",
        "reference-transaction": '[ "$1" != prepared ] || sleep 0.5',  # HEAD moves slowly
    }
    for name, script in hooks.items():
        hook = work.folder / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{script}\n")
        hook.chmod(0o755)
    landed = work.push()
    assert (tmp_path / "seen").read_text().strip() == landed


def no_room(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file may grow."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))


def git_that_fails(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = work.root / "bin" / "git"
    failing.parent.mkdir()
    failing.write_text(f'#!/bin/sh\ncase "$*" in *hash-object*) exit 1;; esac\nexec {shutil.which("git")} "$@"\n')
    failing.chmod(0o755)
    monkeypatch.setenv("PATH", f"{failing.parent}:{os.environ['PATH']}")


@pytest.mark.parametrize("trouble", [no_room, git_that_fails])
def test_a_repository_that_takes_no_commit_loses_no_branch(work: Work, monkeypatch, trouble) -> None:
    work.commit()
    before = work.push()
    work.commit()
    trouble(work, monkeypatch)
    try:
        with pytest.raises(GateUnreachable, match=r"no commit can be written in .* Nothing was pushed"):
            work.push()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert git(work.remote, "rev-parse", "main") == before
