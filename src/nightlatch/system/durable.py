"""Bytes that are still there after the power fails."""

from __future__ import annotations

import os
import sys


def fsync(fd: int) -> None:
    """Flush to the medium. On macOS plain fsync stops at the drive's cache, so ask for the full one."""
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fsync(fd)


def flush(fd: int) -> None:
    """As fsync, but a file's times may stay behind: all that is needed to read its bytes again is flushed."""
    if sys.platform == "linux":
        os.fdatasync(fd)
    else:
        fsync(fd)


def fsync_folder(path: str) -> None:
    """Make the names in a folder durable: a rename is not, before this."""
    fd = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        fsync(fd)
    finally:
        os.close(fd)


def replace(path: str, content: bytes, *, mode: int = 0o600) -> None:
    """Put `content` at `path`: a reader, and a crash at any moment, finds the old or the new whole."""
    temporary = f"{path}.{os.urandom(8).hex()}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(fd, view) :]
            fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    fsync_folder(os.path.dirname(path))


def inode(path: str) -> str:
    """Which file it is: the same path may lead to another one in a sandbox. "" if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return ""
    return f"{status.st_dev}:{status.st_ino}"


def private_folder(path: str) -> str:
    """Make the folder, and those above it that are missing, for this user alone."""
    if not os.path.isdir(path):
        private_folder(os.path.dirname(path))
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
    return path
