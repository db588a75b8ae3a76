"""A machine that sleeps in the middle of a run: everything on it stands still, and the clock goes on.

The suspend is injected: every process of the run is stopped, and the suspend-proof clock that supervisor, warden and
challengers read is moved on. That is what the kernel does, but for the hours.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from nightlatch.core import statuses
from nightlatch.ledger import open_for
from tests.support.programs import alive, children, environment, until
from tests.support.suspended_clock import Clock

HOUR = 3600.0


class Machine:
    def __init__(self, folder: Path, store: str) -> None:
        self.folder, self.store = folder, store
        self._clock = Clock(folder)
        self.target, self.go = folder / "target", folder / "go"
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *options: str, work: str = "exec sleep 600") -> subprocess.Popen[str]:
        """A run that writes its page, prints its pid, and continues with `work`."""
        script = f'echo $NIGHTLATCH_ATTEMPT > page; echo $$ > "$1.part"; mv "$1.part" "$1"; {work}'
        publish = ("--workspace", "scratch", "--publish", f"page={self.target}", "--grace", "1s")
        words = (
            "run",
            "job",
            "--key",
            "k",
            *publish,
            *options,
            "--",
            "sh",
            "-c",
            script,
            "sh",
            str(self.folder / "said"),
        )
        program = [*self._clock.program, *words]
        self.started.append(
            subprocess.Popen(program, env=environment(self.store), text=True, stderr=subprocess.PIPE, process_group=0)
        )
        return self.started[-1]

    def working(self) -> int:
        """The pid that the command has printed."""
        until((self.folder / "said").exists)
        pid = int((self.folder / "said").read_text())
        (self.folder / "said").unlink()
        return pid

    def sleep(self, running: subprocess.Popen[str], command: int, seconds: float) -> list[int]:
        everybody = [running.pid, *children(running.pid), command]
        for pid in everybody:
            os.kill(pid, signal.SIGSTOP)
        self._clock.move(seconds)
        return everybody

    def wake(self, everybody: list[int]) -> None:
        for pid in everybody:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass

    def status(self) -> tuple[str, int]:
        run = open_for(self.store).find("job", "k")
        assert run
        return run.status, run.attempt


@pytest.fixture
def machine(tmp_path, sqlite_url):
    made = Machine(tmp_path, sqlite_url)
    yield made
    for running in made.started:
        if running.poll() is None:
            made.wake(children(running.pid))  # its warden ends the rest
            running.kill()


def test_slept_past_its_timeout_the_run_has_timed_out(machine):
    running = machine.start("--timeout", "1h", "--ttl", "24h")
    command = machine.working()
    machine.wake(machine.sleep(running, command, 2 * HOUR))
    _, said = running.communicate(timeout=60)
    assert running.returncode == 124 and "status=timed-out" in said, said
    assert not alive(command) and not machine.target.exists()
    assert machine.status() == (statuses.TIMED_OUT, 1)


def test_slept_past_its_ttl_the_lease_is_lost_although_nobody_took_it(machine):
    running = machine.start("--timeout", "1h", "--ttl", "60s")
    command = machine.working()
    machine.wake(machine.sleep(running, command, 8 * HOUR))
    _, said = running.communicate(timeout=60)
    assert running.returncode == 123 and "status=lost" in said, said
    assert not alive(command) and not machine.target.exists()
    assert machine.status() == (statuses.LOST, 1)
    again = machine.start(work="true")
    assert again.wait(60) == 0
    assert machine.status() == (statuses.SUCCEEDED, 2) and machine.target.read_text() == "2\n"


def test_a_nap_shorter_than_all_its_bounds_is_no_matter(machine):
    running = machine.start("--timeout", "1h", "--ttl", "60s", work=f"until [ -e {machine.go} ]; do sleep 0.05; done")
    command = machine.working()
    machine.wake(machine.sleep(running, command, 30.0))
    machine.go.touch()
    assert running.wait(60) == 0
    assert machine.status() == (statuses.SUCCEEDED, 1) and machine.target.read_text() == "1\n"


@pytest.mark.parametrize("work", ["exec sleep 600", "exit 0"], ids=["at work", "about to publish"])
def test_overtaken_in_its_sleep_it_writes_nothing_and_its_verdict_is_not_recorded(machine, work):
    """The new holder has published and recorded; the sleeper's command is gone, and so is its right to either."""
    gate = f"until [ -e {machine.go} ]; do sleep 0.05; done; {work}"
    running = machine.start("--timeout", "1h", "--ttl", "60s", work=gate)
    command = machine.working()
    everybody = machine.sleep(running, command, 8 * HOUR)
    second = machine.start(work="true")
    _, said = second.communicate(timeout=60)
    assert second.returncode == 0, said
    verdict = open_for(machine.store).find("job", "k")
    machine.go.touch()
    machine.wake(everybody)
    _, said = running.communicate(timeout=60)
    assert running.returncode in (73, 123), said
    assert not alive(command)
    assert machine.target.read_text() == "2\n", "a stale page was published"
    assert verdict and open_for(machine.store).find("job", "k") == verdict and verdict.status == statuses.SUCCEEDED
    kinds = [(entry.kind, entry.facts.get("attempt")) for entry in open_for(machine.store).journal.of_job("job")]
    assert ("refused", "1") in kinds


def test_nobody_waits_for_a_supervisor_that_does_not_wake(machine):
    """The warden alone ends the command on time by the clock that goes on in sleep."""
    running = machine.start("--timeout", "1h", "--ttl", "24h")
    command = machine.working()
    everybody = machine.sleep(running, command, 2 * HOUR)
    machine.wake(everybody[1:])
    until(lambda: not alive(command))
    machine.wake(everybody[:1])
    assert running.wait(60) == 124
