"""Supervisors that do one run after the other: what one run leaves is not there for the next."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs import until

# Real forks, in a process with one thread; what stands in for a run does what its order says.
FORKING = """
import fcntl, json, os, select, signal, subprocess, sys, threading, time
from nightlatch.scheduler import supervisors
supervisors._IDLE, supervisors._MOST_RUNS = float(sys.argv[1]), int(sys.argv[2])
def supervise(order):
    exec(order["job"])
    return order["code"], order["verdict"]
supervisors.supervise = supervise
poll = select.poll()
poll.register(0, select.POLLIN)
woken, end = os.pipe()
os.set_blocking(end, False)
signal.signal(signal.SIGCHLD, lambda *_: None)
signal.set_wakeup_fd(end)
poll.register(woken, select.POLLIN)
mine, running = supervisors.Supervisors(poll), set()
while True:
    pause = mine.end_idle()
    ready = {fd for fd, _ in poll.poll(min(pause, 60) * 1000 + 1)}
    if woken in ready:
        os.read(woken, 4096)
    for pid, code in mine.ended(ready):
        if pid in running:  # as the scheduler does
            running.remove(pid)
            print(json.dumps(["ended", pid, code]), flush=True)
    if 0 in ready:
        order = json.loads(os.read(0, 65536))
        running.add(pid := mine.start(order, reuse=order["reuse"]))
        print(json.dumps(["started", pid]), flush=True)
"""


class Forking:
    def __init__(self, log: Path, *before: str, idle: float = 60.0, most: int = 100) -> None:
        self._log = str(log)
        self.process = subprocess.Popen(
            [*before, sys.executable, "-c", FORKING, str(idle), str(most)], stdin=-1, stdout=-1, text=True, bufsize=1
        )

    def order(self, job: str = "pass", code: int = 0, *, reuse: bool = True, verdict: bool = True) -> int:
        """Returns the pid of the supervisor that got it."""
        assert self.process.stdin
        order = {"job": job, "code": code, "reuse": reuse, "verdict": verdict, "log": self._log}
        self.process.stdin.write(json.dumps(order) + "\n")
        what, pid = self.said()
        assert what == "started"
        return int(pid)

    def said(self) -> Any:
        assert self.process.stdout
        return json.loads(self.process.stdout.readline())

    def run(self, job: str = "pass", code: int = 0, **options: bool) -> int:
        pid = self.order(job, code, **options)
        assert self.said() == ["ended", pid, code]
        return pid


@pytest.fixture
def forking(tmp_path: Path) -> Iterator[Any]:
    made: list[Forking] = []

    def make(*before: str, **settings: Any) -> Forking:
        made.append(Forking(tmp_path / "log", *before, **settings))
        return made[-1]

    yield make
    for one in made:
        with one.process as process:
            process.kill()


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_a_supervisor_does_one_run_after_the_other(forking: Any) -> None:
    one = forking()
    assert len({one.run(code=code) for code in (0, 1, 75, 0)}) == 1


def test_it_needs_no_link_to_its_descriptors_in_dev(forking: Any, tmp_path: Path) -> None:
    """A small container has only the devices that it was given."""
    make = 'mount -t tmpfs none "$0" && touch "$0/null" && mount --bind /dev/null "$0/null" && mount --move "$0" /dev'
    (tmp_path / "dev").mkdir()
    inside = ["unshare", "--mount", "sh", "-c", f'{make} && exec "$@"', str(tmp_path / "dev")]
    if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespaces here")
    one = forking(*inside)
    assert one.run() == one.run()


@pytest.mark.parametrize(
    "left",
    [
        "threading.Thread(target=time.sleep, args=[60], daemon=True).start()",
        "subprocess.Popen(['sleep', '0.5'])",
        "os.open('/', os.O_RDONLY)",
        "os.close(0)",
        "os.environ['SECRET'] = 's3cret'",
        "os.environ.pop('PATH')",
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
        "signal.signal(signal.SIGCHLD, lambda *_: None)",
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])",
    ],
)
def test_one_that_a_run_has_left_in_another_state_is_not_used_again(forking: Any, left: str) -> None:
    one = forking()
    first = one.run()
    assert one.run(left, 3) == first
    until(lambda: gone(first))
    assert one.run() != first


def test_one_whose_run_ended_with_an_error_is_not_used_again(forking: Any) -> None:
    one = forking()
    first = one.run(code=75, verdict=False)
    assert gone(first)
    assert one.run() != first


def test_each_run_writes_to_the_log_that_is_there(forking: Any, tmp_path: Path) -> None:
    one, log = forking(), tmp_path / "log"
    say = "print('%s', file=sys.stderr, flush=True)"
    first = one.run(say % "first")
    log.rename(tmp_path / "rotated")
    assert one.run(say % "second") == first
    assert log.read_text() == "second\n"


def test_a_run_that_publishes_gets_a_new_one(forking: Any) -> None:
    one = forking()
    assert one.run() != one.run(reuse=False)


def test_two_runs_at_a_time_are_never_given_to_one(forking: Any, tmp_path: Path) -> None:
    one = forking()
    wait = f"while not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.01)"
    pids = {one.order(wait), one.order(wait), one.order(wait)}
    assert len(pids) == 3
    (tmp_path / "go").touch()
    assert {tuple(one.said()) for _ in pids} == {("ended", pid, 0) for pid in pids}
    assert one.run() in pids


def test_any_number_of_runs_at_a_time_needs_few_descriptors(forking: Any, tmp_path: Path) -> None:
    one = forking("sh", "-c", 'ulimit -n 120 && exec "$@"', "sh")
    wait = f"while not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.2)"
    pids = {one.order(wait) for _ in range(130)}
    (tmp_path / "go").touch()
    assert {tuple(one.said()) for _ in pids} == {("ended", pid, 0) for pid in pids}
    assert one.run() in pids


def test_one_without_an_order_ends_after_a_while(forking: Any) -> None:
    one = forking(idle=0.05)
    first = one.run()
    until(lambda: gone(first))
    assert one.run(code=4) != first


def test_one_ends_after_its_last_run(forking: Any) -> None:
    one = forking(most=3)
    pids = [one.run(code=code) for code in (1, 2, 3, 4)]
    assert len(set(pids[:3])) == 1
    assert pids[3] != pids[0]


def test_one_that_is_killed_while_it_is_idle_gets_no_order(forking: Any) -> None:
    one = forking()
    first = one.run()
    subprocess.run(["kill", "-9", str(first)], check=True)
    until(lambda: gone(first))
    assert one.run() != first


def test_one_that_is_killed_in_its_second_run_is_reported_once(forking: Any) -> None:
    one = forking()
    first = one.run()
    assert one.order("os.kill(os.getpid(), 9)") == first
    assert one.said() == ["ended", first, -9]
    assert one.run() != first


def test_without_the_forking_process_an_idle_one_ends_and_a_running_one_ends_its_run(
    forking: Any, tmp_path: Path
) -> None:
    one = forking()
    go, done = tmp_path / "go", tmp_path / "done"
    working = one.order(f"while not os.path.exists({str(go)!r}): time.sleep(0.01)\nopen({str(done)!r}, 'w').close()")
    idle = one.run()
    one.process.kill()
    until(lambda: gone(idle))
    go.touch()
    until(lambda: gone(working))
    assert done.exists()
