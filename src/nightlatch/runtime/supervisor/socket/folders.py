"""The private folders of runs' sockets, and the removal of those that killed supervisors left.

A supervisor locks its folder before it binds the socket there. The kernel frees the lock when that process is gone, so
a folder that can be locked, and whose socket refuses connections, belongs to nobody.
"""

from __future__ import annotations

import fcntl
import os
import stat

from ....errors import StoreUnreachable
from ....system.light import sockets

_LONGEST_PATH = 100  # bytes that fit into a socket's address on every system
_PREFIX, _DIGITS = "nightlatch-", 16
_SHARED = "/tmp"  # noqa: S108


def make() -> tuple[str, int]:
    """A new folder, and the descriptor that locks it. No other user can have made it, since its name cannot be guessed.
    The name is short: a socket's address has room for about a hundred bytes."""
    base = _base()
    while True:
        folder = f"{base}/{_PREFIX}{os.urandom(_DIGITS // 2).hex()}"
        try:
            os.mkdir(folder, 0o700)
            fd = _lock_new(folder)
        except OSError as error:
            raise StoreUnreachable(
                f"no folder can be made in {base} for the run's socket: {error.strerror}. Make room there, or set "
                f"XDG_RUNTIME_DIR to a folder of yours"
            ) from error
        if fd is not None:
            return folder, fd


def sweep() -> None:
    """Remove the folders that killed supervisors left; a folder with other files than sockets in it stays."""
    for base in {_SHARED, _base()}:
        try:
            names = os.listdir(base)
        except OSError:
            continue
        for name in names:
            digits = name.removeprefix(_PREFIX)
            if digits == name or len(digits) != _DIGITS or not set(digits) <= set("0123456789abcdef"):
                continue
            try:
                if os.lstat(f"{base}/{name}").st_uid == os.getuid():
                    _remove(f"{base}/{name}")
            except OSError:
                pass  # its supervisor lives, or another process removes it too


def _base() -> str:
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")  # 55: the names of the folder and the socket
    return runtime if 0 < len(runtime) < _LONGEST_PATH - 55 and os.access(runtime, os.W_OK) else _SHARED


def _lock_new(folder: str) -> int | None:
    """The descriptor that locks a new folder; None if another process swept the folder before it was locked."""
    try:
        fd = _lock(folder, fcntl.LOCK_EX)
    except FileNotFoundError:
        return None
    if os.fstat(fd).st_nlink:
        return fd
    os.close(fd)
    return None


def _lock(folder: str, how: int) -> int:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, how)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _remove(folder: str) -> None:
    fd = _lock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        for name in os.listdir(fd):
            if _is_dead(f"{folder}/{name}"):
                os.unlink(name, dir_fd=fd)
        os.rmdir(folder)
    finally:
        os.close(fd)


def _is_dead(path: str) -> bool:
    """Is it a socket at which no process listens? Supervisors of earlier versions listen, but lock no folder."""
    if not stat.S_ISSOCK(os.lstat(path).st_mode):
        return False
    client = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
    try:
        client.setblocking(False)
        client.connect(path)
    except ConnectionRefusedError:
        return True
    except OSError:
        pass  # a supervisor listens, and has many clients
    finally:
        client.close()
    return False
