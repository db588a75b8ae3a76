"""Read the kept output of a run: all of it, its end, or as it grows."""

from __future__ import annotations

import os

from ....system import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CHUNK = 1 << 16
_LOOK_EVERY = 0.2  # seconds between two looks at a growing file
_TAIL = 1 << 14  # bytes at the end, in which the last lines are looked for


def folder_of(store_folder: str, run: str) -> str:
    return os.path.join(store_folder, "runs", run)


def exists(folder: str) -> bool:
    return os.path.exists(os.path.join(folder, "output")) or os.path.exists(os.path.join(folder, "output.1"))


def tail(folder: str, lines: int) -> list[bytes]:
    """The last lines, as far as the last few kilobytes contain them."""
    found = b""
    for name in ("output", "output.1"):
        if len(found) < _TAIL and found.count(b"\n") <= lines:
            found = _end_of(os.path.join(folder, name), _TAIL - len(found)) + found
    return found.splitlines()[-lines:]


def read(folder: str) -> Iterator[bytes]:
    """All that is kept, in pieces, the oldest first."""
    return follow(folder, lambda: True)


def follow(folder: str, has_ended: Callable[[], bool]) -> Iterator[bytes]:
    """All that is kept, and then what is added, until `has_ended()`; nothing written before the end is missing.

    A file that has become `output.1` meanwhile is read to its end first.
    """
    path = os.path.join(folder, "output")
    while not exists(folder) and not has_ended():  # it is made with the first byte, and both files may be there then
        clock.sleep(_LOOK_EVERY)
    fd, before = _open(path), _open(f"{path}.1")  # in this order: a file moved in between is found twice, not missed
    try:
        if before >= 0:
            if fd < 0 or not os.path.sameopenfile(before, fd):
                yield from _rest(before)
            os.close(before)
            before = -1
        while True:
            last_look = has_ended()
            if fd < 0:
                fd = _open(path)
            if fd >= 0:
                moved = _moved(fd, path)
                yield from _rest(fd)
                if moved:
                    os.close(fd)
                    fd = -1
                    continue
            if last_look:
                return
            clock.sleep(_LOOK_EVERY)
    finally:
        for each in (before, fd):
            if each >= 0:
                os.close(each)


def _moved(fd: int, path: str) -> bool:
    """Has the open file become `output.1`? Ask before reading the rest: a moved file is no longer written to."""
    try:
        return not os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False  # a new `output` is about to be made, or all was removed


def _rest(fd: int) -> Iterator[bytes]:
    while data := os.read(fd, _CHUNK):
        yield data


def _end_of(path: str, size: int) -> bytes:
    fd = _open(path)
    if fd < 0:
        return b""
    try:
        os.lseek(fd, max(0, os.fstat(fd).st_size - size), os.SEEK_SET)
        return b"".join(_rest(fd))
    finally:
        os.close(fd)


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return -1
