"""The commits of a branch and its fence after this machine's last push, kept on disk for the next one.

The next push may start from them without asking the remote first, which saves a connection. It is a compare-and-swap:
if they are out of date, the remote refuses it, and the push reads the remote and tries again.
"""

from __future__ import annotations

import os

from ..system import durable

_NOT_THERE = "0" * 40
_HEX = frozenset("0123456789abcdef")


def keep(path: str, branch: str, fence: str) -> None:
    """The line always has the same length, so it is overwritten in one piece. A failure here only costs a look."""
    line = f"{branch or _NOT_THERE} {fence}\n".encode()
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
    """(branch, "" if it did not exist; fence), or None."""
    try:
        with open(path, errors="replace") as file:
            branch, _, fence = file.read().removesuffix("\n").partition(" ")
    except OSError:
        return None
    if len(branch) != 40 or len(fence) != 40 or not _HEX.issuperset(branch + fence):
        return None
    return "" if branch == _NOT_THERE else branch, fence
