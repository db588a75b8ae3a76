"""Which remote a URL means: `git+https://…`, `git+ssh://…`, `git+file:///…`, `git+origin`, `git+origin@/folder`."""

from __future__ import annotations

import os
import re

from ...core.value import value
from ...errors import UsageError
from ...system import program

SCHEMES = ("https", "ssh", "http", "file", "git")

# Variables that our git does not inherit. git sets most of them for hooks and for commands that it starts; they would
# point our git at the repository of that git.
_NOT_INHERITED = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_DIR", "GIT_GRAFT_FILE", "GIT_INDEX_FILE",
    "GIT_NAMESPACE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_QUARANTINE_PATH", "GIT_SHALLOW_FILE", "GIT_WORK_TREE",
    "SSH_ASKPASS",
    # A challenger ends every process that carries a dead holder's grant. A push to the store is not that holder's work:
    # ended while it writes to a local remote, it would leave a lock file behind, and all it can still do is a
    # compare-and-swap.
    "NIGHTLATCH_LINEAGE",
)  # fmt: skip

_HOST_AND_PATH = re.compile(r"[\w.-]+(@[\w.-]+)?:(?!:)[^:].*")  # user@host:path
_REMOTE_NAME = re.compile(r"\w[\w.-]*")

_USAGE = (
    "Use git+https://host/path, git+ssh://user@host/path, git+file:///path/to/repository.git, or git+origin for "
    "the remote of the repository in this folder"
)


@value(frozen=True, kw_only=True)
class Remote:
    url: str  # as it is passed to git
    config: str = ""  # the settings file of the repository that names this remote


def environment() -> dict[str, str]:
    """The environment of every git we start: it never prompts, and its messages are in English, which we parse."""
    env = {name: text for name, text in os.environ.items() if name not in _NOT_INHERITED}
    return {**env, "GIT_TERMINAL_PROMPT": "0", "GCM_INTERACTIVE": "never", "LC_ALL": "C", "LANGUAGE": ""}


def resolve(url: str, folder: str = ".") -> Remote:
    """Which remote `git+…` means, seen from `folder`."""
    place = url.removeprefix("git+")
    scheme, separator, rest = place.partition("://")
    if separator:
        if scheme not in SCHEMES or not rest.strip("/") or (scheme == "file" and not rest.startswith("/")):
            raise UsageError(f"{url!r} does not name a git remote. {_USAGE}")
        return Remote(url=place) if scheme == "file" else Remote(url=place, config=_config_for(place, folder))
    if place.startswith("/"):
        return Remote(url=f"file://{os.path.normpath(place)}")
    if _HOST_AND_PATH.fullmatch(place):
        return Remote(url=place, config=_config_for(place, folder))
    name, separator, elsewhere = place.partition("@/")
    if _REMOTE_NAME.fullmatch(name):
        return _remote_named(name, f"/{elsewhere}" if separator else folder)
    raise UsageError(f"{url!r} does not name a git remote. {_USAGE}")


def _remote_named(name: str, folder: str) -> Remote:
    code, git_dir, message = _git(folder, "rev-parse", "--git-common-dir")
    if code:
        raise UsageError(
            f"git+{name} means the remote {name} of the repository in a folder, and {os.path.abspath(folder)} is "
            f"not in one ({message or 'git printed nothing'}). Change to the repository's folder, or "
            f"use the repository's address, such as git+https://host/path"
        )
    git_dir = os.path.abspath(os.path.join(folder, git_dir))
    code, url, _ = _git(folder, "remote", "get-url", "--push", name)
    if code:
        _, names, _ = _git(folder, "remote")
        there = f"it has {', '.join(names.split())}" if names else "it has none"
        raise UsageError(
            f"the repository in {os.path.abspath(folder)} has no remote {name}: {there}. git remote add {name} URL"
        )
    if "://" not in url and not _HOST_AND_PATH.fullmatch(url):
        # A relative path starts at the top of the work tree.
        code, base, _ = _git(folder, "rev-parse", "--show-toplevel")
        url = "file://" + os.path.normpath(os.path.join(git_dir if code else base, url))
    return Remote(url=url, config=os.path.join(git_dir, "config"))


def _config_for(url: str, folder: str) -> str:
    """The settings file of the repository in `folder`, if the URL is a remote of it: it may have the credentials."""
    code, found, _ = _git(folder, "config", "--get-regexp", r"^remote\..*\.(push)?url$")
    if code or url not in (line.partition(" ")[2] for line in found.splitlines()):
        return ""
    code, git_dir, _ = _git(folder, "rev-parse", "--git-common-dir")
    return "" if code else os.path.join(os.path.abspath(os.path.join(folder, git_dir)), "config")


def _git(folder: str, *words: str) -> tuple[int, str, str]:
    from .git_errors import no_git

    try:
        code, out, err = program.run(["git", "-C", folder, *words], env=environment(), timeout=10)
    except (OSError, program.Unfinished) as error:
        raise no_git(error) from error
    return code, out.decode().strip(), err.decode().strip().removeprefix("fatal: ")
