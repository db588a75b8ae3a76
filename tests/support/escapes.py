"""Commands that slip away from a look at the processes of this machine, and machines with fewer proofs than this one."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from nightlatch.system import cgroup
from tests.support.programs import NIGHTLATCH, alive, children, environment, until

# Holds a lock of the test's own, in whatever becomes of it: so the test knows whether it is still there.
PROGRAM = """
import ctypes, fcntl, os, signal, sys, threading, time
kind, lock, ready = sys.argv[1:]
fd = os.open(lock, os.O_RDWR | os.O_CREAT)
fcntl.flock(fd, fcntl.LOCK_EX)
os.set_inheritable(fd, True)
libc = ctypes.CDLL(None)
if kind.startswith("closing"):
    os.closerange(3, fd)
    os.closerange(fd + 1, 1024)
if kind.endswith("hidden"):
    libc.prctl(4, 0, 0, 0, 0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(ready + ".part", "w") as file:
    file.write(str(os.getpid()))
os.rename(ready + ".part", ready)
if kind.endswith("cleared"):
    os.execve("/bin/sleep", ["sleep", "60"], {})
elif kind.endswith("headless"):
    threading.Thread(target=time.sleep, args=(60,)).start()
    libc.pthread_exit(None)
elif kind.endswith("hopping"):
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if os.fork():
            os._exit(0)
        time.sleep(0.0003)
time.sleep(60)
"""

# What the next holder finds when it has the lease: is the first one's lock free?
LOOK = """
import fcntl, os, sys
try:
    fcntl.flock(os.open(sys.argv[1], os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("alone")
except BlockingIOError:
    print("beside it")
"""

_NOBODY = 65534
_NO_CGROUP = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"', "sh"]
# It may search folders, as this Python may be in root's home; what hides its memory it cannot look into.
_MAY_SEARCH = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
_ANOTHER_USER = ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", *_MAY_SEARCH]
_INTO_CGROUP = ["sh", "-c", 'echo 0 > "$0/cgroup.procs" && exec "$@"']


class Machine:
    """This machine, with the proofs that it has, with fewer, or as a user without rights finds it.

    `plain`: without cgroups. `cgroup`: with them. `user`: no cgroup, and no right to look into processes that hide
    their memory. `delegated`: as that user, in a cgroup that was given to it.
    """

    def __init__(self, kind: str) -> None:
        self.kind, self.folder, self._delegated = kind, Path(tempfile.mkdtemp(prefix="nightlatch-")), ""
        root = os.getuid() == 0
        if kind != "cgroup" and not root and cgroup.possible():
            pytest.skip("only root can take cgroups away from this machine")
        if kind in ("cgroup", "delegated") and not (cgroup.possible() and (root or kind == "cgroup")):
            pytest.skip("no cgroup can be made here: that takes cgroup v2, delegated or as root")
        self.prefix = _NO_CGROUP if kind == "plain" and root and cgroup.possible() else []
        if kind in ("user", "delegated") and root:
            os.chown(self.folder, _NOBODY, _NOBODY)
            self.prefix = _ANOTHER_USER
        if kind == "delegated":
            self._delegated = cgroup.make(f"test-{self.folder.name}")
            for path in (self._delegated, f"{self._delegated}/cgroup.procs"):
                os.chown(path, _NOBODY, _NOBODY)
            self.prefix = [*_INTO_CGROUP, self._delegated, *_ANOTHER_USER]

    @property
    def store(self) -> str:
        return f"sqlite:///{self.folder}/state/nightlatch.db"

    def remove(self) -> None:
        cgroup.end(self._delegated, 10)
        cgroup.remove(self._delegated)
        shutil.rmtree(self.folder)

    def nightlatch(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.prefix, *NIGHTLATCH, *words],
            env=environment(self.store),
            text=True,
            capture_output=True,
            timeout=120,
        )

    def next_holder(self, escaped: Escaped, *options: str) -> subprocess.CompletedProcess[str]:
        return self.nightlatch("lock", "job", *options, "--", sys.executable, "-c", LOOK, str(escaped.lock))


class Escaped:
    """A command under `lock`, whose supervisor and warden were killed at once."""

    def __init__(self, machine: Machine, kind: str, *options: str) -> None:
        name = os.urandom(4).hex()
        self.lock, ready = machine.folder / f"{name}.lock", machine.folder / f"{name}.ready"
        words = ("lock", "job", *options, "--", sys.executable, "-c", PROGRAM, kind, str(self.lock), str(ready))
        supervisor = subprocess.Popen(
            [*machine.prefix, *NIGHTLATCH, *words], env=environment(machine.store),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        until(lambda: ready.exists() or supervisor.poll() is not None)
        self.command = int(ready.read_text())
        (warden,) = children(supervisor.pid)
        os.kill(supervisor.pid, signal.SIGSTOP)  # so that neither can act on the other's death
        os.kill(warden, signal.SIGKILL)
        supervisor.kill()
        supervisor.wait()
        until(lambda: not alive(warden))
        assert self.at_work()

    def at_work(self) -> bool:
        fd = os.open(self.lock, os.O_RDWR)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
