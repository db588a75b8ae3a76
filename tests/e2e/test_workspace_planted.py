"""What an agent plants in its clone runs as the agent, never as the supervisor: one test for every way there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import programs
from tests.support.clones import begun, git
from tests.support.servers.git import git_repository

# Each plants a program that leaves the file $MARK, in the clone that the command works in. `$RUN` is that program.
CONFIG = {
    "fsmonitor": "git config core.fsmonitor $RUN",
    "hooks path": "mkdir h; for h in $HOOKS; do cp $RUN h/$h; done; git config core.hooksPath $PWD/h; rm -r .git/hooks",
    "clean filter": "git config filter.x.clean $RUN; git config filter.x.smudge $RUN; echo '* filter=x' > .gitattributes",
    "filter in info": "git config filter.x.process $RUN; mkdir -p .git/info; echo '* filter=x' > .git/info/attributes",
    "ssh command": "git config core.sshCommand $RUN; git config core.gitProxy $RUN",
    "credential helper": "git config credential.helper '!'$RUN; git config core.askPass $RUN",
    "include": 'printf "[core]\\nfsmonitor = %s\\n" $RUN > evil; git config include.path ../evil',
    "external diff": "git config diff.external $RUN; git config diff.x.textconv $RUN; git config core.pager $RUN",
    "merge driver": "git config merge.x.driver $RUN; echo '* merge=x' > .gitattributes",
    "signature": "git config commit.gpgSign true; git config gpg.program $RUN; git config push.gpgSign if-asked",
    "editor": "git config core.editor $RUN; git config sequence.editor $RUN",
    "alias": "for a in push fetch rebase status add commit; do git config alias.$a '!'$RUN; done",
    "trailer": "git config trailer.Nightlatch-Job.command $RUN; git config trailer.x.cmd $RUN",
    "other remote": 'git config "url.ext::$RUN.insteadOf" file:; git config protocol.ext.allow always',
    "receive pack": "git config remote.origin.receivepack $RUN; git config remote.origin.uploadpack $RUN",
    "work tree": "git config core.worktree /; git config core.bare true",
    "worktree config": "git config extensions.worktreeConfig true; git config --worktree core.fsmonitor $RUN",
    "submodule": "git init -q sub; git -C sub -c user.name=a -c user.email=a commit -q --allow-empty -m s; "
    "git add sub 2>/dev/null; git commit -qm sub; git -C sub config core.fsmonitor $RUN; touch sub/x",
    "hooks": "mkdir -p .git/hooks; for h in $HOOKS; do cp $RUN .git/hooks/$h; done",
}
HOOKS = (
    "pre-commit prepare-commit-msg commit-msg post-commit pre-rebase post-checkout post-merge post-rewrite pre-push "
    "reference-transaction post-index-change fsmonitor-watchman pre-auto-gc applypatch-msg pre-applypatch"
)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return begun(git_repository(tmp_path / "remote.git"), tmp_path / "site")


@pytest.mark.parametrize("planted", CONFIG)
def test_nothing_that_is_planted_in_a_workspace_runs_as_the_supervisor(
    planted: str, site: Path, tmp_path: Path, sqlite_url: str
) -> None:
    program, mark = tmp_path / "program", tmp_path / "mark"
    program.write_text(f"#!/bin/sh\necho {planted} >> {mark}\nexec cat\n")
    program.chmod(0o755)
    # Committed and uncommitted work; and somebody else's push, which has to be followed.
    script = f"""set -e
    RUN={program}; HOOKS="{HOOKS}"
    echo mine > committed; git add committed; git commit -qm Mine
    echo more > uncommitted
    git -C {site} commit -q --allow-empty -m Theirs; git -C {site} push -q origin main
    {CONFIG[planted]}
    rm -f {mark}"""
    words = ["run", "posts", "--key", "k", "--workspace", "git", "--publish", "git", "--", "sh", "-c", script]
    done = programs.nightlatch(sqlite_url, *words, cwd=site)
    assert done.returncode == 0, done.stderr
    assert not mark.exists(), mark.read_text()
    remote = tmp_path / "remote.git"
    assert {"committed", "uncommitted"} <= set(git(remote, "ls-tree", "--name-only", "main").split())
    assert git(remote, "show", "main:uncommitted") == "more"


@pytest.mark.parametrize("planted", ["fsmonitor", "ssh command", "hooks"])
def test_nor_when_the_command_asks_for_a_push_from_its_workspace(
    planted: str, site: Path, tmp_path: Path, sqlite_url: str
) -> None:
    program, mark, remote = tmp_path / "program", tmp_path / "mark", tmp_path / "remote.git"
    # The command's own git may run it: that is the command's affair, and has the run in its environment.
    program.write_text(f'#!/bin/sh\n[ -n "$NIGHTLATCH_RUN" ] || echo {planted} >> {mark}\n')
    program.chmod(0o755)
    script = f"""set -e
    RUN={program}; HOOKS="{HOOKS}"
    git init -q -b main here; cd here; git config user.name a; git config user.email a@b
    git remote add origin file://{remote}; git fetch -q; git reset -q --hard origin/main
    echo two > page; git commit -qam Two
    {CONFIG[planted]}
    mkdir -p below; cd below; rm -f {mark}
    {programs.TOOL} push origin main"""
    done = programs.nightlatch(sqlite_url, "run", "posts", "--workspace", "scratch", "--", "sh", "-c", script, cwd=site)
    assert done.returncode == 0, done.stderr
    assert not mark.exists(), mark.read_text()
    assert git(remote, "show", "main:page") == "two"


@pytest.mark.parametrize(
    "replaced",
    [
        "mv .git moved; echo gitdir: moved > .git",
        "mv .git moved; ln -s moved .git",
        "cp -r .git common; git config -f common/config core.fsmonitor $RUN; echo $PWD/common > .git/commondir",
    ],
)
def test_a_git_folder_that_was_replaced_is_not_pushed_from(
    replaced: str, site: Path, tmp_path: Path, sqlite_url: str
) -> None:
    script = f"RUN=false; echo mine > mine; git add mine; git commit -qm Mine; {replaced}"
    words = ["run", "posts", "--key", "k", "--workspace", "git", "--publish", "git", "--", "sh", "-c", script]
    done = programs.nightlatch(sqlite_url, *words, cwd=site)
    assert done.returncode and "was replaced by the command" in done.stderr, done.stderr
    assert git(tmp_path / "remote.git", "log", "-1", "--format=%s", "main") == "A change"


@pytest.mark.parametrize("name", ["HEAD", "index", "packed-refs", "refs/tags/x", "objects/info/alternates"])
def test_a_pipe_in_a_workspaces_git_folder_does_not_keep_the_supervisor_waiting(
    name: str, site: Path, sqlite_url: str
) -> None:
    script = f"echo mine > new; git add new; git commit -qm Mine; rm -f .git/{name}; mkfifo .git/{name}"
    words = ["run", "posts", "--key", "k", "--workspace", "git", "--publish", "git", "--", "sh", "-c", script]
    done = programs.nightlatch(sqlite_url, *words, cwd=site, timeout=60)
    assert done.returncode not in (0, 125) and f"{name} is not a file" in done.stderr, done
