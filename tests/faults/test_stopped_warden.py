"""A warden that is stopped keeps nobody from ending the command: its supervisor knows the time too."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs import alive, children, environment, nightlatch, start, state, until

COMMAND = ("--", "sh", "-c", 'echo $$ $NIGHTLATCH_RUN > "$0.part"; mv "$0.part" "$0"; exec sleep 60')

JOB = """
import os, time
import nightlatch

@nightlatch.job(key="k", timeout="1s", grace="1s")
def job():
    with open("part", "w") as part:
        part.write(str(os.getpid()))
    os.rename("part", "said")
    time.sleep(60)
"""

_ATTACH = 16  # ptrace's PTRACE_ATTACH


class Frozen:
    """A command whose warden was stopped."""

    def __init__(self, store: str, folder: Path, *words: str) -> None:
        self.process = start(store, *words, *COMMAND, str(folder / "said"), stdout=subprocess.DEVNULL)
        self._take(folder / "said")

    def _take(self, said: Path) -> None:
        until(said.exists)
        pid, *self.run = said.read_text().split()
        self.command = int(pid)
        self.warden = self._find_warden()
        self.stop()

    def _find_warden(self) -> int:
        (warden,) = children(self.process.pid)
        return warden

    def stop(self) -> None:
        os.kill(self.warden, signal.SIGSTOP)
        until(lambda: state(self.warden) in ("T", "Z", ""))

    def ended(self) -> tuple[int, str]:
        said = self.process.communicate(timeout=60)[1]
        assert not alive(self.command), "gone before the supervisor is"
        return self.process.returncode, said


class FrozenForGood(Frozen):
    """Its warden cannot do anything, however often it is sent SIGCONT: this process traces it. It can be killed."""

    def stop(self) -> None:
        until(lambda: state(self.warden) == "S")  # it has reported that the command is started
        if ctypes.CDLL(None, use_errno=True).ptrace(_ATTACH, self.warden, None, None):
            raise OSError(ctypes.get_errno(), "the warden cannot be traced")
        os.waitpid(self.warden, 0)

    def is_killed(self) -> bool:
        """The one that traces it learns of that before its parent does."""
        pid, status = os.waitpid(self.warden, os.WNOHANG)
        return pid == self.warden and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL

    def ended(self) -> tuple[int, str]:
        until(self.is_killed)
        return super().ended()


class FrozenDryRun(FrozenForGood):
    def __init__(self, store: str, folder: Path) -> None:
        (folder / "jobs.py").write_text(JOB)
        self.process = subprocess.Popen(
            [sys.executable, "-c", "import jobs; raise SystemExit(jobs.job.dry_run().exit_code)"],
            env=environment(store), cwd=folder, text=True, stderr=subprocess.PIPE, process_group=0,
        )  # fmt: skip
        self._take(folder / "said")

    def _find_warden(self) -> int:
        (supervisor,) = children(self.process.pid)
        (warden,) = children(supervisor)
        return warden


def test_a_lock_ends_when_it_is_told_to(sqlite_url, tmp_path):
    frozen = Frozen(sqlite_url, tmp_path, "lock", "job")
    frozen.process.terminate()
    assert frozen.ended()[0] == 128 + signal.SIGTERM
    assert nightlatch(sqlite_url, "lock", "job", "--", "true").returncode == 0


@pytest.mark.parametrize("command", [("run", "job"), ("once", "key")], ids=["run", "once"])
def test_the_timeout_is_kept(sqlite_url, tmp_path, command):
    code, said = Frozen(sqlite_url, tmp_path, *command, "--timeout", "1s").ended()
    assert code == (124 if command[0] == "run" else 76), said


def test_a_cancelled_run_ends(sqlite_url, tmp_path):
    frozen = Frozen(sqlite_url, tmp_path, "run", "job")
    assert nightlatch(sqlite_url, "cancel", *frozen.run).returncode == 0
    assert frozen.ended()[0] == 120


def test_a_warden_that_cannot_wake_up_is_replaced_by_its_supervisor(sqlite_url, tmp_path):
    """All at once: each takes its time, its grace, and what a warden may take longer."""
    places = {kind: tmp_path / kind for kind in ("lock", "run", "once", "dry-run")}
    for place in places.values():
        place.mkdir()
    lock = FrozenForGood(sqlite_url, places["lock"], "lock", "held")
    frozen = {
        lock: 128 + signal.SIGKILL,
        FrozenForGood(sqlite_url, places["run"], "run", "job", "--grace", "1s", "--timeout", "1s"): 124,
        FrozenForGood(sqlite_url, places["once"], "once", "key", "--timeout", "1s"): 76,
        FrozenDryRun(sqlite_url, places["dry-run"]): 124,
    }
    lock.process.terminate()
    lock.process.send_signal(signal.SIGHUP)  # asked a second time, there is no grace
    for one, code in frozen.items():
        ended, said = one.ended()
        assert ended == code, said


def test_a_run_whose_warden_was_killed_when_another_took_the_lease_says_that_it_has_lost_it(sqlite_url, tmp_path):
    """A frugal warden is in the run's cgroup, of which a challenger leaves nothing."""
    frozen = Frozen(sqlite_url, tmp_path, "run", "job", "--ttl", "2s")
    os.kill(frozen.process.pid, signal.SIGSTOP)
    os.kill(frozen.warden, signal.SIGKILL)
    assert nightlatch(sqlite_url, "lock", "job", "--wait", "50s", "--", "true").returncode == 0
    os.kill(frozen.process.pid, signal.SIGCONT)
    code, said = frozen.ended()
    assert code == 123 and "exit=123" in said, said
