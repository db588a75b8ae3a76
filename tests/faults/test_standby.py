"""A warden that stands by for its supervisor's next run: in that run it does all that a new one would, and nothing of
one run is left for the next."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nightlatch.system import cgroup
from tests.support.programs import alive, carrying, children, environment, nightlatch, state, until

# A supervisor that does one run after the other, each as its order says.
SUPERVISOR = """
import json, os, signal, subprocess, sys
from nightlatch.runtime.supervisor.supervision import Supervision
from nightlatch.store import url
from nightlatch.system import warden
from nightlatch.system.standby import Standby
standby = warden.standby = Standby()
store = url.connect(sys.argv[1])

def say(**facts):
    print(json.dumps(facts), flush=True)

for line in sys.stdin:
    order = json.loads(line)
    os.chdir(order["folder"])
    supervision = Supervision(order["command"], store.folder, captured=(1,), frugal=True)
    with supervision:
        supervision.hold(store, "job", ttl=order["ttl"], wait=0.0)
        exec(order["meanwhile"])
        limit = None if order["limit"] is None else warden.clock.now() + order["limit"]
        supervision.start(supervision.environment(), grace=0.2, limit=limit)
        say(warden=supervision.warden.pid, grant=supervision.grant)
        report = supervision.last_report()
        exec(order["afterwards"])
        output = os.read(supervision.streams[1], 65536).decode() if order["read"] else ""
    supervision.close()
    say(report=repr(report), output=output, stands_by=standby.pid)
standby.end()
"""


class Supervisor:
    def __init__(self, store: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", SUPERVISOR, store], stdin=-1, stdout=-1, text=True, bufsize=1, env=environment(store)
        )

    def start(self, *command: str, folder: str = "/", ttl: float = 60.0, limit: float | None = None,
              meanwhile: str = "", afterwards: str = "", read: bool = True) -> tuple[int, str]:  # fmt: skip
        """Returns the warden's pid and the grant. `meanwhile`, `afterwards`: what the supervisor does before the command
        starts, and when it has ended."""
        assert self.process.stdin
        order = {
            "command": command, "folder": folder, "ttl": ttl, "limit": limit, "meanwhile": meanwhile,
            "afterwards": afterwards, "read": read,
        }  # fmt: skip
        self.process.stdin.write(json.dumps(order) + "\n")
        began = self.said()
        return began["warden"], began["grant"]

    def said(self) -> Any:
        assert self.process.stdout
        return json.loads(self.process.stdout.readline())

    def run(self, *command: str, **options: Any) -> tuple[int, Any]:
        """Returns the warden's pid, and what became of the run."""
        pid, _ = self.start(*command, **options)
        return pid, self.said()


@pytest.fixture
def supervisor(sqlite_url: str) -> Iterator[Supervisor]:
    one = Supervisor(sqlite_url)
    yield one
    one.process.kill()
    one.process.communicate()


PIPES = 4  # of a warden that stands by: its output (in this test a pipe, as is its input) and what wakes it up


def files_of(pid: int) -> list[str]:
    return sorted(os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir())


def live_locks(store: str) -> list[str]:
    return os.listdir(Path(store.removeprefix("sqlite:///") + ".d") / "live")


def test_one_warden_does_one_run_after_the_other(supervisor: Supervisor) -> None:
    ended = [supervisor.run("sh", "-c", f"echo {code}; exit {code}") for code in (0, 3, 75, 0)]
    assert len({pid for pid, _ in ended}) == 1
    assert [one["output"] for _, one in ended] == ["0\n", "3\n", "75\n", "0\n"]
    assert [one["report"].partition(",")[0] for _, one in ended] == [
        f"Ended(status={code << 8}" for code in (0, 3, 75, 0)
    ]
    assert {one["stands_by"] for _, one in ended} == {ended[0][0]}


def test_each_command_starts_as_the_first_one_did(supervisor: Supervisor, tmp_path: Path) -> None:
    """Each has the folder, signals, descriptors, process group, session and cgroup of its own run."""
    script = """
        cd . && pwd; grep Sig /proc/self/status | grep -v SigQ
        ls -l /proc/self/fd | sed -n 's/.* -> //p' | sed 's/[0-9a-f]*[.]tree/LOCK.tree/; s/pipe:.*/pipe/; s/[0-9][0-9]*/N/g' | sort
        cut -d' ' -f5 /proc/$$/stat | grep -cx $$
        sed 's/nightlatch-[0-9a-f]*/RUN/' /proc/self/cgroup
    """  # fmt: skip
    (tmp_path / "a").mkdir()
    first = supervisor.run("sh", "-c", script, folder=str(tmp_path))
    second = supervisor.run("sh", "-c", script, folder=str(tmp_path))
    assert first == second
    assert first[1]["output"].startswith(f"{tmp_path}\n") and first[1]["output"].count("LOCK.tree") == 1
    assert supervisor.run("pwd", folder=str(tmp_path / "a"))[1]["output"] == f"{tmp_path}/a\n"


