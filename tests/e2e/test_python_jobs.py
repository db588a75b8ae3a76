"""`@nightlatch.job` and `nightlatch.run`: from Python, under a supervisor process."""

from __future__ import annotations

import inspect
import json
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import nightlatch
from nightlatch.errors import InDoubt, LeaseLost, UsageError
from nightlatch.ledger import open_for
from nightlatch.runtime.shared.replies import one_by_one
from nightlatch.runtime.supervisor.socket.server import Socket
from tests.support.programs import environment, python, start, until

JOBS = """
import asyncio, json, os, pathlib, sys, time
import nightlatch

OUT = pathlib.Path(os.environ["OUT"])

@nightlatch.job()
def plain(number, word="x"):
    OUT.write_text(f"{number} {word}")
    return number

@nightlatch.job(key="{site}/{slug}")
def article(site, slug="first"):
    with OUT.open("a") as out:
        out.write(f"{nightlatch.current().key}\\n")

@nightlatch.job(key=lambda number: f"even-{number // 2}")
def halved(number):
    pass

@nightlatch.job()
async def waiting(number):
    await asyncio.sleep(0)
    OUT.write_text(str(number))

@nightlatch.job(name="told", key="k")
def telling():
    run = nightlatch.current()
    run.progress(1, 3, "outline")
    used = run.spend(usd=0.5, tokens=10)
    run.check()
    run.log.warning("a line of the log")
    OUT.write_text(json.dumps([run.run, run.token, run.attempt, run.key, run.job, used]))

@nightlatch.job(workspace="scratch", publish=("page=published",))
def publishing():
    run = nightlatch.current()
    assert pathlib.Path.cwd() == run.workspace
    (run.workspace / "page").write_text("made")

@nightlatch.job(key="k")
def failing():
    raise ValueError("no such thing")

@nightlatch.job(key="k", retries=1, backoff="10ms")
def flaky():
    if nightlatch.current().attempt == 1:
        raise OSError("away")

@nightlatch.job(budget={"usd": 1})
def greedy():
    nightlatch.current().spend(usd=2)
    time.sleep(60)

@nightlatch.job(timeout="1s")
def endless():
    while True:
        try:
            time.sleep(60)
        except Exception:
            pass

@nightlatch.job(key="k", ttl="6s")
def checking():
    OUT.write_text(str(nightlatch.current().token))
    while True:
        try:
            nightlatch.current().check()
        except Exception:
            pass

class Group:
    @staticmethod
    @nightlatch.job(name="grouped")
    def inside():
        OUT.write_text("inside")
"""


class Jobs:
    """A module of jobs in a folder of its own, and calls of it from another process."""

    def __init__(self, folder: Path, store: str) -> None:
        self.folder, self.store, self.out = folder, store, folder / "out"
        (folder / "nightly.py").write_text(JOBS)

    def call(self, line: str) -> str:
        """What the last line of a small program gives, printed; its module is found from its own folder."""
        program = f"import nightlatch, nightly, sys\nsys.stdout.write(str({line}))"
        env = environment(self.store, OUT=str(self.out))
        ran = subprocess.run([sys.executable, "-c", program], env=env, cwd=self.folder, text=True, capture_output=True)
        self.said = ran.stderr
        assert ran.returncode == 0, ran.stderr
        return ran.stdout


@pytest.fixture
def jobs(tmp_path: Path, sqlite_url: str) -> Jobs:
    return Jobs(tmp_path, sqlite_url)


def test_a_job_is_a_plain_function(jobs):
    assert jobs.call("nightly.plain(3)") == "3"

    @nightlatch.job()
    async def later() -> None:
        """Soon."""

    assert inspect.iscoroutinefunction(later) and later.__doc__ == "Soon."


def test_run_supervises_it_and_returns_the_verdict(jobs):
    assert jobs.call("nightly.plain.run(7, word='ü').status") == "succeeded"
    assert jobs.out.read_text() == "7 ü"
    assert [run.job for run in open_for(jobs.store).history.runs()] == ["plain"]


def test_an_async_job_is_awaited(jobs):
    assert jobs.call("nightly.waiting.run(5).exit_code") == "0"
    assert jobs.out.read_text() == "5"


