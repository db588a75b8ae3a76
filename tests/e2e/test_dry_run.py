"""The dry-run of a Python job: its effects are found, and none of them is done."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nightlatch.errors import OnlyPlanned
from nightlatch.ledger import open_for
from nightlatch.ledger.records import RunRow
from nightlatch.runtime.child.planned import Planned
from nightlatch.store.url import connect
from tests.support.programs import alive, environment, kill_all, nightlatch, start, until

JOBS = """
import asyncio, os, pathlib, subprocess, sys, time
import nightlatch

OUT = pathlib.Path(os.environ["OUT"])

def note(*words):
    with OUT.open("a") as out:
        out.write(" ".join(map(str, words)) + "\\n")

def post(key):
    note("posted", key)
    return {"id": key}

def posted(key):
    return nightlatch.current().effect("post", key=str(key), do=lambda: post(key), probe=lambda: note("probed"))

def id_of(key):
    return posted(key)["id"]

def outline():
    note("outlined")
    return [1, 2]

@nightlatch.job(key="k", budget={"usd": 5})
def whole():
    run = nightlatch.current()
    assert run.dry_run
    run.progress(1, 3, "begun")
    assert run.spend(usd=1) == {"usd": 1.0}
    numbers = run.step("outline", outline)
    print([*map(repr, run.map(posted, numbers)), *map(repr, run.map(id_of, [3, 4], concurrency=2))])
    print(repr(run.step("one", lambda: {"in": [posted(1)]})), repr(run.handle("message", id_of, 5)))
    run.effect("tell", do=lambda: note("told"), input={"of": [posted(1)]})

@nightlatch.job(key="k")
async def later():
    run = nightlatch.current()
    async def one(key):
        async def act():
            return post(key)
        return (await run.effect("post", key=str(key), do=act))["id"]
    print(await run.map(one, [1, 2], concurrency=2))

@nightlatch.job(key="k")
def reads():
    run = nightlatch.current()
    found = run.effect("first", do=lambda: post(1))
    if found:
        run.effect("second", do=lambda: post(2))

@nightlatch.job(key="k", lost="again")
def dies():
    run = nightlatch.current()
    run.step("outline", outline)
    print("first is", run.effect("first", do=lambda: post(1)))
    run.effect("second", do=lambda: post(2) and 1 / 0)

@nightlatch.job(key="k", timeout="4s")
def hangs():
    posted(1)
    note("pid", os.getpid())
    time.sleep(60)

@nightlatch.job(key="k", budget={"usd": 1})
def spends():
    nightlatch.current().spend(usd=2)
    time.sleep(60)

@nightlatch.job(key="k")
def fails():
    posted(1)
    raise ValueError("no ink")

@nightlatch.job(key="k", workspace="scratch", publish=("out.txt=" + str(OUT.parent / "published.txt"),))
def publishes():
    run = nightlatch.current()
    (run.workspace / "out.txt").write_text("words")
    note(run.workspace)

@nightlatch.job(key="k")
def leases():
    command = [sys.executable, "-m", "nightlatch", "once", "x", "--", "touch", str(OUT)]
    print("once:", subprocess.run(command).returncode)
    with nightlatch.lease("mine"):
        note("held")

@nightlatch.job(key="k")
def agents():
    from nightlatch.runtime.shared.client import send
    run = nightlatch.current()
    begun = send(do="agent-begin", key=run.key)
    print("begun", begun["launch"], repr(begun["handle"]), begun["given"], "why", repr(send(do="why")["why"]))
    run.effect(begun["launch"], scope=run.job, do=lambda: post("agent"))
    send(do="agent", launch=begun["launch"], provider="command", agent="x", handle="h", status="running")
    note("watched")
