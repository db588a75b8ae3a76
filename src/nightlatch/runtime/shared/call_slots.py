"""Calls that a gateway has granted by itself, in a file of the attempt that outlives both supervisor and gateway.

A ring of slots, one for each call, by its number. A slot is written before its call is forwarded, in one write that
kill -9 cannot tear, and used again when the ledger has the earlier call. It need not be on the disk: a power failure
may also take calls that the ledger holds lazily.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SLOTS = 2048
_SIZE = 512  # bytes; a page of the cache holds whole slots
_NAME = "calls."


class CallSlots:
    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def put(self, number: int, line: bytes) -> bool:
        """Keep the line of a call; False: it is too long."""
        if len(line) > _SIZE:
            return False
        os.pwrite(self._fd, line.ljust(_SIZE), number % SLOTS * _SIZE)
        return True


def path_of(folder: str, attempt: int) -> str:
    return os.path.join(folder, f"{_NAME}{attempt}")


def attempts(folder: str) -> list[int]:
    """The attempts that have left a file."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return sorted(int(name.removeprefix(_NAME)) for name in names if name.startswith(_NAME))


def read(path: str) -> list[dict[str, Any]]:
    """The calls in a file, by their numbers; none if there is none."""
    import json

    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return []
    slots = [data[at : at + _SIZE].strip(b" \n\0") for at in range(0, len(data), _SIZE)]
    found: list[dict[str, Any]] = [json.loads(slot) for slot in slots if slot]
    return sorted(found, key=lambda call: int(call["id"]))


def remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
