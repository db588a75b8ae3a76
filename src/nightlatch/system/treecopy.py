"""Copying a folder durably: all of it is on the medium when the copy returns."""

from __future__ import annotations

import os
import stat

from ..errors import UsageError
from . import durable

_CHUNK = 1 << 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NOT_PUBLISHABLE = "{} is neither file, folder nor link, and cannot be published"


def copy(source: str | int, target: str) -> None:
    """Copy the folder `source`, a path or an open descriptor, to `target`, which must not exist, and flush every file
    and folder.

    Modes are kept as far as the umask allows, times and symbolic links as they are. No link in `source` is followed,
    not even one that is put there meanwhile. Raises UsageError for anything but a file, folder or link.
    """
    files: list[str] = []
    folders: list[tuple[str, os.stat_result]] = []
    fd = os.dup(source) if isinstance(source, int) else os.open(source, _FOLDER)
    try:
        _copy_folder(fd, target, files, folders)
    finally:
        os.close(fd)
    # In a second pass: the first flush also writes out most of the other files, which makes their flush cheap.
    for path in files:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            durable.fsync(fd)
        finally:
            os.close(fd)
    for path, status in reversed(folders):  # inner first: an outer one may lose the right to enter it
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fchmod(fd, stat.S_IMODE(os.fstat(fd).st_mode) & ~(0o700 & ~status.st_mode))
            os.utime(fd, ns=(status.st_atime_ns, status.st_mtime_ns))
            durable.fsync(fd)
        finally:
            os.close(fd)
    durable.fsync_folder(os.path.dirname(target))


def remove(path: str) -> None:
    """Remove a folder with everything in it, if it exists, including folders that are not writable."""
    try:
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            os.chmod(path, 0o700)
        for entry in list(os.scandir(path)):
            if entry.is_dir(follow_symlinks=False):
                remove(entry.path)
            else:
                durable.remove(entry.path)
        os.rmdir(path)
    except FileNotFoundError:
        pass  # another process is removing it too


def _copy_folder(source: int, target: str, files: list[str], folders: list[tuple[str, os.stat_result]]) -> None:
    status = os.fstat(source)
    os.mkdir(target, stat.S_IMODE(status.st_mode) | 0o700)  # the kernel applies the umask
    folders.append((target, status))
    for entry in sorted(os.scandir(source), key=lambda entry: entry.name):
        to = os.path.join(target, entry.name)
        if entry.is_symlink():
            os.symlink(os.readlink(entry.name, dir_fd=source), to)
        elif entry.is_dir(follow_symlinks=False):
            inner = os.open(entry.name, _FOLDER | os.O_NOFOLLOW, dir_fd=source)
            try:
                _copy_folder(inner, to, files, folders)
            finally:
                os.close(inner)
        elif entry.is_file(follow_symlinks=False):
            if not _copy_file(entry.name, source, to):
                files.append(to)
        else:
            raise UsageError(_NOT_PUBLISHABLE.format(entry.name))


def _copy_file(name: str, folder: int, target: str) -> bool:
    """Copy a file. True: it is flushed already, since without read permission it could not be opened for that later."""
    reader = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        status = os.fstat(reader)
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(_NOT_PUBLISHABLE.format(name))
        writer = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, status.st_mode & 0o777)
        try:
            while chunk := os.read(reader, _CHUNK):
                durable.write_all(writer, chunk)
            os.utime(writer, ns=(status.st_atime_ns, status.st_mtime_ns))
            if not status.st_mode & 0o400:
                durable.fsync(writer)
            return not status.st_mode & 0o400
        finally:
            os.close(writer)
    finally:
        os.close(reader)
