"""A git workspace: a clone that shares the objects of a local repository, and cannot push by itself.

It starts from the *remote's* branch as it is now, not from the local checkout: the checkout that a nightly job
is started from is seldom pulled, and the second night must see what the first one published.
"""

from __future__ import annotations

import hashlib
import os

from ....core.passwords import without_password
from ....core.value import value
from ....errors import GateUnreachable, UsageError
from ....gates import git_guard
from ....gates.worktree import Worktree
from ....store.git import names
from ....store.git.remote import Remote, resolve
from ....system import durable, identity, program
from .guard import guard_of

# The push URL, in the form of a path: git's "… does not appear to be a git repository" then quotes this sentence.
PUSH_DISABLED = "/this workspace cannot push. Commit; nightlatch pushes when the run has succeeded (--publish git)"

# Set by git for hooks and for its own child processes; they would point the command's git at another repository.
REPOSITORY_VARIABLES = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX", "GIT_WORK_TREE",
)  # fmt: skip

_TIMEOUT = 900.0  # seconds for fetching the whole branch
_IDENTITY_SETTINGS = ("user.name", "user.email", "user.signingKey", "commit.gpgSign")


@value(frozen=True, kw_only=True)
class Source:
    """The branch that a workspace is cloned from."""

    branch: str
    remote: Remote | None  # None: a repository without a remote, which can be cloned but not pushed to
    local: str  # the git folder on this machine whose objects the clone shares; "" if there is none


def source(spec: str) -> Source:
    """The branch that `git:URL#branch` names; for `git`, the current branch of the repository in this folder."""
    _, _, address = spec.partition(":")
    if address:
        url, _, branch = address.rpartition("#")
        if not url or not branch:
            raise UsageError(f"--workspace {spec!r} names no branch: write git:https://host/path#main")
        remote = resolve(f"git+{url}")
        return Source(branch=names.branch(branch), remote=remote, local=os.path.dirname(remote.config))
    here = Worktree(".")
    code, local, _ = here.run("rev-parse", "--git-common-dir")
    if code:
        raise UsageError(
            f"--workspace git is a clone of the repository in this folder, and {here.folder} is not in one. Change to "
            f"it, or name one: git:https://host/path#main"
        )
    branch = here.branch()
    name = here.run("config", f"branch.{branch}.remote")[1] or "origin"
    exists = name in here.run("remote")[1].split()
    return Source(branch=branch, remote=resolve(f"git+{name}") if exists else None, local=os.path.abspath(local))


def into(path: str, source: Source) -> str:
    """Clone into the empty folder `path`; returns the branch's tip, "" if the remote does not have the branch yet."""
    remote = source.remote
    url = remote.url if remote else source.local
    work = Worktree(path, config=remote.config if remote else "")
    local_ref, tracking_ref = f"refs/heads/{source.branch}", f"refs/remotes/origin/{source.branch}"
    try:
        _run_git(work, "init", "--quiet")
        _run_git(work, "symbolic-ref", "HEAD", local_ref)
        if source.local:
            objects = os.path.join(path, ".git", "objects", "info", "alternates")
            durable.replace(objects, os.fsencode(os.path.join(source.local, "objects")) + b"\n")
        for name, text in _settings(url, source.branch, local_ref, tracking_ref):
            _run_git(work, "config", name, text)
        with open(os.path.join(path, ".git", "config"), "rb") as file:
            git_guard.make(path, guard_of(path), file.read())
        code, _, stderr = work.fetch_into(url, local_ref, tracking_ref, timeout=_TIMEOUT)
        if code and "couldn't find remote ref" in stderr:
            return ""  # nobody has pushed to the branch yet: the command makes its first commit
        if code:
            raise GateUnreachable(
                f"{without_password(url)} could not be cloned ({_last_line(stderr)}). Check the address and that you "
                f"may read it: git ls-remote {without_password(url)}"
            )
        _run_git(work, "checkout", "--quiet", "--no-track", "-B", source.branch, tracking_ref)
    except program.Unfinished as error:
        raise GateUnreachable(f"{without_password(url)} could not be cloned: {error}. Try again") from error
    return work.tip()


def top(workspace: str, folder: str) -> str:
    """The top folder of the repository that `folder` is in; that repository must be in the workspace."""
    found = os.path.realpath(folder)
    while not os.path.lexists(os.path.join(found, ".git")):
        if found == os.path.realpath(workspace):
            raise UsageError(f"{folder} is not in a git repository of the workspace {workspace}")
        found = os.path.dirname(found)
    return found


def guard_inside(workspace: str, repository: str) -> str:
    """The guard for our git commands in a repository of the workspace: the workspace's, if the repository is our
    clone; for one that the command made, a guard with the current user's name."""
    is_clone = os.path.isfile(os.path.join(guard_of(workspace), "config"))
    if is_clone and os.path.realpath(repository) == os.path.realpath(workspace):
        return guard_of(workspace)
    digest = hashlib.sha256(os.fsencode(repository)).hexdigest()[:16]
    guard = os.path.join(durable.private_folder(guard_of(workspace)), digest)
    lines = ["[core]", "repositoryformatversion = 0", "bare = false", "[gc]", "auto = 0", "[user]"]
    lines += [f"{name.partition('.')[2]} = {_quoted(text)}" for name, text in _identity().items() if "user." in name]
    git_guard.make(repository, guard, "\n".join([*lines, ""]).encode(errors="surrogateescape"))
    return guard


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") + '"'


def _identity() -> dict[str, str]:
    """Committer and signing settings, as git finds them in the current folder; a committer is always named."""
    local = Worktree(".")
    configured = {name: text for name in _IDENTITY_SETTINGS if (text := local.run("config", name)[1])}
    return {"user.name": "Nightlatch", "user.email": f"nightlatch@{identity.host()}"} | configured


def _settings(url: str, branch: str, local_ref: str, tracking_ref: str) -> list[tuple[str, str]]:
    """The clone's git settings. The command can read them, so the URL is without its password."""
    return [
        ("remote.origin.url", without_password(url)),
        ("remote.origin.pushurl", PUSH_DISABLED),
        ("remote.origin.fetch", f"+{local_ref}:{tracking_ref}"),
        (f"branch.{branch}.remote", "origin"),
        (f"branch.{branch}.merge", local_ref),
        ("gc.auto", "0"),  # garbage collection is not worth it for one run, and would go on in the background
        *_identity().items(),
    ]


def _run_git(work: Worktree, *words: str) -> None:
    code, _, stderr = work.run(*words)
    if code:
        raise GateUnreachable(f"the workspace {work.folder} could not be made: git {words[0]}: {_last_line(stderr)}")


def _last_line(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return lines[-1].removeprefix("fatal: ") if lines else "git printed nothing"
