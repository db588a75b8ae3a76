"""An optional hook for a git server: a branch moves only together with its fence.

`nightlatch push` is safe without it. With it, a plain `git push` to the branch is refused as well, so
that nobody can write past the gate.
"""

from __future__ import annotations

import os

from ..errors import UsageError
from ..store.git import names
from ..system import durable

_MARK = "# written by nightlatch gate install-hook"

_HOOK = """#!/bin/sh
{mark}
# old new ref, a line each. A guarded branch must come with its fence in the same push.
moved=$(cat)
guard() {{  # branch ref, fence ref
  printf '%s\\n' "$moved" | grep -q " $1\\$" || return 0
  printf '%s\\n' "$moved" | grep -qF " $2" && return 0
  echo "${{1#refs/heads/}} is guarded: push to it with 'nightlatch push', under a lease" >&2
  exit 1
}}
{guards}
exit 0
"""


def install(repository: str, branches: list[str]) -> str:
    """Write the hook into a bare repository; returns its path. Another hook that stands there is not touched."""
    folder = os.path.join(repository, "hooks")
    if not os.path.isfile(os.path.join(repository, "HEAD")):
        raise UsageError(f"{repository} is no bare git repository: name the one that people push to")
    path = os.path.join(folder, "pre-receive")
    if os.path.lexists(path) and _MARK not in _text(path):
        raise UsageError(f"{path} is a hook of your own: call the guard from it, or move it away")
    guarded = list(map(names.branch, branches))
    for branch in guarded:
        if any(sign in branch for sign in "'\"$`"):
            raise UsageError(f"{branch!r} cannot be guarded: a hook's script cannot quote it")
    guards = "\n".join(f"guard 'refs/heads/{branch}' '{names.fence(branch)}'" for branch in guarded)
    os.makedirs(folder, exist_ok=True)
    durable.replace(path, _HOOK.format(mark=_MARK, guards=guards).encode(), mode=0o755)
    return path


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
