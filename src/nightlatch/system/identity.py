"""Which machine, which boot of it, which namespaces, and which process."""

from __future__ import annotations

import os
import sys

from ..core.model import Holder
from ..core.printable import printable

_known: dict[str, str] = {}


def _once(name: str, file: str, *command: str) -> str:
    """The content of `file` on Linux, the output of `command` elsewhere; read once and remembered under `name`."""
    if name not in _known:
        _known[name] = _read(file) if sys.platform == "linux" else _ask(*command)
    return _known[name]


def boot() -> str:
    """The boot id, which changes with every start of the kernel. Containers on one kernel share it."""
    return _once("boot", "/proc/sys/kernel/random/boot_id", "sysctl", "-n", "kern.bootsessionuuid")


def machine() -> str:
    """The machine id, which stays with the installation. A cloned virtual machine has the id of its original."""
    return _once("machine", "/etc/machine-id", "sysctl", "-n", "kern.hostuuid") or boot()


def pid_namespace() -> str:
    """The pid namespace: a pid means nothing in another one."""
    return _namespace("pid")


def time_namespace() -> str:
    """The time namespace: clocks of two of them cannot be compared, even under the same boot id."""
    return _namespace("time")


def host() -> str:
    return printable(os.uname().nodename)


def user() -> str:
    name = os.environ.get("LOGNAME") or os.environ.get("USER")
    if name:
        return printable(name)  # the variable may hold anything, even bytes that are not UTF-8
    uid = str(os.getuid())
    if f"user {uid}" not in _known:
        import pwd

        try:
            _known[f"user {uid}"] = pwd.getpwuid(int(uid)).pw_name
        except KeyError:
            return uid
    return _known[f"user {uid}"]


def person() -> str:
    """The user of this process, as the journal names a person."""
    return f"{user()}@{host()}"


def read_once() -> None:
    """Read what never changes, so that processes forked from this one need not."""
    boot(), machine(), user()


def new_id() -> str:
    """A random id of 128 bits, for a grant, an incarnation or a store."""
    return os.urandom(16).hex()


def holder(*, pid: int, lifetime: str = "") -> Holder:
    """A new incarnation as a holder; `pid` 0: it is not bound to a process."""
    from .process import start_of

    return Holder(
        incarnation=new_id(),
        user=user(),
        host=host(),
        pid=pid,
        start=(start_of(pid) or 0) if pid else 0,
        machine=machine(),
        boot=boot(),
        pidns=pid_namespace(),
        timens=time_namespace(),
        lifetime=lifetime,
    )


def same_boot(holder: Holder) -> bool:
    """Was the holder started under this boot of this kernel?"""
    return holder.boot == boot()


def same_machine(holder: Holder) -> bool:
    """Was the holder started on this machine, in this boot or an earlier one?"""
    return same_boot(holder) or holder.machine == machine()


def _namespace(kind: str) -> str:
    name = f"{kind} {os.getpid()}"  # a forked child may be in another namespace
    if name not in _known:
        try:
            _known[name] = os.readlink(f"/proc/self/ns/{kind}")
        except OSError:
            _known[name] = ""  # no namespaces here: all processes share one
    return _known[name]


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read().decode().strip()
    except OSError:
        return ""


def _ask(*command: str) -> str:
    import subprocess

    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
