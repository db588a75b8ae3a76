"""Writing files so that they survive a power failure."""

from __future__ import annotations

import os
import sys
import time


def fsync(fd: int) -> None:
    """Flush a file to the medium. On macOS a plain fsync stops at the drive's cache, so use F_FULLFSYNC."""
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fsync(fd)


def flush(fd: int) -> None:
    """As fsync, but flush only what is needed to read the file's bytes again, not the file's times."""
    if sys.platform == "linux":
        os.fdatasync(fd)
    else:
        fsync(fd)


def fsync_folder(path: str) -> None:
    """Make the names in a folder durable: without this a rename can be lost in a power failure."""
    fd = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        fsync(fd)
    finally:
        os.close(fd)


def replace(path: str, content: bytes, *, mode: int = 0o600) -> None:
    """Write `content` to `path` atomically: a reader, even after a crash, finds the whole old or the whole new file."""
    temporary = f"{path}.{os.urandom(8).hex()}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        try:
            write_all(fd, content)
            fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    fsync_folder(os.path.dirname(path))


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def remove(path: str) -> bool:
    """Remove the file; False if it was not there."""
    try:
        os.unlink(path)
        return True
    except FileNotFoundError:
        return False


def is_older(entry: os.DirEntry[str], seconds: float) -> bool:
    """Was the file changed more than `seconds` ago? False if another process has removed it meanwhile."""
    try:
        return time.time() - entry.stat().st_mtime > seconds
    except FileNotFoundError:
        return False


def inode(path: str) -> str:
    """Device and inode of the file, since in a sandbox the same path may be another file. "" if it does not exist."""
    try:
        status = os.stat(path)
    except OSError:
        return ""
    return f"{status.st_dev}:{status.st_ino}"


def private_folder(path: str) -> str:
    """Make the folder and those missing above it, for this user only; returns `path`."""
    if not os.path.isdir(path):
        private_folder(os.path.dirname(path))
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
    return path
