"""An optional hook for a git server: a branch moves only together with its fence.

`nightlatch push` is safe without it. With it, a plain `git push` to the branch is refused too, so that
nobody can bypass the gate.
"""

from __future__ import annotations

import os

from ..errors import UsageError
from ..store.git import names
from ..system import durable

_SIGNATURE = "# written by nightlatch gate install-hook"

_HOOK = """#!/bin/sh
{signature}
# Input: a line "old new ref" for each ref. A guarded branch must come with its fence in the same push. A fence only
# moves to a child of its current commit, in which no lease is missing and no token is lower.
moved=$(cat)
line() {{ printf '%s\\n' "$moved" | awk -v ref="$1" '$3 == ref'; }}
marks() {{ git cat-file commit "$1" | awk -F '\\t' 'body && NF > 1 {{ print $1 "\\t" $2 }} !NF {{ body = 1 }}'; }}
refuse() {{ echo "$1" >&2; exit 1; }}
guard() {{  # branch, fence ref
  fence=$(line "$2")
  if [ -z "$fence" ]; then
    [ -z "$(line "refs/heads/$1")" ] && return 0
    refuse "$1 is guarded: push to it with 'nightlatch push', under a lease"
  fi
  old=${{fence%% *}}; new=${{fence#* }}; new=${{new%% *}}
  case $new in *[!0]*) ;; *) refuse "the fence of $1 cannot be deleted" ;; esac
  [ "$(git cat-file -t "$new")" = commit ] || refuse "what was pushed is not a fence of $1"
  [ "$(git log -1 --format=%s "$new" --)" = "fence of $1" ] || refuse "what was pushed is not a fence of $1"
  case $old in *[!0]*) ;; *) old="" ;; esac
  [ "$(git log -1 --format=%P "$new" --)" = "$old" ] || refuse "the fence of $1 can only go forward, step by step"
  [ -z "$old" ] && return 0
  fallen=$({{ marks "$new"; echo; marks "$old"; }} | awk -F '\\t' '
    !NF {{ before = 1; next }}
    !before {{ now[$1] = $2 }}
    before && (!($1 in now) || now[$1] + 0 < $2 + 0) {{ print $1 }}')
  [ -z "$fallen" ] || refuse "the fence of $1 would let older holders of $fallen in again"
}}
{guards}
exit 0
"""


def install(repository: str, branches: list[str]) -> str:
    """Write the hook into a bare repository; returns its path. Never replaces another hook."""
    folder = os.path.join(repository, "hooks")
    if not os.path.isfile(os.path.join(repository, "HEAD")):
        raise UsageError(f"{repository} is not a bare git repository: name the one that people push to")
    path = os.path.join(folder, "pre-receive")
    if os.path.lexists(path) and _SIGNATURE not in _content(path):
        raise UsageError(f"{path} is your own hook: call the guard from it, or move it away")
    guarded = list(map(names.branch, branches))
    for branch in guarded:
        if any(sign in branch for sign in "'\"$`"):
            raise UsageError(f"{branch!r} cannot be guarded: a hook's script cannot quote it")
    guards = "\n".join(f"guard '{branch}' '{names.fence(branch)}'" for branch in guarded)
    os.makedirs(folder, exist_ok=True)
    durable.replace(path, _HOOK.format(signature=_SIGNATURE, guards=guards).encode(), mode=0o755)
    return path


def _content(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
