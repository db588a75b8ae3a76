"""Calls that a gateway has granted by itself, in a file of the attempt that outlives both supervisor and gateway.

A ring of slots, one for each call, by its number. A slot is written before its call is forwarded, and used again when
the ledger has the earlier call; one that is torn belongs to a call that was not forwarded. It need not be on the disk:
a power failure may also take calls that the ledger holds lazily. Before the ring is a slot that names the gateway.
"""

from __future__ import annotations

import os

from ...system import clock, identity, process
from ...system.light import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SLOTS = 2048
_SIZE = 512  # bytes
_WHOLE = (1 + SLOTS) * _SIZE
_NAME = "calls."
_PATIENCE = 5.0  # seconds for a killed gateway to be gone


class CallSlots:
    """The gateway's side. The file is mapped: a write without a system call, which kill -9 cannot undo either."""

    def __init__(self, path: str) -> None:
        import mmap

        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(fd).st_size  # more than 0 if an earlier gateway of the attempt was killed
            os.pwrite(fd, bytes(_WHOLE - size), size)  # now: a full disk must not be found by a write to memory
            self._map = mmap.mmap(fd, _WHOLE)
        finally:
            os.close(fd)

    def put(self, number: int, line: bytes) -> bool:
        """Keep the line of a call; False: it is too long."""
        return self._write(1 + number % SLOTS, line)

    def sign(self) -> None:
        """Name this process as the gateway."""
        import json

        pid = os.getpid()
        facts = {"pid": pid, "start": process.start_of(pid), "where": _where(), "wall": clock.wall() - clock.now()}
        self._write(0, json.dumps(facts).encode())

    def _write(self, slot: int, line: bytes) -> bool:
        if len(line) > _SIZE:
            return False
        at = slot * _SIZE
        self._map[at] = 0  # until its rest is there it counts for nothing: kill -9 may come in between
        self._map[at + 1 : at + _SIZE] = line[1:].ljust(_SIZE - 1)
        self._map[at] = line[0]
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
    return sorted(_slots(path)[1:], key=lambda call: int(call["id"]))


def end_gateway(path: str) -> float:
    """End the gateway of a file, if it still runs: from then on its calls cost nothing more. Returns by how many
    seconds the wall clock was set back since it began; infinite if its end cannot be proven, or was in another boot."""
    facts = next(iter(_slots(path)), {})
    if facts.get("where") != _where():
        return float("inf")
    until = clock.now() + _PATIENCE
    while process.state_of(facts["pid"], facts["start"]) not in (process.GONE, process.ZOMBIE):
        if clock.now() > until:
            return float("inf")
        process.send(facts["pid"], facts["start"], signal.SIGKILL)
        clock.sleep(0.005)
    return max(float(facts["wall"]) - (clock.wall() - clock.now()), 0.0)


def _where() -> str:
    """Where a pid and the clocks mean the same."""
    return f"{identity.boot()} {identity.pid_namespace()} {identity.time_namespace()}"


def _slots(path: str) -> list[dict[str, Any]]:
    """What is in a file, first its gateway; without torn slots."""
    import json

    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return []
    found: list[dict[str, Any]] = []
    for at in range(0, len(data), _SIZE):
        text = data[at : at + _SIZE].rstrip(b" \0")
        try:
            slot = json.loads(text) if text else {}
        except ValueError:
            slot = {}
        if slot or not at:
            found.append(slot)
    return found


def remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
