"""Safe git commands in a repository where a run's command worked: its settings and hooks are not used.

A program that can write to a `.git` can have other programs run by the next git there: hooks, core.fsmonitor, filters,
credential helpers, an ssh command, and more with each version of git. So our commands take HEAD, index, refs and
objects from that `.git`, and settings, hooks and attributes from a folder that Nightlatch made. To git the two look
like a linked work tree and its main repository.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from ..errors import GateUnreachable
from ..system import durable

# Needed in addition to the guard: the user's own settings may name paths in the work tree or hide new files there, and
# submodules have separate settings.
SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "diff.ignoreSubmodules=all",
    "status.showUntrackedFiles=normal",
    "submodule.recurse=false",
)


def make(folder: str, guard: str, config: bytes) -> None:
    """Make the folder `guard` with these settings, for git commands in the repository of `folder`."""
    git_dir = os.path.join(os.path.abspath(folder), ".git")
    durable.private_folder(guard)
    for name in ("refs", "packed-refs"):
        path = os.path.join(guard, name)
        if os.path.lexists(path):
            os.unlink(path)
        os.symlink(os.path.join(git_dir, name), path)
    durable.replace(os.path.join(guard, "config"), config)


def environment(folder: str, guard: str) -> dict[str, str]:
    git_dir = os.path.join(folder, ".git")
    return {
        "GIT_DIR": git_dir,
        "GIT_COMMON_DIR": guard,
        "GIT_OBJECT_DIRECTORY": os.path.join(git_dir, "objects"),
        "GIT_WORK_TREE": folder,
    }


def check(folder: str, guard: str) -> None:
    """Raises `GateUnreachable` if git would read settings from elsewhere, or could hang."""
    git_dir = os.path.join(folder, ".git")
    if os.path.islink(git_dir) or not os.path.isdir(git_dir) or os.path.lexists(os.path.join(git_dir, "commondir")):
        raise GateUnreachable(f"{git_dir} was replaced by the command: nothing is pushed from there")
    for path in _files_git_reads(git_dir):
        if os.path.exists(path) and not os.path.isfile(path):
            raise GateUnreachable(f"{path} is not a file: the command has replaced it. Nothing is pushed from there")
    if not os.path.isfile(os.path.join(guard, "config")):
        raise GateUnreachable(f"the settings of {folder} are gone from {guard}: nothing is pushed from there")


def _files_git_reads(git_dir: str) -> Iterator[str]:
    """The paths of files that git reads. If one were a named pipe, git would wait for its writer, and we for git."""
    for name in ("HEAD", "index", "packed-refs", "shallow", "objects/info/alternates"):
        yield os.path.join(git_dir, name)
    for folder, _, names in os.walk(os.path.join(git_dir, "refs")):
        for name in names:
            yield os.path.join(folder, name)
