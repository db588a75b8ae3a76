"""What this machine remembers of a file on another disk: while that disk is away, its bare mount point looks like a
beginning.

Remembered in the state folder, and only of what is on another disk than that: what is beside a file goes with its disk.
"""

from __future__ import annotations

import os

from . import durable, light, storage


def folder() -> str:
    return os.path.join(storage.state_folder(), "disks")


def recall(path: str) -> str:
    """The id that the file had; "" if nothing is remembered of it."""
    if not os.path.isdir(folder()):
        return ""
    try:
        with open(_record(path), errors="replace") as file:
            return file.read().partition("\n")[0]
    except FileNotFoundError:
        return ""


def remember(path: str, its_id: str) -> None:
    """A file that cannot be remembered is used all the same: it is only not missed."""
    try:
        if os.stat(path).st_dev == _device(storage.state_folder()) or recall(path) == its_id:
            return
        record = _record(path)
        durable.private_folder(os.path.dirname(record))
        durable.replace(record, f"{its_id}\n{path}\n".encode(errors="surrogateescape"))
    except OSError:
        pass


def forget(path: str) -> None:
    try:
        os.unlink(_record(path))
    except FileNotFoundError:
        pass


def _device(folder: str) -> int:
    """Of the folder, or of where it would be made."""
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return os.stat(folder).st_dev


def _record(path: str) -> str:
    return os.path.join(folder(), light.sha256(os.fsencode(path)).hexdigest()[:32])