def test_a_job_in_a_class_is_found(jobs):
    assert jobs.call("nightly.Group.inside.run().status") == "succeeded"


def test_its_key_is_made_from_the_arguments(jobs):
    statuses = "[nightly.article.run(site).status for site in ('a', 'b', 'a')]"
    assert jobs.call(statuses) == "['succeeded', 'succeeded', 'skipped']"
    assert jobs.out.read_text() == "a/first\nb/first\n"
    assert jobs.call("[nightly.halved.run(n).status for n in (2, 3, 4)]") == "['succeeded', 'skipped', 'succeeded']"


def test_inside_it_knows_its_run_and_reports(jobs):
    assert jobs.call("nightly.telling.run().usd") == "0.5"
    run = open_for(jobs.store).find("told", "k")
    assert run and (run.done, run.total, run.message) == (1, 3, "outline")
    assert json.loads(jobs.out.read_text()) == [run.id, run.token, 1, "k", "told", {"usd": 0.5, "tokens": 10.0}]
    assert "WARNING a line of the log" in jobs.said


def test_it_works_in_a_workspace_and_publishes(jobs):
    assert jobs.call("nightly.publishing.run().status") == "succeeded"
    assert (jobs.folder / "published").read_text() == "made"


def test_an_exception_is_recorded_with_its_traceback(jobs):
    shown = jobs.call("(lambda v: (v.status, v.exit_code, v.reason))(nightly.failing.run())")
    assert shown == "('failed', 1, 'ValueError: no such thing')"
    assert "in failing" in jobs.said and "runtime/child/python_job.py" not in jobs.said
    ledger = open_for(jobs.store)
    run = ledger.find("failing", "k")
    assert run
    (facts,) = [entry.facts for entry in ledger.journal.of_run(run.id) if entry.kind == "exception"]
    assert facts["reason"] == "ValueError: no such thing" and "in failing" in facts["traceback"]


def test_a_job_is_tried_again_if_it_says_so(jobs):
    shown = jobs.call("(lambda v: (v.status, v.attempt))(nightly.flaky.run())")
    assert shown == "('succeeded', 2)"


def test_a_secret_in_an_exception_is_taken_out(sqlite_url, tmp_path):
    (tmp_path / "leaky.py").write_text(
        "import os, nightlatch\n@nightlatch.job(key='k')\ndef leak():\n    raise ValueError(os.environ['API_KEY'])\n"
    )
    env = environment(sqlite_url, API_KEY="correct-horse")
    shown = subprocess.run(
        [sys.executable, "-c", "import leaky; print(leaky.leak.run().reason)"],
        env=env, cwd=tmp_path, text=True, capture_output=True, check=True,
    )  # fmt: skip
    assert "correct-horse" not in shown.stdout + shown.stderr and "[API_KEY]" in shown.stdout


@pytest.mark.parametrize(("name", "status"), [("greedy", "over-budget"), ("endless", "timed-out")])
def test_bounds_are_imposed_from_outside(jobs, name, status):
    assert jobs.call(f"nightly.{name}.run().status") == status


def test_a_lost_lease_leaves_it_in_doubt(jobs, sqlite_url):
    running = python(sqlite_url, "import nightly; nightly.checking.run()", cwd=jobs.folder, env={"OUT": str(jobs.out)})
    token = int(until(lambda: jobs.out.exists() and jobs.out.read_text()))
    nightlatch.connect(sqlite_url).evict("checking")
    _, said = running.communicate(timeout=90)
    assert "status=in-doubt exit=123" in said, said
    run = open_for(sqlite_url).find("checking", "k")
    assert run and run.token == token and run.status == "in-doubt"
    assert open_for(sqlite_url).attempts(run.id)[0].status == "lost"


def test_a_lost_lease_is_not_swallowed_by_except_exception(monkeypatch):
    def lost(_: dict[str, object]) -> dict[str, object]:
        raise LeaseLost("taken by another", reason="taken")

    line = Socket("grant-of-this-test", one_by_one(lost))
    for name, text in {
        "SOCKET": line.path,
        "GRANT": "grant-of-this-test",
        "RUN": "r",
        "ATTEMPT": "1",
        "TOKEN": "1",
    }.items():
        monkeypatch.setenv(f"NIGHTLATCH_{name}", text)
    served = threading.Event()

    def serve() -> None:
        while not served.is_set():
            line.serve(select.select(line.descriptors, [], [], 0.01)[0])

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with pytest.raises(LeaseLost, match="taken by another"):
            careless()
    finally:
        served.set()
        thread.join()
        line.close()


