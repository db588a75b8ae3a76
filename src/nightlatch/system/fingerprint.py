"""The sha256 of a file or a whole folder: identifies an input, and shows whether a target has what was published."""

from __future__ import annotations

import os
import stat
from hashlib import sha256  # OpenSSL's: files may be large, and this is several times as fast as light.sha256

from ..errors import UsageError

_CHUNK = 1 << 20
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC  # if a pipe has taken its place, do not wait for a writer
_NOT_PUBLISHABLE = "{} is neither file, folder nor link, and cannot be published"


def of(path: str | int) -> str:
    """64 hexadecimal digits, for a path or an open descriptor. For a folder they cover names, contents, links and the
    right to execute; not times, owners or other rights, which a copy under another umask does not keep. Links are not
    followed."""
    try:
        if not os.path.isdir(path) and not stat.S_ISREG(os.stat(path).st_mode):
            # Reading a pipe would wait for ever.
            raise UsageError(_NOT_PUBLISHABLE.format("this" if isinstance(path, int) else path))
        fd = os.dup(path) if isinstance(path, int) else os.open(path, _READ)
        try:
            return _folder(fd) if os.path.isdir(fd) else _file(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise UsageError(f"{error.filename or path} cannot be read: {error.strerror}") from error


def of_bytes(content: bytes) -> str:
    return sha256(content).hexdigest()


def _file(fd: int) -> str:
    total = sha256()
    os.lseek(fd, 0, os.SEEK_SET)
    while chunk := os.read(fd, _CHUNK):
        total.update(chunk)
    return total.hexdigest()


def _folder(fd: int) -> str:
    """Hashes each entry's kind, name and content, separated by NUL, so that different folders give different bytes."""
    total = sha256()
    for entry in sorted(os.scandir(fd), key=lambda entry: entry.name):
        if entry.is_symlink():
            kind, content = "link", os.readlink(entry.name, dir_fd=fd)
        else:
            kind, content = _entry(entry.name, fd)
        total.update(b"%s\0%s\0%s\0" % (kind.encode(), os.fsencode(entry.name), os.fsencode(content)))
    return total.hexdigest()


def _entry(name: str, folder: int) -> tuple[str, str]:
    fd = os.open(name, _READ | os.O_NOFOLLOW, dir_fd=folder)
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISDIR(mode):
            return "folder", _folder(fd)
        if not stat.S_ISREG(mode):
            raise UsageError(_NOT_PUBLISHABLE.format(name))
        return ("program" if mode & stat.S_IXUSR else "file"), _file(fd)
    finally:
        os.close(fd)
