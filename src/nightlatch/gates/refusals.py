"""A gate's refusals, kept beside its marks: which holder came too late, with which token, and when."""

from __future__ import annotations

import os

from ..core.fence import Refusal
from ..errors import StaleToken
from ..system import clock

KEEP = 128 * 1024  # bytes; a larger file becomes `.old`, in place of the earlier `.old`


def record(path: str, refused: StaleToken, by: str) -> None:
    """Append the refusal. A failure to record becomes a note on the refusal: it must not hide the refusal itself."""
    try:
        if os.path.exists(path) and os.path.getsize(path) > KEEP:
            os.replace(path, f"{path}.old")
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, Refusal.of(refused, by, clock.wall()).pack().encode())
        finally:
            os.close(fd)
    except OSError as error:
        refused.add_note(f"the refusal could not be recorded in {path}: {error.strerror or error}")


def read(path: str) -> list[Refusal]:
    """All refusals that are kept, the oldest first. A line that a kill cut short is left out."""
    found = []
    for part in (f"{path}.old", path):
        try:
            with open(part, encoding="utf-8") as file:
                found += [Refusal.unpack(line[:-1]) for line in file if line.endswith("\n") and line.count("\t") >= 6]
        except FileNotFoundError:
            pass
    return found