def test_what_stands_by_has_nothing_left_of_its_run(supervisor: Supervisor, sqlite_url: str) -> None:
    warden, _ = supervisor.run("true")
    home = Path(f"/proc/{supervisor.process.pid}/cgroup").read_text()
    until(lambda: len([file for file in files_of(warden) if "pipe:" in file]) <= PIPES)
    at_first = files_of(warden)
    assert not [file for file in at_first if "/live/" in file] and live_locks(sqlite_url) == []
    assert Path(f"/proc/{warden}/cgroup").read_text() == home
    assert os.readlink(f"/proc/{warden}/cwd") == "/"
    for _ in range(5):
        supervisor.run("true")
    until(lambda: len(files_of(warden)) == len(at_first))


@pytest.mark.skipif(not cgroup.possible(), reason="needs root or a delegated cgroup v2")
def test_each_run_has_a_cgroup_which_is_gone_after_it(supervisor: Supervisor) -> None:
    own = cgroup.own()
    for _ in range(3):
        _, grant = supervisor.start("sleep", "0.1")
        group = f"{own}/nightlatch-{grant}"
        until(functools.partial(cgroup.members, group))
        supervisor.said()
        assert not os.path.exists(group)


@pytest.mark.skipif(not cgroup.possible(), reason="needs root or a delegated cgroup v2")
def test_a_cgroup_that_the_command_made_in_its_own_is_gone_after_it(supervisor: Supervisor) -> None:
    _, grant = supervisor.start("sh", "-c", 'mkdir -p "$0/nightlatch-$NIGHTLATCH_GRANT/a/b"', cgroup.own())
    assert "Ended(status=0," in supervisor.said()["report"]
    assert not os.path.exists(f"{cgroup.own()}/nightlatch-{grant}")


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGSTOP])
def test_one_that_is_killed_or_stopped_while_it_stands_by_is_replaced(supervisor: Supervisor, signum: int) -> None:
    first, _ = supervisor.run("true")
    os.kill(first, signum)
    until(lambda: state(first) in "ZT")
    second, ended = supervisor.run("echo", "done")
    assert second != first and ended["output"] == "done\n" and not alive(first)
    assert supervisor.run("true")[0] == second


@pytest.mark.parametrize("most", range(4, 12, 2))
def test_one_that_may_open_too_few_files_now_is_replaced_before_it_starts_anything(
    supervisor: Supervisor, most: int
) -> None:
    """It would get only some of the next run's descriptors."""
    lower = f"subprocess.run(['prlimit', '--pid', str(supervision.warden.pid), '--nofile={most}'], check=True)"
    first, _ = supervisor.run("true", afterwards=lower)
    second, ended = supervisor.run("echo", "done")
    assert ended["output"] == "done\n" and second != first


def test_one_that_is_killed_at_the_hand_over_is_replaced_before_it_starts_anything(supervisor: Supervisor) -> None:
    """A killed process takes a moment to die: it may be given a tree meanwhile."""
    kill = """if True:
        from nightlatch.system import standby as module
        def send(*words, send=module._send):
            module._send = send
            os.kill(standby.pid, signal.SIGSTOP)  # so that it does nothing more before it is killed
            send(*words)
            os.kill(standby.pid, signal.SIGKILL)
        module._send = send
    """
    first, _ = supervisor.run("true", afterwards=kill)
    second, ended = supervisor.run("echo", "done")
    assert ended["output"] == "done\n" and second != first


@pytest.mark.parametrize(
    "change",
    [
        "renice -n 15 -p $PPID",
        "chrt -b -p 0 $PPID",
        "prlimit --pid $PPID --fsize=0:unlimited",
        "taskset -p 1 $PPID",
        "echo 900 > /proc/$PPID/oom_score_adj",
        "echo 0 > /proc/$PPID/coredump_filter",
    ],
)
def test_one_whose_settings_its_command_has_changed_does_not_stand_by(supervisor: Supervisor, change: str) -> None:
    first, ended = supervisor.run("sh", "-c", f"{{ {change}; }} > /dev/null 2>&1")
    assert "Ended(status=0," in ended["report"] and ended["stands_by"] == 0 and not alive(first)


def test_without_room_for_its_channel_a_run_has_a_warden_all_the_same(supervisor: Supervisor) -> None:
    full = "Standby.channel = lambda _: os.open('/dev/full/none', 0)"
    first, _ = supervisor.run("true", afterwards=full)
    os.kill(first, signal.SIGKILL)
    second, ended = supervisor.run("echo", "done")
    assert ended["output"] == "done\n" and ended["stands_by"] == 0 and second != first


def test_it_ends_with_its_supervisor(supervisor: Supervisor) -> None:
    warden, _ = supervisor.run("true")
    supervisor.process.kill()
    supervisor.process.wait()
    until(lambda: not alive(warden))


