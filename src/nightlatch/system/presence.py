"""What this machine remembers of a file on another disk: while that disk is not mounted, the empty mount point looks as
if the file had never existed.

The state folder keeps the records, since a record beside the file would vanish with it. Files on the state folder's own
disk need none.
"""

from __future__ import annotations

import os

from . import durable, light, storage


def folder() -> str:
    return os.path.join(storage.state_folder(), "disks")


def recall(path: str) -> str:
    """The id that the file had; "" if none is remembered."""
    if not os.path.isdir(folder()):
        return ""
    try:
        with open(_record(path), errors="replace") as file:
            return file.read().partition("\n")[0]
    except FileNotFoundError:
        return ""


def remember(path: str, its_id: str) -> None:
    """Remember the file's id. If that fails, the file is used all the same; only its absence will not be noticed."""
    try:
        if os.stat(path).st_dev == _device(storage.state_folder()) or recall(path) == its_id:
            return
        record = _record(path)
        durable.private_folder(os.path.dirname(record))
        durable.replace(record, f"{its_id}\n{path}\n".encode(errors="surrogateescape"))
    except OSError:
        pass


def forget(path: str) -> None:
    durable.remove(_record(path))


def _device(folder: str) -> int:
    """The device of the folder or, if it does not exist, of the nearest one above it."""
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return os.stat(folder).st_dev


def _record(path: str) -> str:
    return os.path.join(folder(), light.sha256(os.fsencode(path)).hexdigest()[:32])