def careless() -> None:
    try:
        nightlatch.current().check()
    except Exception:  # noqa: BLE001 - as careless code does
        pass


def test_a_script_that_is_started_itself_does_not_start_again_in_the_child(tmp_path, sqlite_url):
    script = tmp_path / "script.py"
    script.write_text(
        "import nightlatch\n\n@nightlatch.job()\ndef work(word):\n    print('working', word)\n\n"
        "if __name__ == '__main__':\n    print('verdict', work.run('hard').status)\n"
    )
    shown = subprocess.run(
        [sys.executable, script], env=environment(sqlite_url), text=True, capture_output=True, check=True
    )
    assert shown.stdout.split("\n")[:2] == ["working hard", "verdict succeeded"]


def test_an_interrupted_script_lets_its_job_tidy_up(tmp_path, sqlite_url):
    script, noted = tmp_path / "script.py", tmp_path / "noted"
    script.write_text(
        f"""
import pathlib, time, nightlatch

NOTED = {str(noted)!r}

@nightlatch.job(key="k")
def work():
    try:
        pathlib.Path(NOTED + ".begun").touch()
        time.sleep(600)
    finally:
        pathlib.Path(NOTED + ".ending").touch()
        while not pathlib.Path(NOTED + ".go").exists():
            time.sleep(0.02)
        pathlib.Path(NOTED).write_text("tidy")

if __name__ == "__main__":
    work.run()
"""
    )
    started = subprocess.Popen([sys.executable, script], env=environment(sqlite_url), stderr=subprocess.DEVNULL)
    until(Path(f"{noted}.begun").exists)
    started.send_signal(signal.SIGINT)
    until(Path(f"{noted}.ending").exists)
    time.sleep(0.5)  # twice as long as subprocess.call waits before it kills
    Path(f"{noted}.go").touch()
    assert started.wait(60) == -signal.SIGINT
    run = open_for(sqlite_url).find("work", "k")
    assert run and (noted.read_text(), run.status) == ("tidy", "cancelled")


def test_run_returns_how_a_command_ended(sqlite_url, tmp_path):
    ended = nightlatch.run("job", ["sh", "-c", "exit 3"], key="k", store=sqlite_url)
    assert (ended.status, ended.exit_code, ended.key, ended.attempt) == ("failed", 3, "k", 1)
    assert nightlatch.run("job", f"echo 1 > {tmp_path}/file", key="k", store=sqlite_url).status == "succeeded"
    assert nightlatch.run("job", "false", key="k", store=sqlite_url).status == "skipped"
    assert isinstance(ended, nightlatch.Verdict)


def test_run_raises_what_kept_it_from_starting(sqlite_url, tmp_path):
    with pytest.raises(UsageError):
        nightlatch.run("job", "true", timeout="soon", store=sqlite_url)
    held = start(sqlite_url, "run", "job", "--key", "k", "--", "sh", "-c", f"touch {tmp_path}/up; sleep 600")
    try:
        until((tmp_path / "up").exists)
        with pytest.raises(nightlatch.Busy, match="held by"):
            nightlatch.run("job", "true", key="other", store=sqlite_url)
    finally:
        held.kill()
        held.wait()
    until(lambda: _in_doubt(sqlite_url))
    with pytest.raises(InDoubt, match="nightlatch resolve"):
        nightlatch.run("job", "true", key="k", store=sqlite_url)


def _in_doubt(store: str) -> bool:
    """The lease moves when all that the killed one started is gone."""
    try:
        return nightlatch.run("job", "true", key="k", store=store).status == "in-doubt"
    except nightlatch.Busy:
        return False


def test_a_slot_is_its_key(sqlite_url):
    first = nightlatch.run("job", "true", slot="0 2 1 1 *", store=sqlite_url)
    again = nightlatch.run("job", "true", slot="0 2 1 1 *", store=sqlite_url)
    assert first.slot == first.key == again.key and again.status == "skipped"
