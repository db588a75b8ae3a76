"""Nobody is left behind: supervisor, warden, or both are killed at random points; children run away.

NIGHTLATCH_ROUNDS=100 makes it a long one.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nightlatch.system import cgroup, lifetime, tree
from tests.support import escapes
from tests.support.escapes import Escaped, Machine
from tests.support.programs import (
    TOOL,
    alive,
    carrying,
    children,
    environment,
    is_pending,
    nightlatch,
    python,
    start,
    state,
    until,
)

ROUNDS = int(os.environ.get("NIGHTLATCH_ROUNDS", "15"))

# Ignores TERM, forks, leaves its session, forks twice: everything a runaway child does.
RUNAWAY = """
trap '' TERM
sleep 600 &
setsid sh -c 'trap "" TERM; sleep 600 & sleep 600' &
(setsid sleep 600 &)
touch "$1"
wait
"""


class Victim:
    def __init__(self, store: str, folder: Path, *options: str) -> None:
        self.mark = f"VICTIM-{os.urandom(8).hex()}"
        self.ready = folder / self.mark
        command = ("--", "sh", "-c", RUNAWAY, "sh", str(self.ready))
        # Not a pipe: a process that is left behind would hold it open.
        self.said = (folder / f"{self.mark}.said").open("w+")
        self.process = start(
            store, "lock", "job", *options, *command, env={"VICTIM": self.mark}, stdout=self.said, stderr=self.said
        )

    def ended(self) -> str:
        """Wait for the end of the supervisor; what it said."""
        self.process.wait(60)
        self.said.seek(0)
        with self.said:
            return self.said.read()

    def after(self, dice: random.Random) -> int | None:
        """Wait for a random point, before or after the command has started; returns the warden, if there is one."""
        if dice.random() < 0.5:
            until(self.begun)
        else:
            time.sleep(dice.random() * 0.12)
        return next(iter(children(self.process.pid)), None)

    def kill(self, pid: int | None) -> None:
        if pid is not None and alive(pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def begun(self) -> bool:
        return self.ready.exists() or self.process.poll() is not None

    def gone(self) -> bool:
        return not self.survivors()

    def survivors(self) -> set[int]:
        return carrying(self.mark)


@pytest.mark.timeout(600)
def test_a_killed_supervisor_leaves_nobody(sqlite_url, tmp_path, dice):
    for _ in range(ROUNDS):
        victim = Victim(sqlite_url, tmp_path, "--wait", "60s")
        victim.after(dice)
        victim.kill(victim.process.pid)
        victim.ended()
        until(victim.gone)


@pytest.mark.timeout(600)
def test_a_killed_warden_leaves_nobody_and_the_lease_is_given_back(sqlite_url, tmp_path, dice):
    for _ in range(ROUNDS):
        victim = Victim(sqlite_url, tmp_path, "--wait", "60s")
        warden = victim.after(dice)
        if warden is None:  # there was none yet: then the command runs, and is ended in good order
            until(victim.begun)
            warden = next(iter(children(victim.process.pid)), None)
        victim.kill(warden)
        said = victim.ended()
        assert victim.process.returncode == 125, said
        assert "warden was killed" in said
        assert not victim.survivors(), "gone before the supervisor says so"


@pytest.mark.timeout(600)
def test_both_killed_at_once_leave_nobody_when_the_lease_moves(sqlite_url, tmp_path, dice):
    tokens = []
    for _ in range(ROUNDS):
        victim = Victim(sqlite_url, tmp_path)
        warden = victim.after(dice)
        os.kill(victim.process.pid, signal.SIGSTOP)
        victim.kill(warden)
        victim.kill(victim.process.pid)
        victim.ended()
        next_one = nightlatch(sqlite_url, "lock", "job", "--wait", "50s", "--", "sh", "-c", "echo $NIGHTLATCH_TOKEN")
        assert next_one.returncode == 0, next_one.stderr
        assert not victim.survivors()
        tokens.append(int(next_one.stdout))
    assert tokens == sorted(set(tokens))


def test_what_a_command_leaves_behind_is_ended_before_the_lease_is_released(sqlite_url, tmp_path):
    mark = f"VICTIM-{os.urandom(8).hex()}"
    leaving = "(setsid sleep 600 &) ; sleep 600 & exit 3"
    done = nightlatch(sqlite_url, "lock", "job", "--", "sh", "-c", leaving, env={"VICTIM": mark})
    assert done.returncode == 3
    assert "left 2 processes behind" in done.stderr
    assert not carrying(mark)


def test_a_command_that_ignores_term_is_killed_when_the_grace_is_over(sqlite_url, tmp_path):
    victim = Victim(sqlite_url, tmp_path)
    until(victim.ready.exists)
    victim.process.terminate()
    until(lambda: not is_pending(victim.process.pid, signal.SIGTERM), 60)
    victim.process.terminate()  # a second signal skips the grace period
    said = victim.ended()
    assert victim.process.returncode in (137, 143), said
    assert not victim.survivors()


def test_nested_leases_are_ended_with_the_outer_one(sqlite_url, tmp_path):
    """The inner command carries the inner grant; the sweep for the outer one must still find it."""
    from tests.support.programs import NIGHTLATCH

    mark, ready = f"VICTIM-{os.urandom(8).hex()}", tmp_path / "ready"
    inner = [*NIGHTLATCH, "lock", "inner", "--", "sh", "-c", 'touch "$1"; sleep 600', "sh", str(ready)]
    outer = start(sqlite_url, "lock", "job", "--", *inner, env={"VICTIM": mark}, stdout=None, stderr=None)
    until(ready.exists)
    (warden,) = children(outer.pid)
    os.kill(outer.pid, signal.SIGSTOP)
    os.kill(warden, signal.SIGKILL)
    outer.kill()
    outer.wait()
    assert nightlatch(sqlite_url, "lock", "job", "--wait", "50s", "--", "true").returncode == 0
    assert not carrying(mark)


@pytest.mark.parametrize("grant", ["", "PATH"])
def test_nobody_is_ended_by_a_grant_that_is_none(grant: str) -> None:
    assert tree.carriers(grant) == []
    assert not tree.sweep(grant, 0).complete


FEW = int(os.environ.get("NIGHTLATCH_ROUNDS", "3"))


@pytest.fixture
def machine(request):
    made = Machine(request.param)
    yield made
    made.remove()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("machine", ["plain", "cgroup"], indirect=True)
@pytest.mark.parametrize("kind", ["cleared", "headless", "hopping"])
def test_what_slips_away_is_gone_before_the_lease_moves(machine, kind):
    """`env -i`, a main thread that has ended, a process that forks and exits all the time."""
    for _ in range(FEW):
        escaped = Escaped(machine, kind, "--ttl", "1h")
        next_one = machine.next_holder(escaped, "--wait", "50s")
        assert (next_one.returncode, next_one.stdout) == (0, "alone\n"), next_one.stderr


@pytest.mark.timeout(600)
@pytest.mark.parametrize("machine", ["delegated"], indirect=True)
@pytest.mark.parametrize("kind", ["hidden", "closing-hidden", "closing-cleared", "closing-hopping"])
def test_in_a_cgroup_neither_hiding_nor_closing_descriptors_helps(machine, kind):
    for _ in range(FEW):
        escaped = Escaped(machine, kind, "--ttl", "1h")
        next_one = machine.next_holder(escaped)
        assert (next_one.returncode, next_one.stdout) == (0, "alone\n"), next_one.stderr


@pytest.mark.parametrize("machine", ["user"], indirect=True)
@pytest.mark.parametrize("kind", ["hidden", "closing-hidden"])
def test_a_process_that_cannot_be_proven_gone_at_the_ttl_is_named(machine, kind):
    escaped = Escaped(machine, kind, "--ttl", "2s")
    try:
        assert machine.next_holder(escaped).returncode == 75
        assert machine.next_holder(escaped, "--wait", "50s").stdout == "beside it\n"
        shown = machine.nightlatch("lease", "show", "job").stdout
        assert f"pid {escaped.command} (" in shown
        report = json.loads(machine.nightlatch("lease", "show", "job", "--json").stdout)
        assert any(f"pid {escaped.command} (" in each for each in report["unproven"])
    finally:
        os.kill(escaped.command, signal.SIGKILL)


def test_a_grant_bound_to_a_process_does_not_end_with_its_main_thread(sqlite_url):
    headless = (
        "import ctypes, sys, threading\n"
        "threading.Thread(target=sys.stdin.read).start()\n"
        "print(flush=True)\n"
        "ctypes.CDLL(None).pthread_exit(None)"
    )
    bound = python(sqlite_url, headless, stdin=subprocess.PIPE)
    until(lambda: state(bound.pid) == "Z")
    acquire = ("lease", "acquire", "job", "--ttl", "1h")
    assert nightlatch(sqlite_url, *acquire, "--pid", str(bound.pid)).returncode == 0
    assert nightlatch(sqlite_url, *acquire).returncode == 75
    bound.communicate()
    assert nightlatch(sqlite_url, *acquire).returncode == 0


@pytest.mark.parametrize("killed", [False, True], ids=["ends", "warden-killed"])
def test_a_process_that_a_shell_started_before_it_became_nightlatch_is_left_alone(
    sqlite_url: str, tmp_path: Path, *, killed: bool
):
    mark, ready, earlier = f"OURS-{os.urandom(8).hex()}", tmp_path / "ready", tmp_path / "earlier"
    script = f"""sleep 600 & echo $! > {earlier}; exec {TOOL} lock job -- env OURS={mark} sh -c "$1" sh {ready}"""
    command = RUNAWAY if killed else 'touch "$1"; sleep 600 &'
    # Not a pipe: the earlier process has it too.
    with (tmp_path / "said").open("w") as file:
        shell = subprocess.Popen(
            ["sh", "-c", script, "sh", command],
            env=environment(sqlite_url),
            stdout=file,
            stderr=file,
            process_group=0,
        )
    until(ready.exists)
    stranger = int(earlier.read_text())
    try:
        if killed:
            (warden,) = set(children(shell.pid)) - {stranger}
            os.kill(warden, signal.SIGKILL)
        assert shell.wait(60) == (125 if killed else 0), (tmp_path / "said").read_text()
        assert alive(stranger)
        assert not carrying(mark)
    finally:
        os.kill(stranger, signal.SIGKILL)


@pytest.mark.skipif(not cgroup.possible(), reason="no cgroup can be made here")
def test_a_chain_of_forks_is_ended_beside_a_process_that_was_there_before(sqlite_url: str, tmp_path: Path):
    """Two looks at all processes can miss it, and its supervisor has a child that is not of the tree."""
    ready, lock, earlier = (tmp_path / name for name in ("ready", "lock", "earlier"))
    script = f'sleep 600 & echo $! > {earlier}; exec {TOOL} lock job -- "$@"'
    words = [sys.executable, "-c", escapes.PROGRAM, "hopping", str(lock), str(ready)]
    with (tmp_path / "said").open("w") as said:
        shell = subprocess.Popen(
            ["sh", "-c", script, "sh", *words], env=environment(sqlite_url), stdout=said, stderr=said, process_group=0
        )
    until(ready.exists)
    stranger = int(earlier.read_text())
    try:
        (warden,) = set(children(shell.pid)) - {stranger}
        began = time.monotonic()
        os.kill(warden, signal.SIGKILL)
        assert shell.wait(60) == 125, (tmp_path / "said").read_text()
        assert time.monotonic() - began < 10
        with lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert alive(stranger)
    finally:
        os.kill(stranger, signal.SIGKILL)


@pytest.mark.skipif(not cgroup.possible(), reason="no cgroup can be made here")
def test_a_command_whose_cgroup_was_removed_while_it_waited_is_started_in_one(sqlite_url: str, tmp_path: Path):
    """Another run removes empty ones that are a day old by the wall clock; a holder may wait longer than that."""
    holder = start(sqlite_url, "lock", "job", "--", "sh", "-c", f"until [ -e {tmp_path}/go ]; do sleep 0.02; done")
    until(lambda: nightlatch(sqlite_url, "lease", "show", "job").returncode == 0)
    live = Path(f"{sqlite_url.removeprefix('sqlite:///')}.d") / "live"
    (held,) = [path for path in live.iterdir() if path.suffix != lifetime.TREE]
    waiter = start(sqlite_url, "lock", "job", "--wait", "1m", "--", "cat", "/proc/self/cgroup")

    def waiting() -> list[str]:
        found = [path.read_text() for path in live.iterdir() if path.suffix != lifetime.TREE and path != held]
        return [name for name in found if name]

    (folder,) = until(waiting)
    cgroup.remove(folder)
    (tmp_path / "go").touch()
    out, err = waiter.communicate(timeout=60)
    assert waiter.returncode == 0 and os.path.basename(folder) in out, err
    assert holder.wait(60) == 0
