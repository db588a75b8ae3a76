"""Committing what a command left uncommitted in its clone: all of it, or nothing."""

from __future__ import annotations

from ....errors import NothingToPublish

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....gates.worktree import Worktree

_SUBMODULE = "160000"  # the mode of a repository inside a repository


def commit(work: Worktree, message: str) -> None:
    """Commit all changes. `NothingToPublish`: git would commit something other than what is in the folder."""
    if not work.run("status", "--porcelain")[1]:
        return
    unmerged = work.run("diff", "--name-only", "--diff-filter=U", "-z")[1].strip("\0").split("\0")
    if unmerged != [""]:
        raise NothingToPublish(
            f"nothing was published: {', '.join(unmerged)} has conflicts of a merge that the command left unfinished"
        )
    _run_git(work, "add", "--all")
    if nested := _nested_repositories(work):
        raise NothingToPublish(
            f"nothing was published: {', '.join(nested)} is a repository inside the workspace's repository, so its "
            f"files would be missing. Let the command remove its .git, or add it as a submodule"
        )
    _run_git(work, "commit", "--quiet", "-m", message)


def _nested_repositories(work: Worktree) -> list[str]:
    """Added repositories that are not submodules. Git adds only the id of their commit, and no remote has their
    files (a submodule has a remote)."""
    words = ("diff", "--cached", "--raw", "--no-renames", "--diff-filter=AT", "--ignore-submodules=none", "-z")
    fields = iter(_run_git(work, *words).split("\0"))
    added = [path for modes, path in zip(fields, fields, strict=False) if modes.split()[1] == _SUBMODULE]
    if not added:
        return []
    _, named, _ = work.run("config", "--blob", ":.gitmodules", "--get-regexp", r"^submodule\..*\.path$")
    submodules = {line.partition(" ")[2] for line in named.splitlines()}
    return [path for path in added if path not in submodules]


def _run_git(work: Worktree, *words: str) -> str:
    code, out, stderr = work.run(*words)
    if code:
        raise NothingToPublish(f"what the command left could not be committed: {(stderr or out).strip()}")
    return out