def test_a_stopped_one_ends_with_its_supervisor_too(supervisor: Supervisor) -> None:
    """Its process group is orphaned then, so the kernel continues it."""
    warden, _ = supervisor.run("true")
    os.kill(warden, signal.SIGSTOP)
    until(lambda: state(warden) == "T")
    supervisor.process.kill()
    supervisor.process.wait()
    until(lambda: not alive(warden))


def test_a_supervisor_that_ends_ends_it_first(supervisor: Supervisor) -> None:
    warden, _ = supervisor.run("true")
    supervisor.process.communicate()
    assert supervisor.process.returncode == 0 and not alive(warden)


RUNAWAY = "trap '' TERM; (setsid sleep 600 &); (sleep 600 &); echo; sleep 600"


@pytest.mark.parametrize("killed", ["supervisor", "warden", "both"])
def test_whoever_is_killed_in_a_later_run_nothing_of_it_is_left(
    supervisor: Supervisor, sqlite_url: str, killed: str
) -> None:
    first, _ = supervisor.run("true")
    warden, grant = supervisor.start("sh", "-c", RUNAWAY, read=False)
    assert warden == first
    until(lambda: len(carrying(grant)) >= 3)
    if killed != "warden":
        os.kill(supervisor.process.pid, signal.SIGSTOP)  # so that neither acts before both are killed
    if killed != "supervisor":
        os.kill(warden, signal.SIGKILL)
    if killed != "warden":
        supervisor.process.kill()
        supervisor.process.wait()
    else:
        assert supervisor.said() == {"report": "WardenDied()", "output": "", "stands_by": 0}
    # The lease does not move before that is proven.
    assert nightlatch(sqlite_url, "lock", "job", "--wait", "50s", "--", "true").returncode == 0
    assert not carrying(grant)
    if killed == "warden":
        second, ended = supervisor.run("echo", "done")
        assert second != first and ended["output"] == "done\n"


def test_what_it_started_is_frozen_and_ended_when_its_supervisor_is_stopped_past_the_lease(
    supervisor: Supervisor, sqlite_url: str
) -> None:
    first, _ = supervisor.run("true")
    warden, grant = supervisor.start("sh", "-c", RUNAWAY, ttl=2.0, read=False)
    assert warden == first
    until(lambda: len(carrying(grant)) >= 3)
    os.kill(supervisor.process.pid, signal.SIGSTOP)
    assert nightlatch(sqlite_url, "lock", "job", "--wait", "50s", "--", "true").returncode == 0
    assert not carrying(grant)
    os.kill(supervisor.process.pid, signal.SIGCONT)
    ended = supervisor.said()
    # On a slow machine its warden is still in the run's cgroup when the challenger empties that.
    assert ended["stands_by"] == 0 and ("why='lost'" in ended["report"] or ended["report"] == "WardenDied()")


@pytest.mark.parametrize(
    ("command", "why", "options"),
    [
        (["sh", "-c", "sleep 600 &"], "leftovers", {}),
        (["sleep", "600"], "timed-out", {"limit": 0.2}),
        (["sleep", "600"], "signalled", {"meanwhile": "supervision.warden.ask_to_end('signalled', 0.2)"}),
        (["/nowhere/nothing"], "NotStarted", {}),
    ],
)
def test_one_whose_tree_did_not_end_by_itself_does_not_stand_by(
    supervisor: Supervisor, command: list[str], why: str, options: dict[str, Any]
) -> None:
    first, ended = supervisor.run(*command, read=False, **options)
    assert why in ended["report"] and ended["stands_by"] == 0 and not alive(first)
    assert supervisor.run("true")[0] != first


def test_another_child_of_the_supervisor_is_ended_with_the_run_as_ever(supervisor: Supervisor) -> None:
    """Such as the program that keeps the machine awake: only what was there before the run is spared."""
    first, _ = supervisor.run("true")
    warden, ended = supervisor.run("true", meanwhile="kept = subprocess.Popen(['sleep', '60'], stdout=-3)")
    assert warden == first and ended["stands_by"] == 0
    assert not alive(first) and not children(supervisor.process.pid)


def test_an_order_of_the_run_before_does_not_reach_the_next(supervisor: Supervisor) -> None:
    """The keeper's thread may send one when the command has ended already."""
    first, _ = supervisor.run("true", afterwards="supervision.warden.ask_to_end('signalled', 0.0)")
    warden, ended = supervisor.run("sleep", "0.3", read=False)
    assert warden == first and "Ended(status=0, why=''" in ended["report"]


def test_each_command_has_the_signal_mask_of_its_own_run(supervisor: Supervisor) -> None:
    def blocked(how: str) -> str:
        """What is blocked in a command, and from the next run on `how`."""
        meanwhile = f"signal.pthread_sigmask(signal.SIG_{how}, [signal.SIGUSR2])"
        _, ended = supervisor.run("grep", "SigBlk", "/proc/self/status", meanwhile=meanwhile)
        return str(ended["output"]).split()[1]

    assert [blocked("BLOCK"), blocked("UNBLOCK"), blocked("BLOCK")] == ["0" * 16, f"{1 << 11:016x}", "0" * 16]
