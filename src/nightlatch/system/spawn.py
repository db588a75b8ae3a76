"""Starting a process inside a cgroup, for the warden.

Moving a running process into a cgroup takes up to 20 ms, since the kernel waits for every core. clone3 with
CLONE_INTO_CGROUP (Linux 5.7) makes the process there, at the price of a fork. Python has no call for it. A frugal
warden moves itself in instead, and the command begins there without a fork of the warden's memory (vfork).
"""

from __future__ import annotations

import ctypes
import os

from .light import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SYS_CLONE3 = 435  # on every architecture
_CLONE_CLEAR_SIGHAND = 0x1_0000_0000  # our signal handlers must not run in the child before its exec
_CLONE_INTO_CGROUP = 0x2_0000_0000
_ARGUMENTS = ctypes.c_uint64 * 11  # struct clone_args up to `cgroup`
_FLAGS, _EXIT_SIGNAL, _CGROUP = 0, 4, 10

_libc = ctypes.PyDLL(None, use_errno=True)  # not CDLL, which releases the GIL: the child must have it


class Unsupported(Exception):
    """This kernel, or a filter in front of it, has no CLONE_INTO_CGROUP, or the cgroup is gone. Nothing was started."""


def spawn(
    cgroup: str,
    path: str,
    argv: list[str],
    env: Mapping[str, str],
    *,
    streams: Iterable[tuple[int, int]],
    group: int,
    default_signals: Iterable[int],
) -> int:
    """As os.posix_spawn, with the process in `cgroup` from its first instruction. For a process with one thread."""
    try:
        folder = os.open(cgroup, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError as error:  # it must not be mistaken for a missing command
        raise Unsupported(str(error)) from error
    errno_reader, errno_writer = os.pipe()  # carries the errno of a failed exec; a successful one closes it
    try:
        pid = _clone_into(folder)
        if pid == 0:  # the child, which never leaves this block
            try:
                os.setpgid(0, group)
                for signum in default_signals:
                    signal.signal(signum, signal.SIG_DFL)
                for source, target in streams:
                    os.dup2(source, target)
                os.execve(path, argv, env)  # noqa: S606 - the command is the user's
            except OSError as error:
                os.write(errno_writer, str(error.errno).encode())
            finally:
                os._exit(127)
    finally:
        os.close(folder)
        os.close(errno_writer)
    try:
        number = os.read(errno_reader, 8)
    finally:
        os.close(errno_reader)
    if number:
        os.waitpid(pid, 0)
        raise OSError(int(number), os.strerror(int(number)), path)
    return pid


def _clone_into(folder: int) -> int:
    arguments = _ARGUMENTS()
    arguments[_FLAGS] = _CLONE_INTO_CGROUP | _CLONE_CLEAR_SIGHAND
    arguments[_EXIT_SIGNAL] = signal.SIGCHLD
    arguments[_CGROUP] = folder
    pid: int = _libc.syscall(_SYS_CLONE3, ctypes.byref(arguments), ctypes.sizeof(arguments))
    if pid < 0:
        raise Unsupported(os.strerror(ctypes.get_errno()))
    return pid
