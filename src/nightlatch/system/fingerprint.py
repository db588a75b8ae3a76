"""The sha256 of a file or of a whole folder: what an input was, and whether a target has what was to be published."""

from __future__ import annotations

import os
import stat

from ..errors import UsageError
from .light import sha256

_CHUNK = 1 << 20
_NEITHER = "{} is neither file, folder nor link, and cannot be published"


def of(path: str) -> str:
    """64 hexadecimal digits. A folder's cover names, contents, links and who may execute; not times, owners or
    other rights, which a copy under another umask does not keep."""
    try:
        if not os.path.isdir(path) and not stat.S_ISREG(os.stat(path).st_mode):
            raise UsageError(_NEITHER.format(path))  # reading a pipe would wait for ever
        return _folder(path) if os.path.isdir(path) else _file(path)
    except OSError as error:
        raise UsageError(f"{error.filename or path} cannot be read: {error.strerror}") from error


def of_bytes(content: bytes) -> str:
    return sha256(content).hexdigest()


def _file(path: str) -> str:
    total = sha256()
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while chunk := os.read(fd, _CHUNK):
            total.update(chunk)
    finally:
        os.close(fd)
    return total.hexdigest()


def _folder(path: str) -> str:
    """Each entry is written with its kind and with NUL between its parts, so no two folders give the same bytes."""
    total = sha256()
    for entry in sorted(os.scandir(path), key=lambda entry: entry.name):
        if entry.is_symlink():
            kind, told = "link", os.readlink(entry.path)
        elif entry.is_dir():
            kind, told = "folder", _folder(entry.path)
        elif not entry.is_file():
            raise UsageError(_NEITHER.format(entry.path))
        else:
            executable = entry.stat().st_mode & stat.S_IXUSR
            kind, told = ("program" if executable else "file"), _file(entry.path)
        total.update(b"%s\0%s\0%s\0" % (kind.encode(), os.fsencode(entry.name), os.fsencode(told)))
    return total.hexdigest()