"""


class Place:
    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url, self.out = folder, url, folder / "out"
        (folder / "jobs.py").write_text(JOBS)

    def call(self, code: str, exits: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-c", f"import jobs; told = jobs.{code}; raise SystemExit(told.exit_code)"],
            env=environment(self.url, OUT=str(self.out)), cwd=self.folder, text=True, capture_output=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == exits, done.stdout + done.stderr
        return done

    def plan(self, job: str) -> dict[str, object]:
        return dict(json.loads(nightlatch(self.url, "show", job, "--plan", "--json").stdout))

    def effects(self, job: str) -> dict[str, str]:
        return {one["key"]: one["status"] for one in self.plan(job)["effects"]}  # type: ignore[attr-defined]

    def newest(self, job: str) -> RunRow:
        run = open_for(self.url).newest(job)
        assert run
        return run

    @property
    def noted(self) -> list[str]:
        return self.out.read_text().splitlines() if self.out.exists() else []


@pytest.fixture
def place(tmp_path, sqlite_url):
    return Place(tmp_path, sqlite_url)


def test_all_effects_are_planned_and_none_is_done(place):
    done = place.call("whole.dry_run()")
    assert place.noted == ["outlined"]
    assert "'<Planned post/1>', '<Planned post/2>', '<Planned post/3>', '<Planned post/4>'" in done.stdout
    assert "{'in': [<Planned post/1>]} <Planned post/5>" in done.stdout
    assert "nightlatch: 1/3 begun\n" in done.stderr
    assert done.stderr.splitlines()[-1].endswith("Look: nightlatch show whole --plan")
    assert place.effects("whole") == dict.fromkeys([*(f"post/{number}" for number in range(1, 6)), "tell"], "planned")
    assert place.plan("whole")["status"] == "planned"
    shown = nightlatch(place.url, "show", "whole").stdout  # it has no run
    assert shown.startswith("dry-run of whole ") and "\n  planned  post/5\n" in shown


def test_nothing_is_claimed(tmp_path, ledger_url):
    place = Place(tmp_path, ledger_url)
    place.call("whole.dry_run()")
    ledger, store = open_for(place.url), connect(place.url)
    assert not list(ledger.history.runs()) and not ledger.effects.every() and not ledger.history.tallies(())
    assert store.read("whole") is None and store.look("whole", "k") is None
    assert [entry.kind for entry in ledger.journal.of_job("whole")] == ["plan"]
    assert ledger.journal.verify().entries == 1
    place.call("whole.dry_run()")
    assert place.noted == ["outlined", "outlined"]


def test_an_async_job(place):
    assert "[<Planned post/1>, <Planned post/2>]" in place.call("later.dry_run()").stdout
    assert place.effects("later") == {"post/1": "planned", "post/2": "planned"} and not place.noted


def test_the_plan_ends_where_a_result_is_read(place):
    said = place.call("reads.dry_run()").stderr
    assert "Traceback" not in said and f"{place.folder}/jobs.py:" in said
    assert place.plan("reads")["status"] == "partial" and place.effects("reads") == {"first": "planned"}
    assert not place.noted


def test_what_is_known_is_used(place):
    place.call("dies.run()", exits=76)
    assert place.noted == ["outlined", "posted 1", "posted 2"]
    assert "errors.InDoubt: dies (k) is needs-attention" in place.call("dies.dry_run()", exits=1).stderr
    nightlatch(place.url, "retry", place.newest("dies").id, "--later")
    assert "first is {'id': 1}" in place.call("dies.dry_run()").stdout
    assert place.noted == ["outlined", "posted 1", "posted 2"]
    assert place.effects("dies") == {"first": "done", "second": "in-doubt"}
    assert place.newest("dies").attempt == 1


def test_the_launch_of_an_agent_is_planned_and_nothing_is_watched(place):
    done = place.call("agents.dry_run()")
    assert "begun agent/k/1 '' {} why ''" in done.stdout
    assert place.plan("agents")["status"] == "partial" and place.effects("agents") == {"agent/k/1": "planned"}
    assert not place.noted and not open_for(place.url).agents.newest(1)


def test_a_key_that_is_done_is_skipped(place):
    place.call("dies.run()", exits=76)
    nightlatch(place.url, "resolve", place.newest("dies").id, "done")
    assert "dies (k) skipped" in place.call("dies.dry_run()").stderr


def test_its_timeout_ends_it(place):
    place.call("hangs.dry_run()", exits=124)
    assert place.plan("hangs")["status"] == "timed-out" and place.effects("hangs") == {"post/1": "planned"}
    pid = int(place.noted[-1].split()[1])
    assert not alive(pid)


def test_its_budget_ends_it_and_is_not_used_up(place):
    for _ in range(2):
        place.call("spends.dry_run()", exits=121)
    assert not open_for(place.url).history.tallies(())


def test_an_exception_fails_it(place):
    assert "Traceback" in place.call("fails.dry_run()", exits=1).stderr
    assert place.plan("fails")["reason"] == "ValueError: no ink" and place.effects("fails") == {"post/1": "planned"}


def test_it_works_in_a_workspace_and_publishes_nothing(place):
    place.call("publishes.dry_run()")
    assert not Path(place.noted[0]).exists() and not (place.folder / "published.txt").exists()
    assert place.effects("publishes") == {f"publish out.txt={place.folder}/published.txt": "planned"}


def test_no_lease_is_taken_by_what_it_starts(place):
    done = place.call("leases.dry_run()", exits=64)
    assert "once: 64" in done.stdout and done.stderr.count("takes no lease") >= 2 and not place.noted


def test_a_plain_command_is_not_started(place):
    done = nightlatch(place.url, "run", "plain", "--dry-run", "--timeout", "1m", "--", "touch", str(place.out))
    assert done.stdout.startswith("would run plain ") and not place.out.exists()
    assert not Path(place.url.removeprefix("sqlite:///")).exists(), "and no store is made"
    nightlatch(place.url, "run", "plain", "--timeout", "1m", "--", "true")
    missing = nightlatch(place.url, "show", "plain", "--plan")
    assert missing.returncode == 64 and "no plan of 'plain'" in missing.stderr


def test_a_plain_command_whose_key_is_done_would_be_skipped(tmp_path, ledger_url):
    words = ("run", "plain", "--key", "k", "--timeout", "1m")
    assert nightlatch(ledger_url, *words, "--", "true").returncode == 0
    done = nightlatch(ledger_url, *words, "--dry-run", "--", "true")
    assert done.returncode == 0 and done.stdout.startswith("would skip plain (key k): its key is done, by run ")
    assert nightlatch(ledger_url, *words, "--dry-run", "--again", "--", "true").stdout.startswith("would run plain ")


def test_a_plain_command_in_doubt_would_not_run(sqlite_url, tmp_path):
    words, ready = ("run", "plain", "--key", "k", "--timeout", "1m"), tmp_path / "ready"
    running = start(sqlite_url, *words, "--", "sh", "-c", f"touch {ready}; sleep 60")
    until(ready.exists)
    held = nightlatch(sqlite_url, *words, "--dry-run", "--", "true")
    assert held.returncode == 75 and "would not run: plain (k) is being worked on by " in held.stderr
    kill_all(sqlite_url)
    running.communicate()
    for _ in range(2):  # left behind by its holder; and in doubt, as the run has found it in between
        done = nightlatch(sqlite_url, *words, "--dry-run", "--", "true")
        assert done.returncode == 76 and "would not run: plain (k) is in doubt: " in done.stderr.replace("-", " ")
        assert "nightlatch resolve" in done.stderr
        assert nightlatch(sqlite_url, *words, "--", "true").returncode == 76


def test_show_of_a_job_shows_its_newest_run(place):
    for key in ("one", "two"):
        nightlatch(place.url, "run", "posts", "--key", key, "--timeout", "1m", "--", "true")
    newest = place.newest("posts")
    assert newest.key == "two"
    assert nightlatch(place.url, "show", "posts").stdout.startswith(f"run {newest.id} of posts: succeeded\n")
    assert "neither a run nor a job nor an effect 'pots'" in nightlatch(place.url, "show", "pots").stderr


@pytest.mark.parametrize(
    "read",
    [bool, str, len, list, hash, int, "{}".format, lambda it: it["id"], lambda it: it.id, lambda it: it == 1,
     lambda it: it != 1, lambda it: it < 1, lambda it: it + 1, lambda it: "a" + it, lambda it: 1 in it,
     lambda it: it(), lambda it: f"{it}", lambda it: f"{it:>3}"],
)  # fmt: skip
def test_reading_a_plan_raises(read):
    planned = Planned("post/1")
    with pytest.raises(OnlyPlanned, match="post/1 is not known"):
        read(planned)
    assert repr([planned]) == "[<Planned post/1>]"
