"""Between two tries a run is `waiting` in the ledger, without a lease: no retry is lost, and none is made too early."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from nightlatch.ledger import open_for
from nightlatch.ledger.records import RunRow
from nightlatch.store import url as stores
from tests.support.programs import TOOL, faketime, nightlatch, start, until

# $1 notes each attempt; the try fails until $1.go exists, and asks to be left alone for $2 seconds.
FLAKY = f'echo "$NIGHTLATCH_ATTEMPT" >> "$1"; [ -e "$1.go" ] || exec {TOOL} fail --retry-after "$2"'
LONG, SHORT = "600", "4"  # seconds: nobody waits for it; somebody does


class Between:
    """A `nightlatch run` after its first try, with the second one to come."""

    def __init__(self, store: str, folder: Path, *options: str, pause: str = LONG) -> None:
        self.store, self.acts = store, folder / "acts"
        self.words = ["run", "job", "--key", "k", "--retries", "3", "--backoff", "1ms", *options]
        self.command = ["--", "sh", "-c", FLAKY, "sh", str(self.acts)]
        self.verdict = folder / "verdict"
        self.process = start(store, *self.words, "--verdict", str(self.verdict), *self.command, pause)
        until(lambda: self.attempts() or self.process.poll() is not None)
        until(lambda: self.run().status != "running")

    def run(self) -> RunRow:
        found = open_for(self.store).find("job", "k")
        assert found
        return found

    def attempts(self) -> list[str]:
        return self.acts.read_text().split() if self.acts.exists() else []

    def killed(self) -> Between:
        self.process.kill()
        self.process.communicate()
        return self

    def again(self, *options: str) -> subprocess.CompletedProcess[str]:
        """The next start of the same key; now it succeeds."""
        self.acts.with_suffix(".go").touch()
        return nightlatch(self.store, *self.words, *options, *self.command, LONG)

    def __enter__(self) -> Between:
        return self

    def __exit__(self, *_: object) -> None:
        self.killed()

    def ended(self) -> tuple[int, str]:
        said = self.process.communicate(timeout=60)[1]
        return self.process.returncode, said


def test_between_two_tries_a_run_waits_for_its_due_time_and_holds_nothing(any_store: str, tmp_path: Path) -> None:
    waits = Between(any_store, tmp_path)
    run = waits.run()
    assert (run.status, run.attempt) == ("waiting", 1) and run.due and run.due - run.changed > 500
    until(lambda: (record := stores.connect(any_store).read("job")) and not record.grant)
    second = waits.again()
    assert (second.returncode, waits.attempts()) == (75, ["1"]), second.stderr
    assert f"nightlatch retry {run.id}" in second.stderr
    waits.killed()
    assert waits.again().returncode == 75, "not due, on any machine"


def test_a_killed_supervisor_loses_no_retry(ledger_url: str, tmp_path: Path) -> None:
    """The next start of the key makes the try that is due, and goes on counting."""
    waits = Between(ledger_url, tmp_path, pause=SHORT).killed()
    assert waits.run().status == "waiting"
    until(lambda: waits.again().returncode == 0)
    assert waits.attempts() == ["1", "2"]
    assert (waits.run().status, waits.run().attempt) == ("succeeded", 2)
    assert nightlatch(ledger_url, "audit", "verify").returncode == 0


def test_after_a_killed_supervisor_retry_makes_it_due_at_once(any_store: str, tmp_path: Path) -> None:
    waits = Between(any_store, tmp_path).killed()
    report = nightlatch(any_store, "retry", waits.run().id)
    assert report.returncode == 0 and f"nightlatch retry {waits.run().id}" in report.stdout, report.stderr
    done = waits.again()
    assert (done.returncode, waits.attempts()) == (0, ["1", "2"]), done.stderr


def test_a_living_supervisor_makes_the_try_that_a_person_asks_for(sqlite_url: str, tmp_path: Path) -> None:
    waits = Between(sqlite_url, tmp_path)
    waits.acts.with_suffix(".go").touch()
    assert nightlatch(sqlite_url, "retry", waits.run().id).returncode == 0
    assert waits.ended()[0] == 0
    assert waits.attempts() == ["1", "2"]


def test_cancel_between_two_tries_ends_the_run(any_store: str, tmp_path: Path) -> None:
    waits = Between(any_store, tmp_path)
    report = nightlatch(any_store, "cancel", waits.run().id, env={"LOGNAME": "ann"})
    assert report.returncode == 0 and "is cancelled" in report.stdout, report.stderr
    code, said = waits.ended()
    assert (code, waits.attempts()) == (120, ["1"]), said
    assert json.loads(waits.verdict.read_text())["status"] == "cancelled"
    run = waits.run()
    assert run.status == "cancelled" and run.reason.startswith("cancelled by ann@")
    assert "nothing needs you" in nightlatch(any_store).stdout, "somebody knows"


def test_cancel_after_a_killed_supervisor_ends_the_run(sqlite_url: str, tmp_path: Path) -> None:
    waits = Between(sqlite_url, tmp_path, pause=SHORT).killed()
    assert nightlatch(sqlite_url, "cancel", waits.run().id).returncode == 0
    assert waits.run().status == "cancelled"


@pytest.mark.parametrize(
    ("signum", "code", "needs"), [(signal.SIGTERM, 143, 1), (signal.SIGHUP, 129, 1), (signal.SIGINT, 130, 0)]
)
def test_a_signal_between_two_tries_ends_the_run_as_cancelled(
    sqlite_url: str, tmp_path: Path, signum: int, code: int, needs: int
) -> None:
    waits = Between(sqlite_url, tmp_path)
    waits.process.send_signal(signum)
    ended, said = waits.ended()
    assert ended == code, said
    assert (waits.run().status, waits.attempts()) == ("cancelled", ["1"])
    shown = json.loads(nightlatch(sqlite_url, "status", "--json").stdout)
    assert len(shown["needs_you"]) == needs, "after a shutdown nobody may know that it is not done"
    assert waits.again().returncode == 0


def test_a_start_that_waited_for_the_lease_does_not_try_before_it_is_due(sqlite_url: str, tmp_path: Path) -> None:
    go, acts = tmp_path / "go", tmp_path / "acts"
    script = f"{FLAKY.partition('[')[0]} while [ ! -e {go} ]; do sleep 0.05; done; exec {TOOL} fail --retry-after 600"
    words = ["run", "job", "--key", "k", "--retries", "1", "--wait", "50s", "--", "sh", "-c", script, "sh", str(acts)]
    first = start(sqlite_url, *words)
    until(acts.exists)
    second = start(sqlite_url, *words)
    until(lambda: _waits_for_lease(second.pid) or second.poll() is not None)
    go.touch()
    assert second.wait(60) == 75, second.communicate()
    assert acts.read_text() == "1\n"
    first.kill()
    first.communicate()
    second.communicate()


def test_what_is_cancelled_while_its_start_waits_for_the_lease_is_not_begun(sqlite_url: str, tmp_path: Path) -> None:
    acts = tmp_path / "acts"
    assert nightlatch(sqlite_url, "run", "job", "--key", "k", "--", "false").returncode == 1
    ledger = open_for(sqlite_url)
    run = ledger.find("job", "k")
    assert run and nightlatch(sqlite_url, "retry", "--later", run.id).returncode == 0
    other = start(sqlite_url, "lock", "job", "--", "sh", "-c", f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done")
    until(lambda: (record := stores.connect(sqlite_url).read("job")) and record.grant)
    line = Path(stores.connect(sqlite_url).folder) / "line" / "job"
    line.unlink(missing_ok=True)
    waiting = start(sqlite_url, "run", "job", "--key", "k", "--wait", "50s", "--", "touch", str(acts))
    until(line.exists)
    said = nightlatch(sqlite_url, "cancel", run.id)
    assert said.returncode == 0 and "is cancelled" in said.stdout, said.stderr
    (tmp_path / "go").touch()
    assert waiting.wait(60) == 120, waiting.communicate()
    ended = ledger.run(run.id)
    assert not acts.exists() and ended and ended.status == "cancelled"
    for process in (other, waiting):
        process.communicate(timeout=60)


def _waits_for_lease(pid: int) -> bool:
    """It has read the store: its warden is forked, and its database open."""
    try:
        return any("nightlatch" in os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


def test_the_tries_of_one_start_are_counted_across_a_kill_and_begin_again_with_a_person(
    sqlite_url: str, tmp_path: Path
) -> None:
    acts = tmp_path / "acts"
    words = ["run", "job", "--key", "k", "--retries", "1", "--backoff", "1ms", "--", "sh", "-c", FLAKY, "sh", str(acts)]
    first = start(sqlite_url, *words, LONG)
    ledger = open_for(sqlite_url)
    until(lambda: (found := ledger.find("job", "k")) and found.status == "waiting")
    first.kill()
    first.communicate()
    nightlatch(sqlite_url, "retry", next(ledger.history.runs("job")).id)
    again = start(sqlite_url, *words, LONG)  # the first of two tries, by a person's word
    until(lambda: (found := ledger.find("job", "k")) and (found.status, found.attempt) == ("waiting", 2))
    again.kill()
    again.communicate()
    last = nightlatch(sqlite_url, *words, LONG, env=faketime("+20m"))
    assert last.returncode == 75 and "status=failed" in last.stderr, "its second try was the last one"
    found = ledger.find("job", "k")
    assert found and (found.status, found.attempt) == ("failed", 3)


def test_a_waiting_run_is_shown_with_its_due_time_and_what_to_type(sqlite_url: str, tmp_path: Path) -> None:
    waits = Between(sqlite_url, tmp_path)
    run = waits.run()
    short = open_for(sqlite_url).history.short(run.id)
    typed = f"  retry {short}"  # after `nightlatch`
    for words, then in (((), typed), (("status",), typed), (("runs",), f"  nightlatch retry {run.id}")):
        (row,) = [line for line in nightlatch(sqlite_url, *words).stdout.splitlines() if " job " in line]
        assert "waiting" in row and re.search(r"\bdue in \d+m\b", row), row
        assert "the command reported a failure" in row and row.endswith(then), row
    shown = nightlatch(sqlite_url, "show", run.id).stdout
    assert "  due  " in shown and "again_at=17" not in shown
    following = shown.partition("\nnext\n")[2]
    assert f"nightlatch retry {run.id}" in following and f"nightlatch cancel {run.id}" in following
    waits.killed()
    later = nightlatch(sqlite_url, "status", env=faketime("+20m")).stdout
    needs_you = later.partition("\nneeds you\n")[2].partition("\n\n")[0]
    (row,) = [line for line in needs_you.splitlines() if line.startswith("  ")]
    assert " job " in row and row.endswith(typed), "overdue, and nobody makes it"


def test_a_run_by_hand_goes_on_with_its_own_run_at_each_try(sqlite_url: str, tmp_path: Path) -> None:
    words = ("run", "job", "--new", "--retries", "2", "--backoff", "1ms", "--", "false")
    assert nightlatch(sqlite_url, *words).returncode == 1
    (run,) = open_for(sqlite_url).history.runs("job")
    assert (run.status, run.attempt) == ("failed", 3)


def test_a_cancel_that_came_while_the_command_failed_by_itself_leaves_no_other_try(
    sqlite_url: str, tmp_path: Path
) -> None:
    """Its supervisor has not found the request yet."""
    script = f'echo x >> {tmp_path}/acts; {TOOL} cancel "$NIGHTLATCH_RUN"; exit 1'
    words = ("run", "job", "--key", "k", "--retries", "3", "--backoff", "1ms", "--pass-store", "--", "sh", "-c", script)
    done = nightlatch(sqlite_url, *words)
    assert (done.returncode, (tmp_path / "acts").read_text()) == (120, "x\n"), done.stderr
    (run,) = open_for(sqlite_url).history.runs("job")
    assert run.status == "cancelled" and run.cancel


def test_what_lost_its_budget_between_two_tries_is_tried_when_there_is_one_again(
    sqlite_url: str, tmp_path: Path
) -> None:
    """Another run of the job has used up the day: the try stays due."""
    caps, acts = ("--budget", "usd/day=1", "--meter", "report"), tmp_path / "acts"
    first = ("run", "job", "--key", "k", "--retries", "1", *caps, "--", "sh", "-c", FLAKY, "sh", str(acts), LONG)
    waits = start(sqlite_url, *first)
    until(acts.exists)
    until(lambda: (found := open_for(sqlite_url).find("job", "k")) and found.status == "waiting")
    spent = ("run", "job", "--key", "other", *caps, "--", "sh", "-c", f"{TOOL} spend usd=1")
    assert nightlatch(sqlite_url, *spent).returncode == 0
    found = next(open_for(sqlite_url).history.runs("job", status="waiting"))
    assert nightlatch(sqlite_url, "retry", found.id).returncode == 0
    assert waits.wait(60) == 121
    waits.communicate()
    acts.with_suffix(".go").touch()
    assert nightlatch(sqlite_url, "run", "job", "--key", "k", "--", "true").returncode == 0
