"""What a command left in its workspace is published as a whole, or nothing is, and the workspace is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.clones import begun, clone, git
from tests.support.servers.git import git_repository
from tests.support.workspaces import run, workspaces

PUBLISHED = ("--workspace", "git", "--publish", "git")
BRANCH_AND_BACK = (
    "git checkout -qb aside; echo aside > aside; git add aside; git commit -qm aside; git checkout -q main\n"
)


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    made = git_repository(tmp_path / "remote.git")
    begun(made, tmp_path / "first")
    return made


@pytest.fixture
def checkout(remote: Path, tmp_path: Path) -> Path:
    return clone(remote, tmp_path / "checkout")


def test_new_files_whatever_the_users_status_shows(sqlite_url: str, remote: Path, checkout: Path):
    names = {"COUNT": "1", "KEY_0": "status.showUntrackedFiles", "VALUE_0": "no"}
    env = {f"GIT_CONFIG_{name}": text for name, text in names.items()}
    ran = run(sqlite_url, *PUBLISHED, command="echo new > article", cwd=checkout, env=env)
    assert ran.returncode == 0, ran.stderr
    assert git(remote, "show", "main:article") == "new"


@pytest.mark.parametrize("pushed", ["page", "another"])
def test_what_only_a_merge_commit_has_although_somebody_else_has_pushed(
    sqlite_url: str, remote: Path, checkout: Path, tmp_path: Path, pushed: str
):
    """A rebase would drop the merge commit, and say nothing."""
    other = clone(remote, tmp_path / "other")
    merge = "git merge -q --no-ff --no-commit aside; echo merged > merged; git add merged; git commit -qm Merged\n"
    push = f"cd {other}; echo theirs > {pushed}; git add .; git commit -qm Theirs; git push -q origin HEAD:main"
    ran = run(sqlite_url, *PUBLISHED, command=BRANCH_AND_BACK + merge + push, cwd=checkout)
    assert ran.returncode == 0, ran.stderr
    assert [git(remote, "show", f"main:{name}") for name in ("aside", "merged", pushed)] == [
        "aside",
        "merged",
        "theirs",
    ]
    assert "Nightlatch-Attempt: 1" in git(remote, "log", "-1", "--format=%B", "main")


def test_a_merge_that_conflicts_with_somebody_elses_push_needs_a_person(
    sqlite_url: str, remote: Path, checkout: Path, tmp_path: Path
):
    other = clone(remote, tmp_path / "other")
    merge = "git merge -q --no-ff --no-commit aside; echo ours > page; git add page; git commit -qm Merged\n"
    push = f"cd {other}; echo theirs > page; git commit -qam Theirs; git push -q origin HEAD:main"
    ran = run(sqlite_url, *PUBLISHED, command=BRANCH_AND_BACK + merge + push, cwd=checkout)
    assert ran.returncode == 76 and "conflicts with this one in page" in ran.stderr, ran.stderr
    (kept,) = workspaces(sqlite_url)
    assert (kept / "page").read_text() == "ours\n" and not git(kept, "status", "--porcelain")
    assert git(remote, "show", "main:page") == "theirs"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (
            "git init -q site; cd site; git config user.name a; git config user.email a@b; echo x > x; git add x\n"
            "git commit -qm x; echo y > ../y",
            "site is a repository",
        ),
        (
            f"{BRANCH_AND_BACK}echo ours > aside; git add aside; git commit -qm ours; git merge aside || true",
            "aside has conflicts",
        ),
    ],
)
def test_what_git_would_not_commit_as_it_is(sqlite_url: str, remote: Path, checkout: Path, command: str, why: str):
    """Of a repository inside the workspace only the id of its commit; of a conflict both sides."""
    ran = run(sqlite_url, *PUBLISHED, command=command, cwd=checkout)
    assert ran.returncode == 1 and why in ran.stderr, ran.stderr
    assert git(remote, "rev-list", "--count", "main") == "1" and len(workspaces(sqlite_url)) == 1


def test_a_submodule_that_the_command_added_is_published(sqlite_url: str, remote: Path, checkout: Path):
    command = f"git -c protocol.file.allow=always submodule --quiet add {remote} theirs"
    ran = run(sqlite_url, *PUBLISHED, command=command, cwd=checkout)
    assert ran.returncode == 0, ran.stderr
    assert git(remote, "ls-tree", "main", "theirs").startswith("160000 ")
