"""One process, identified by pid and start time: a pid alone may belong to another process by now."""

from __future__ import annotations

import errno
import os
import sys

from . import clock
from .light import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

GONE, ZOMBIE, STOPPED, ALIVE = "gone", "zombie", "stopped", "alive"

_PARENT, _FLAGS, _THREADS, _START, _ENV_END = 1, 6, 17, 19, 48  # positions in proc_pid_stat(5), after the name
_KERNEL_THREAD = 0x00200000
_EXEC_TIMEOUT = 1.0  # seconds that an exec may take


def start_of(pid: int) -> int | None:
    """When the process started, in units of this system; None if there is no such process."""
    status = _status(pid)
    return status[2] if status else None


def state_of(pid: int, start: int) -> str:
    """The state of the process; GONE also if the pid belongs to another process by now."""
    status = _status(pid)
    if status is None or status[2] != start:
        return GONE
    return status[0]


def of_thread(number: int) -> int:
    """The pid of the process that the thread `number` belongs to; `number` itself if there is no such thread."""
    for line in (_content(f"/proc/{number}/status") or b"").splitlines():
        if line.startswith(b"Tgid:"):
            return int(line.split()[1])
    return number


def parents() -> dict[int, int]:
    """pid → parent's pid, for every process that can be seen."""
    return {pid: status[1] for pid in pids() if (status := _status(pid)) and status[0] != ZOMBIE}


def pids() -> Iterator[int]:
    if sys.platform == "linux":
        return (int(entry) for entry in os.listdir("/proc") if entry.isdigit())
    import psutil

    return iter(psutil.pids())


def send(pid: int, start: int, signum: int) -> bool:
    """Signal exactly this process; False if it is gone. Never reaches another process that has its pid by now."""
    if sys.platform != "linux":
        return state_of(pid, start) != GONE and _kill(pid, signum)
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOENT):
            raise
        return False  # `pid` is now the number of a thread
    try:
        # Checked only now: the descriptor stays with one process, even if its pid is reused.
        if state_of(pid, start) == GONE:
            return False
        signal.pidfd_send_signal(pidfd, signum)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(pidfd)


def newest_id() -> int:
    """The newest pid or thread id; 0 if that cannot be known."""
    try:
        with open("/proc/loadavg", "rb") as file:
            return int(file.read().split()[-1])
    except (OSError, ValueError):
        return 0


def own_descriptors() -> list[int]:
    """This process's open descriptors."""
    listed = map(int, os.listdir("/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"))
    return sorted(fd for fd in listed if _is_open(fd))  # the one that the list was read from is closed again


def settings() -> tuple[object, ...]:
    """What other processes may change of this one, and its children inherit. Linux only."""
    return (
        os.getpriority(os.PRIO_PROCESS, 0),
        os.sched_getscheduler(0),
        os.sched_getaffinity(0),
        *(_content(f"/proc/self/{file}") for file in ("limits", "cgroup", "oom_score_adj", "coredump_filter")),
    )


def close_all_but(*kept: int) -> None:
    """Close this process's descriptors except these."""
    for fd in own_descriptors():
        if fd not in kept:
            os.close(fd)


def _is_open(fd: int) -> bool:
    try:
        os.get_inheritable(fd)
    except OSError:
        return False
    return True


def own_children() -> set[int]:
    """This process's children, zombies too."""
    try:
        threads = os.listdir("/proc/self/task")
        lists = [_content(f"/proc/self/task/{thread}/children") for thread in threads]
    except OSError:
        lists = [None]
    if None in lists:  # not Linux, or a kernel without these lists
        return {pid for pid, parent in parents().items() if parent == os.getpid()}
    return {int(pid) for content in lists if content for pid in content.split()}


def name(pid: int) -> str:
    """The process's name in the kernel, which the process can change; "" if it is gone."""
    if sys.platform == "linux":
        return os.fsdecode(_content(f"/proc/{pid}/comm") or b"").rstrip("\n")
    import psutil

    try:
        return str(psutil.Process(pid).name())
    except psutil.Error:
        return ""


def environ(pid: int) -> bytes | None:
    """The environment that the process was started with; None if it may not be read, b"" if the process is gone."""
    try:
        if sys.platform == "linux":
            return _environ(pid)
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


def has_locked_file(pid: int, part: str) -> bool:
    """Does the process have a lock by flock on a file with `part` in its path? (Linux.)

    The lock belongs to the open file description, which children inherit. A process that opened the same file by
    itself, such as a backup, does not have the lock.
    """
    for thread in _threads(pid):
        place = f"/proc/{pid}/task/{thread}"
        try:
            for fd in os.listdir(f"{place}/fd"):
                try:
                    named = part in os.readlink(f"{place}/fd/{fd}")
                    if named and b"FLOCK" in (_content(f"{place}/fdinfo/{fd}") or b""):
                        return True
                except OSError:
                    continue  # closed meanwhile
            return False
        except OSError:
            continue  # the thread has ended; the others have the same files
    return False


def _environ(pid: int) -> bytes:
    """The environment, from any thread: the first one may have ended before the others. (Linux.)"""
    deadline = clock.now() + _EXEC_TIMEOUT
    while True:
        for thread in _threads(pid):
            content = _content(f"/proc/{pid}/task/{thread}/environ")
            if content:
                return content
        fields = _fields(pid)
        # During an exec a process has no environment for a moment.
        if not fields or int(fields[_FLAGS]) & _KERNEL_THREAD or int(fields[_ENV_END]) or fields[0] in (b"Z", b"X"):
            return b""
        if clock.now() > deadline:
            raise PermissionError
        clock.sleep(0.0005)


def _threads(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError):
        return []


def _content(path: str) -> bytes | None:
    """The file's content; None if the process is gone."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None


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
    fields = _fields(pid)
    if not fields:
        return None
    state = _state(fields[0])
    if state == ZOMBIE and int(fields[_THREADS]) > 1:
        # Only the first thread has ended: the state of the others is the state of the process.
        others = {_state(thread[0]) for tid in _threads(pid) if (thread := _fields(f"{pid}/task/{tid}"))} - {ZOMBIE}
        state = ALIVE if ALIVE in others else STOPPED if others else ZOMBIE
    return state, int(fields[_PARENT]), int(fields[_START])


def _state(letter: bytes) -> str:
    return STOPPED if letter in b"Tt" else ZOMBIE if letter in b"ZX" else ALIVE


def _fields(pid: int | str) -> list[bytes]:
    """The fields of /proc/PID/stat after the name, which is in parentheses and may hold any byte."""
    return (_content(f"/proc/{pid}/stat") or b"").rpartition(b")")[2].split()


def _status_elsewhere(pid: int) -> tuple[str, int, int] | None:
    import psutil

    try:
        process = psutil.Process(pid)
        state = {psutil.STATUS_STOPPED: STOPPED, psutil.STATUS_ZOMBIE: ZOMBIE}.get(process.status(), ALIVE)
        return state, process.ppid(), round(process.create_time() * 1000)
    except psutil.NoSuchProcess:
        return None
