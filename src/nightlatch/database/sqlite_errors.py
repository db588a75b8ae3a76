"""Errors of SQLite and the file system, turned into one line that says what to do."""

from __future__ import annotations

import os

from ..errors import StoreUnreachable, remedy
from ..system import process
from ..system.light import sqlite3

_DAMAGED = (
    "Restore a backup and raise its tokens (nightlatch lease raise NAME --above N), or move the file away to start over"
)

_BUSY = "locked", "locking protocol"  # parts of SQLite's messages for a database that another process keeps locked
_LOG_INDEX = "-shm"  # locked for a moment by a process that opens or closes the database
_FILES = 4  # the database, its log, the log's index, and the folder

# A part of SQLite's message → what it means.
_ADVICE = (
    ("full", "cannot be written: the disk is full. Free some space; nothing was changed"),
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
            if any(sign in text for sign in _BUSY):
                problem = _busy(self._path)
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


def _busy(path: str) -> str:
    """Which process keeps the database locked, if the kernel says so, and what to do about it."""
    pid = _locker(path)
    start = process.start_of(pid) if pid else None
    if start is None:
        return "is kept busy by another program's transaction. End that program's transaction"
    busy = f"is kept busy by process {pid} ({process.name(pid)})"
    if process.state_of(pid, start) == process.STOPPED:
        return f"{busy}, which is stopped. Let it go on (kill -CONT {pid}) or end it, then try again"
    return f"{busy}. Try again when that has ended"


def _locker(path: str) -> int:
    """The process that has a part of the database locked against others; 0 if the kernel names none."""
    places = {place for file in (path, path + _LOG_INDEX) if (place := _place(file))}
    try:
        with open("/proc/locks", "rb") as file:
            locks = [line.split() for line in file]
    except OSError:
        return 0  # another system, or a sandbox
    writers = (int(pid) for _, _, _, kind, pid, place, *_ in locks if kind == b"WRITE" and place in places)
    return next((pid for pid in writers if pid not in (0, os.getpid())), 0)


def _place(path: str) -> bytes:
    """How the kernel's list of locks names a file; b"" if it does not exist."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return b""
    return b"%02x:%02x:%d" % (os.major(found.st_dev), os.minor(found.st_dev), found.st_ino)
