"""Which program a command is on this machine: the file that it starts, and the commit checked out in its folder. Both
are read from the file system in a fraction of a millisecond. Only a job's `version` command is a process, started once
after each change of the program."""

from __future__ import annotations

import os

from . import durable
from .light import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_PATIENCE = 10.0  # seconds for the `version` command
_LONGEST = 200  # characters kept of its output


def program(name: str, folder: str, path: str) -> dict[str, str]:
    """The file that a command's first word `name` starts: real path, size and time of change; {} if there is none."""
    if not name:
        return {}
    places = [""] if os.sep in name else [each or "." for each in path.split(os.pathsep)]
    for place in places:
        found = os.path.join(folder, place, name)
        try:
            if os.access(found, os.X_OK) and not os.path.isdir(found):
                real = os.path.realpath(found)
                state = os.stat(real)
                return {"program": real, "program_size": str(state.st_size), "program_time": str(state.st_mtime_ns)}
        except OSError:
            continue
    return {}


def commit(folder: str) -> str:
    """The commit checked out in the repository that the folder is in; "" if it is in none."""
    here = os.path.abspath(folder)
    while True:
        git = os.path.join(here, ".git")
        if os.path.exists(git):
            return _head(git)
        above = os.path.dirname(here)
        if above == here:
            return ""
        here = above


def version(words: Sequence[str], known: dict[str, str], folder: str) -> str:
    """What the `version` command prints. Cached below `folder`; called again only when `known`, the facts of its
    program, has changed."""
    about = "\n".join([*words, *known.values()])
    path = os.path.join(durable.private_folder(os.path.join(folder, "versions")), sha256(about.encode()).hexdigest())
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        pass
    printed = _run(words)
    if printed:
        durable.replace(path, printed.encode(), mode=0o600)
    return printed


def _run(words: Sequence[str]) -> str:
    import subprocess

    try:
        done = subprocess.run(
            list(words), stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE, check=False
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return ""  # unknown; tried again at the next start
    text = (done.stdout or done.stderr).decode(errors="replace").strip()
    return text.split("\n")[0][:_LONGEST]


def _head(git: str) -> str:
    try:
        if os.path.isfile(git):  # in a worktree or submodule it names the folder
            git = os.path.join(os.path.dirname(git), _text(git).removeprefix("gitdir:").strip())
        head = _text(os.path.join(git, "HEAD")).strip()
        if not head.startswith("ref:"):
            return head
        ref = head.removeprefix("ref:").strip()
        shared = os.path.join(git, "commondir")
        common = os.path.join(git, _text(shared).strip()) if os.path.exists(shared) else git
        for place in (git, common):
            loose = os.path.join(place, ref)
            if os.path.exists(loose):
                return _text(loose).strip()
        for line in _text(os.path.join(common, "packed-refs")).splitlines():
            if line.endswith(f" {ref}"):
                return line.split(" ", 1)[0]
    except OSError:
        pass  # no commit yet, or not readable: unknown
    return ""


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
