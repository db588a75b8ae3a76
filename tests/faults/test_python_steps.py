"""kill -9 of a Python job at random moments: between steps, in the middle of a map, in the middle of an effect.

NIGHTLATCH_ROUNDS=300 makes it a long one.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest

import nightlatch
from nightlatch.ledger import open_for
from tests.support.programs import kill_all, python, until
from tests.support.servers.counting import LATENCY

ROUNDS = int(os.environ.get("NIGHTLATCH_ROUNDS", "12"))
ITEMS = 24

JOBS = """
import os, sys, time, urllib.request, urllib.error
import nightlatch

LOG = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
BASE = f"http://127.0.0.1:{os.environ.get('PORT')}"

def note(*words):
    os.write(LOG, (" ".join(map(str, words)) + "\\n").encode())

def work(number):
    note("called", number)
    time.sleep(0.003)
    return number * number

@nightlatch.job(key="k", lost="again", ttl="20s")
def stepping():
    run = nightlatch.current()
    for number in range(200):
        assert run.step(f"step-{number}", work, number) == number * number
        note("recorded", number)

def handled(number):
    return nightlatch.current().step("one", work, number)

@nightlatch.job(key="k", lost="again", ttl="20s")
def queueing():
    for number in range(200):
        assert nightlatch.current().handle(f"m-{number}", handled, number) == number * number
        note("recorded", number)

@nightlatch.job(key="k", lost="again", ttl="20s")
def mapping():
    results = nightlatch.current().map(work, range(200), concurrency=4)
    assert results == [number * number for number in range(200)]

def ask(method, name, key=""):
    note(method, name)
    headers = nightlatch.idempotency_header(key) if key else {}
    request = urllib.request.Request(f"{BASE}/{name}", method=method, headers=headers, data=b"" if key else None)
    with urllib.request.urlopen(request, timeout=10) as reply:
        return reply.status

def is_posted(name):
    try:
        return ask("GET", name) == 200
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return False
        raise

@nightlatch.job(key="k", lost="again", ttl="20s")
def posting(probes):
    run = nightlatch.current()

    def post(name):
        return run.effect(
            "post", key=name, do=lambda: ask("POST", name, f"post/{name}"), deadline="3s", settle="10ms",
            probe=(lambda: is_posted(name)) if probes else None,
        )

    run.map(post, [f"item-{number}" for number in range(24)], concurrency=4)
"""


class Torment:
    """A job that is started and killed, all of it, again and again; then it may come to its end."""

    def __init__(self, folder: Path, store: str, port: str = "0") -> None:
        self.folder, self.store, self.log = folder, store, folder / "log"
        (folder / "nightly.py").write_text(JOBS)
        self.log.touch()
        self._env = {"LOG": str(self.log), "PORT": port, "PYTHONPATH": str(folder)}

    def start(self, call: str, **env: str):
        program = (
            f"import nightlatch, nightly\ntry:\n    print(nightly.{call}.status)\n"
            f"except nightlatch.Error as error:\n    print(type(error).__name__)"
        )
        return python(self.store, program, cwd=self.folder, env={**self._env, **env}, start_new_session=True)

    def kill(self, call: str, rounds: int, window: float) -> None:
        chance = random.Random()
        for _ in range(rounds):
            mark = f"TORMENT={os.urandom(8).hex()}"
            process = self.start(call, TORMENT=mark.partition("=")[2])
            said = self.log.stat().st_size
            until(lambda: self.log.stat().st_size > said or process.poll() is not None)  # noqa: B023 - used at once
            time.sleep(chance.uniform(0.0, window))
            kill_all(mark)
            process.communicate()

    def end(self, call: str, *statuses: str) -> str:
        """Start it until it ends in one of these ways."""

        def ended() -> str:
            said = self.start(call).communicate(timeout=90)[0].split()[-1:]
            return said[0] if said and said[0] in statuses else ""

        return until(ended, timeout=120)


@pytest.mark.parametrize("job", ["stepping", "queueing"])
def test_a_recorded_step_is_never_called_again(sqlite_url, tmp_path, job):
    """Nor is a run inside a run that has ended."""
    torment = Torment(tmp_path, sqlite_url)
    torment.kill(f"{job}.run()", max(ROUNDS // 3, 5), 0.15)
    assert torment.end(f"{job}.run()", "succeeded", "skipped")
    recorded = set()
    for line in torment.log.read_text().splitlines():
        word, number = line.split()
        if word == "recorded":
            recorded.add(number)
        else:
            assert number not in recorded, f"step {number} was called again"
    assert len(recorded) == 200
    assert not open_for(sqlite_url).journal.verify().breaks


def test_a_map_killed_anywhere_comes_to_its_end(sqlite_url, tmp_path):
    torment = Torment(tmp_path, sqlite_url)
    rounds = max(ROUNDS // 3, 5)
    torment.kill("mapping.run()", rounds, 0.05)
    assert torment.end("mapping.run()", "succeeded", "skipped")
    calls = Counter(torment.log.read_text().split("\n"))
    assert all(calls[f"called {number}"] for number in range(200))
    # Only what was in flight when an attempt died is called again: at most four at each death.
    assert sum(calls[f"called {number}"] - 1 for number in range(200)) <= 4 * rounds


def test_with_a_probe_each_effect_is_done_exactly_once(sqlite_url, tmp_path, server):
    server.latency = 0.4  # below the deadline, and far above the time to settle
    torment = Torment(tmp_path, sqlite_url, server.port)
    torment.kill("posting.run(True)", max(ROUNDS // 3, 5), 0.2)
    assert torment.end("posting.run(True)", "succeeded", "skipped")
    assert server.effects == {f"item-{number}": 1 for number in range(ITEMS)}


def test_without_a_probe_each_effect_is_done_at_most_once_and_the_rest_is_in_doubt(sqlite_url, tmp_path, server):
    torment = Torment(tmp_path, sqlite_url, server.port)
    torment.kill("posting.run(False)", max(ROUNDS // 5, 3), 0.15)
    torment.end("posting.run(False)", "succeeded", "skipped", "needs-attention", "InDoubt")
    time.sleep(LATENCY * 4)  # what killed clients had asked for has arrived
    effects = {effect.key: effect.status for effect in open_for(sqlite_url).effects.every()}
    for number in range(ITEMS):
        name = f"item-{number}"
        status = effects.get(f"post/{name}", "")
        assert server.effects[name] == (1 if status == "done" else server.effects[name] and status == "in-doubt"), name


@pytest.mark.parametrize("after", [3, 30])
def test_a_writer_that_was_overtaken_is_refused_and_stops(sqlite_url, tmp_path, after):
    """The lease is taken from a job in the middle of its steps, which the supervisor writes or, later, the job itself:
    nothing that it does after that is recorded."""
    torment = Torment(tmp_path, sqlite_url)
    running = torment.start("stepping.run()")
    until(lambda: f"recorded {after}" in torment.log.read_text())
    book, store = open_for(sqlite_url), nightlatch.connect(sqlite_url)
    run = book.find("stepping", "k")
    assert run
    # As the next holder does it: a higher token, then the seal.
    store.evict("stepping")
    granted = store.acquire("stepping", "f" * 32, run.holder, 60.0)
    writer = book.seal(run.id, token=granted.token, grant="f" * 32, holder=run.holder)
    before = len(list(book.step_log.entries(run.id)))
    assert running.communicate(timeout=60)[0].split()[-1:] != ["succeeded"]
    assert len(list(book.step_log.entries(run.id))) == before
    writer.finish("failed", exit_code=1)
