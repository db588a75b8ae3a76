"""A git workspace: a clone that shares the objects this machine has, and cannot push by itself.

It begins at what the *remote's* branch has now, not at what the local checkout has: the checkout that a
nightly job is started from is seldom pulled, and the second night must see what the first one published.
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
from ....store.git.remote import resolve
from ....system import durable, identity, program
from .guard import guard_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....store.git.remote import Remote

# As a path: git then says that it "does not appear to be a git repository", with this sentence in it.
PUSH_DISABLED = "/this workspace cannot push. Commit; nightlatch pushes when the run has succeeded (--publish git)"

# Set by git for hooks and for its own child processes; they would point the command's git at another repository.
ELSEWHERE = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX", "GIT_WORK_TREE",
)  # fmt: skip

_TIMEOUT = 900.0  # seconds for a fetch of everything
_COPIED = ("user.name", "user.email", "user.signingKey", "commit.gpgSign")


@value(frozen=True, kw_only=True)
class Source:
    """Which branch of which repository."""

    branch: str
    remote: Remote | None  # None: a repository without a remote, which can be cloned but not pushed to
    local: str  # the git folder of a repository on this machine that has its objects; "" if there is none


def source(spec: str) -> Source:
    """What `git` or `git:URL#branch` means, seen from the current folder."""
    _, _, place = spec.partition(":")
    if place:
        url, _, branch = place.rpartition("#")
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
    known = name in here.run("remote")[1].split()
    return Source(branch=branch, remote=resolve(f"git+{name}") if known else None, local=os.path.abspath(local))


def into(path: str, source: Source) -> str:
    """Clone into the empty folder `path`; returns the commit that the branch has, "" if it has none yet."""
    remote = source.remote
    url = remote.url if remote else source.local
    work = Worktree(path, config=remote.config if remote else "")
    here, tracked = f"refs/heads/{source.branch}", f"refs/remotes/origin/{source.branch}"
    try:
        _must(work, "init", "--quiet")
        _must(work, "symbolic-ref", "HEAD", here)
        if source.local:
            objects = os.path.join(path, ".git", "objects", "info", "alternates")
            durable.replace(objects, os.fsencode(os.path.join(source.local, "objects")) + b"\n")
        for name, text in _settings(url, source.branch, here, tracked):
            _must(work, "config", name, text)
        with open(os.path.join(path, ".git", "config"), "rb") as file:
            git_guard.make(path, guard_of(path), file.read())
        code, _, stderr = work.fetch_into(url, here, tracked, timeout=_TIMEOUT)
        if code and "couldn't find remote ref" in stderr:
            return ""  # nobody has pushed to it yet: the first commit is the command's
        if code:
            raise GateUnreachable(
                f"{without_password(url)} could not be cloned ({_last(stderr)}). Check the address and that you may "
                f"read it: git ls-remote {without_password(url)}"
            )
        _must(work, "checkout", "--quiet", "--no-track", "-B", source.branch, tracked)
    except program.Unfinished as error:
        raise GateUnreachable(f"{without_password(url)} could not be cloned: {error}. Try again") from error
    return work.tip()


def top(workspace: str, folder: str) -> str:
    """The repository in a workspace that `folder` is in."""
    found = os.path.realpath(folder)
    while not os.path.lexists(os.path.join(found, ".git")):
        if found == os.path.realpath(workspace):
            raise UsageError(f"{folder} is not in a git repository of the workspace {workspace}")
        found = os.path.dirname(found)
    return found


def guard_inside(workspace: str, repository: str) -> str:
    """Settings for our git commands in a repository that a command made in its workspace: those of the current user."""
    cloned = os.path.isfile(os.path.join(guard_of(workspace), "config"))
    if cloned and os.path.realpath(repository) == os.path.realpath(workspace):
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
    """The committer, and signing settings, of the current folder."""
    local = Worktree(".")
    known = {name: text for name in _COPIED if (text := local.run("config", name)[1])}
    return {"user.name": "Nightlatch", "user.email": f"nightlatch@{identity.host()}"} | known


def _settings(url: str, branch: str, here: str, tracked: str) -> list[tuple[str, str]]:
    """Without the URL's password."""
    return [
        ("remote.origin.url", without_password(url)),
        ("remote.origin.pushurl", PUSH_DISABLED),
        ("remote.origin.fetch", f"+{here}:{tracked}"),
        (f"branch.{branch}.remote", "origin"),
        (f"branch.{branch}.merge", here),
        ("gc.auto", "0"),  # in a folder that lives for one run it would only be left behind
        *_identity().items(),
    ]


def _must(work: Worktree, *words: str) -> None:
    code, _, stderr = work.run(*words)
    if code:
        raise GateUnreachable(f"the workspace {work.folder} could not be made: git {words[0]}: {_last(stderr)}")


def _last(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return lines[-1].removeprefix("fatal: ") if lines else "git said nothing"
