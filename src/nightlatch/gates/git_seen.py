"""Where a branch and its fence stood when this machine last moved them, kept for its next push, in any process.

That one may try without a look, which saves a connection: it compares, so if this is old news it is refused, and looks.
"""

from __future__ import annotations

import os

from ..system import durable

_NOT_THERE = "0" * 40
_HEX = frozenset("0123456789abcdef")


def keep(path: str, branch: str, fence: str) -> None:
    """Always as long as before, so it is overwritten in one piece; what cannot be kept only costs a look."""
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
    """(branch, "" if it was not there; fence)"""
    try:
        with open(path, errors="replace") as file:
            branch, _, fence = file.read().removesuffix("\n").partition(" ")
    except OSError:
        return None
    if len(branch) != 40 or len(fence) != 40 or not _HEX.issuperset(branch + fence):
        return None
    return "" if branch == _NOT_THERE else branch, fence
