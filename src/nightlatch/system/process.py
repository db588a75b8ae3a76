"""One process, named by pid and start time: a pid alone may belong to somebody else by now."""

from __future__ import annotations

import os
import sys

from .light import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

GONE, ZOMBIE, STOPPED, ALIVE = "gone", "zombie", "stopped", "alive"


def start_of(pid: int) -> int | None:
    """When the process started, in units of this system; None if there is no such process."""
    status = _status(pid)
    return status[2] if status else None


def state_of(pid: int, start: int) -> str:
    """GONE also when the pid belongs to another process by now."""
    status = _status(pid)
    if status is None or status[2] != start:
        return GONE
    return status[0]


def parents() -> dict[int, int]:
    """pid → parent's pid, for every process that can be seen."""
    return {pid: status[1] for pid in pids() if (status := _status(pid)) and status[0] != ZOMBIE}


def pids() -> Iterator[int]:
    if sys.platform == "linux":
        return (int(entry) for entry in os.listdir("/proc") if entry.isdigit())
    import psutil

    return iter(psutil.pids())


def send(pid: int, start: int, signum: int) -> bool:
    """Signal that very process. False if it is gone. Never reaches a process that has taken its pid."""
    if sys.platform != "linux":
        return state_of(pid, start) != GONE and _kill(pid, signum)
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        # The descriptor is bound to whatever has the pid now; only then is the start time compared.
        if state_of(pid, start) == GONE:
            return False
        signal.pidfd_send_signal(pidfd, signum)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(pidfd)


def environ(pid: int) -> bytes | None:
    """The environment the process was started with; None if that may not be read."""
    try:
        if sys.platform == "linux":
            with open(f"/proc/{pid}/environ", "rb") as file:
                return file.read()
        import psutil

        return "\0".join(f"{k}={v}" for k, v in psutil.Process(pid).environ().items()).encode()
    except PermissionError:
        return None
    except (ProcessLookupError, FileNotFoundError):
        return b""
    except Exception as error:
        if type(error).__module__.startswith("psutil"):
            return None if type(error).__name__ == "AccessDenied" else b""
        raise


def owner(pid: int) -> int | None:
    """The user id the process runs under; None if it is gone."""
    try:
        if sys.platform == "linux":
            return os.stat(f"/proc/{pid}").st_uid
        import psutil

        return int(psutil.Process(pid).uids().real)
    except (OSError, LookupError):
        return None
    except Exception as error:
        if type(error).__module__.startswith("psutil"):
            return None
        raise


def _kill(pid: int, signum: int) -> bool:
    try:
        os.kill(pid, signum)
    except ProcessLookupError:
        return False
    return True


def _status(pid: int) -> tuple[str, int, int] | None:
    """(state, parent's pid, start time)"""
    if sys.platform != "linux":
        return _status_elsewhere(pid)
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The command's name stands in parentheses and may hold any byte, so read behind the last one.
            fields = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    letter = fields[0]
    state = STOPPED if letter in b"Tt" else ZOMBIE if letter in b"ZX" else ALIVE
    return state, int(fields[1]), int(fields[19])


def _status_elsewhere(pid: int) -> tuple[str, int, int] | None:
    import psutil

    try:
        process = psutil.Process(pid)
        state = {psutil.STATUS_STOPPED: STOPPED, psutil.STATUS_ZOMBIE: ZOMBIE}.get(process.status(), ALIVE)
        return state, process.ppid(), round(process.create_time() * 1000)
    except psutil.NoSuchProcess:
        return None
