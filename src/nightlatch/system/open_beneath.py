"""Opening and writing only below a folder: no link on the path leads out, not even one that is put there meanwhile."""

from __future__ import annotations

import errno
import os

_MOST_LINKS = 40  # as in the kernel
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # opening a pipe must not wait for its writer


def open_beneath(root: str, path: str) -> int:
    """Open the file or folder `path` below the folder `root` for reading.

    A link is followed if it stays below `root`; one that leads out, or is absolute, raises `OSError` EXDEV. Each part
    is opened in the folder that was opened before it, so renames meanwhile do not matter.
    """
    opened = [os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
    parts, links = path.split("/")[::-1], 0
    try:
        while parts:
            part = parts.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if len(opened) == 1:
                    raise OSError(errno.EXDEV, "it leads out", path)
                os.close(opened.pop())
                continue
            target = _link(part, opened[-1])
            if target is None:
                opened.append(os.open(part, _READ, dir_fd=opened[-1]))  # fails if it has become a link
                continue
            links += 1
            if os.path.isabs(target):
                raise OSError(errno.EXDEV, "it leads out", path)
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            parts += target.split("/")[::-1]
        return opened.pop()
    finally:
        for fd in opened:
            os.close(fd)


def write_beneath(root: str, parts: list[str], content: bytes) -> None:
    """Write the file at the path `parts` below the folder `root`, and make the folders on the path. No link is
    followed: one on the path raises `OSError`, one in the file's place is replaced."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            try:
                os.mkdir(part, dir_fd=folder)
            except FileExistsError:
                pass
            below = os.open(part, _READ | os.O_DIRECTORY, dir_fd=folder)
            os.close(folder)
            folder = below
        try:
            os.unlink(parts[-1], dir_fd=folder)
        except FileNotFoundError:
            pass
        new = os.open(parts[-1], os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder)
        with open(new, "wb") as file:
            file.write(content)
    finally:
        os.close(folder)


def _link(name: str, folder: int) -> str | None:
    """Where the link points to; None if it is not a link."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return None
