"""Calls that a gateway has granted by itself, in a file of the attempt that outlives both supervisor and gateway.

The file is a ring of slots, indexed by the calls' numbers; a slot before the ring names the gateway. A slot is written
before its call is forwarded, and reused once the ledger has the call; a torn slot belongs to a call that was not
forwarded. The file is not synced: a power failure can lose the ledger's own lazily written calls as well.
"""

from __future__ import annotations

import os

from ...system import clock, identity, process
from ...system.light import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SLOTS = 2048
_SIZE = 512  # bytes of a slot
_FILE_SIZE = (1 + SLOTS) * _SIZE
_PREFIX = "calls."
_PATIENCE = 5.0  # seconds for a killed gateway to be gone


class CallSlots:
    """The gateway's side. The file is mapped: a write needs no system call, and kill -9 does not undo it."""

    def __init__(self, path: str) -> None:
        import mmap

        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(fd).st_size  # more than 0 if an earlier gateway of the attempt was killed
            os.pwrite(fd, bytes(_FILE_SIZE - size), size)  # now: on a full disk a write to the map would be fatal
            self._map = mmap.mmap(fd, _FILE_SIZE)
        finally:
            os.close(fd)

    def put(self, number: int, line: bytes) -> bool:
        """Write a call's line into its slot. False if it is too long."""
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
        self._map[at] = 0  # torn until the rest is written: kill -9 may come in between
        self._map[at + 1 : at + _SIZE] = line[1:].ljust(_SIZE - 1)
        self._map[at] = line[0]
        return True


def path_of(folder: str, attempt: int) -> str:
    return os.path.join(folder, f"{_PREFIX}{attempt}")


def attempts(folder: str) -> list[int]:
    """The attempts that have left a file."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return sorted(int(name.removeprefix(_PREFIX)) for name in names if name.startswith(_PREFIX))


def read(path: str) -> list[dict[str, Any]]:
    """The calls in a file, in the order of their numbers; none if there is no such file."""
    return sorted(_slots(path)[1:], key=lambda call: int(call["id"]))


def end_gateway(path: str) -> float:
    """End the gateway that a file names, if it still runs: after that its calls cost nothing more. Returns by how many
    seconds the wall clock was set back since the gateway began; infinite if its end cannot be proven from here."""
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
    """The boot and the namespaces, in which pids and clocks can be compared."""
    return f"{identity.boot()} {identity.pid_namespace()} {identity.time_namespace()}"


def _slots(path: str) -> list[dict[str, Any]]:
    """The slots of a file without torn ones; the first is the gateway's, {} if that is torn."""
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
