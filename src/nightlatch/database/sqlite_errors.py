"""Errors of SQLite and the file system, turned into one line that says what to do."""

from __future__ import annotations

import os

from ..errors import StoreUnreachable, remedy
from ..system.light import sqlite3

_DAMAGED = (
    "Restore a backup and raise its tokens (nightlatch lease raise NAME --above N), or move the file away to start over"
)

_FILES = 4  # the database, its log, the log's index, and the folder

# A part of SQLite's message → what it means.
_ADVICE = (
    ("full", "cannot be written: the disk is full. Free some space; nothing was changed"),
    ("locked", "is kept busy by another program's transaction. End that program's transaction"),
    ("readonly", "cannot be written: it, or its folder, is read-only. Check owner and permissions"),
    ("unable to open", "cannot be opened. Check that its folder exists and is yours"),
    ("disk I/O", "cannot be read or written: the disk reports an error. Check its space and its health"),
    ("not a database", f"is damaged or not a Nightlatch store. {_DAMAGED}"),
    ("malformed", f"is damaged. {_DAMAGED}"),
)


class ExplainedSqliteErrors:
    """`with ExplainedSqliteErrors(path): …` turns errors inside it into StoreUnreachable."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        if isinstance(error, sqlite3.Error):
            text = str(error)
            problem = next((advice for sign, advice in _ADVICE if sign in text), f"failed: {text}")
            if "unable to open" in text and (limit := _no_descriptor_left()):
                problem = f"cannot be opened: {limit.strerror}. {remedy(limit)}"
        elif isinstance(error, OSError):
            where = f" ({error.filename})" if error.filename not in (None, self._path) else ""
            then = remedy(error) or "Name another place with --store sqlite:////path/to/file"
            problem = f"cannot be used: {error.strerror or error}{where}. {then}"
        else:
            return
        raise StoreUnreachable(f"the store {self._path} {problem}") from error


def _no_descriptor_left() -> OSError | None:
    """The error if this process cannot open as many files as SQLite needs, which does not say why it cannot."""
    opened: list[int] = []
    try:
        while len(opened) < _FILES:
            opened.append(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error if remedy(error) else None
    finally:
        for fd in opened:
            os.close(fd)
    return None
