"""The commits of a branch and its fence after this machine's last push, kept on disk for the next one.

The next push may start from them without asking the remote first, which saves a connection. If they are out of date,
the remote refuses that push, which is a compare-and-swap; the push then reads the remote and tries again.
"""

from __future__ import annotations

import os

from ..system import durable

_NO_BRANCH = "0" * 40
_HEX = frozenset("0123456789abcdef")


def keep(path: str, branch: str, fence: str) -> None:
    """Write both commits in one line of fixed length, by one write. If it fails, the next push asks the remote."""
    line = f"{branch or _NO_BRANCH} {fence}\n".encode()
    try:
        durable.private_folder(os.path.dirname(path))
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, line)
        finally:
            os.close(fd)
    except OSError:
        pass


def recall(path: str) -> tuple[str, str] | None:
    """(branch, fence), where branch is "" if it did not exist; None if nothing valid is kept."""
    try:
        with open(path, errors="replace") as file:
            branch, _, fence = file.read().removesuffix("\n").partition(" ")
    except OSError:
        return None
    if len(branch) != 40 or len(fence) != 40 or not _HEX.issuperset(branch + fence):
        return None
    return "" if branch == _NO_BRANCH else branch, fence
