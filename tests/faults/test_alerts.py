"""Every alert arrives, and each once at a receiver that drops known ids: with daemons that are killed at random and a
receiver that fails, hangs and answers 500 in turns. And the tally is the sum of what happened after any kill."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from nightlatch.ledger import open_for, tally
from nightlatch.store import url
from tests.support.programs import until
from tests.support.receivers import http_receiver
from tests.support.servers.postgres import PostgresServer

ROUNDS = int(os.environ.get("NIGHTLATCH_ROUNDS", "1"))
EVENTS, JOBS, DAEMONS = 30 * ROUNDS, 5 * min(ROUNDS, 10), 3
STOPPED = 2.0 if ROUNDS == 1 else 120.0  # seconds


def daemon(store: str, folder: Path, hook: str) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "tests.support.alert_daemon", store, str(folder), hook]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)


RUN = """
import random, sys
from nightlatch.ledger import open_for
from tests.support.ledgers import begun
ledger, rng = open_for(sys.argv[1]), random.Random(sys.argv[2])
for line in sys.stdin:
    number = int(line)
    begun(ledger, number, key=str(number), job=f"job{rng.randrange(int(sys.argv[3]))}").finish("failed")
    print(number, flush=True)
"""


def run(store: str, seed: int) -> subprocess.Popen[str]:
    """A process that lets a run fail for each line it is sent."""
    words = [sys.executable, "-c", RUN, store, str(seed), str(JOBS)]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_every_alert_arrives_and_none_twice_whoever_is_killed(ledger_url, tmp_path):
    ledger = open_for(ledger_url)
    url.connect(ledger_url).read("nothing")
    list(ledger.history.runs())
    ledger.outbox.reader.begin()
    rng = random.Random(7)
    hanging = threading.Event()

    def answer(number: int) -> int:
        turn = number % 5
        if turn == 1:
            hanging.wait(1.5)  # longer than the sender waits
        return 500 if turn == 2 else 200

    worker = run(ledger_url, 0)
    with http_receiver(answer) as receiver:
        daemons = [daemon(ledger_url, tmp_path / str(number), receiver.url) for number in range(DAEMONS)]
        try:
            for number in range(1, EVENTS + 1):
                assert worker.stdin
                worker.stdin.write(f"{number}\n")
                worker.stdin.flush()
                if number % 11 == 0:
                    time.sleep(rng.random() / 50)  # somewhere in the middle of it
                    worker.kill()
                    worker.communicate()
                    worker = run(ledger_url, number)
                else:
                    assert worker.stdout
                    assert worker.stdout.readline() == f"{number}\n"
                if number % 6 == 0:
                    victim = rng.randrange(DAEMONS)
                    daemons[victim].send_signal(signal.SIGKILL)
                    daemons[victim].wait()
                    daemons[victim] = daemon(ledger_url, tmp_path / str(victim), receiver.url)
            expected = {
                f"{one.anchor.rsplit(':', 1)[0]}:failed" for one in ledger.history.runs(status="failed", limit=EVENTS)
            }
            assert len(expected) >= EVENTS * 10 // 11
            last, began = len(told(receiver.accepted)), time.monotonic()
            while not expected <= told(receiver.accepted):
                if (now := len(told(receiver.accepted))) > last:
                    last, began = now, time.monotonic()
                assert time.monotonic() - began < 60, "nothing has arrived for a minute"
                time.sleep(0.1)
        finally:
            hanging.set()
            worker.kill()
            worker.communicate()
            for one in daemons:
                one.kill()
                one.wait()
    messages = {message["id"]: message for message in map(json.loads, receiver.accepted)}
    once = [alert["id"] for message in messages.values() for alert in message["alerts"]]
    assert len(once) == len(set(once))
    assert {id_ for id_ in once if id_.endswith(":failed")} == expected


@contextmanager
def server_stopped(store: str) -> Iterator[None]:
    server = SERVERS[store]
    server.stop()
    yield
    server.start()


@contextmanager
def file_locked(store: str) -> Iterator[None]:
    """Another program's transaction is open: everything can be read, and nothing written."""
    with closing(sqlite3.connect(store.removeprefix("sqlite:///"), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


@contextmanager
def ledger_locked(store: str) -> Iterator[None]:
    with file_locked(store.replace(".db", "-ledger.db")):
        yield


@contextmanager
def folder_moved_away(store: str) -> Iterator[None]:
    """As a disk that is not mounted. Nothing makes the folder again."""
    folder = Path(store.removeprefix("sqlite:///")).parent
    folder.rename(away := folder.with_name("away"))
    yield
    away.rename(folder)


@contextmanager
def file_moved_away(store: str) -> Iterator[None]:
    """The ledger is there, and its store is not."""
    file = Path(store.removeprefix("sqlite:///"))
    file.rename(away := file.with_name("away"))
    yield
    away.rename(file)


SERVERS: dict[str, PostgresServer] = {}


def test_a_store_that_was_stopped_is_told_once_and_its_return_once(tmp_path):
    """In each way that a store can be stopped, side by side."""
    server = PostgresServer()
    SERVERS[server.url()] = server
    stopped = {server.url(): server_stopped}
    for how in (file_locked, ledger_locked, folder_moved_away, file_moved_away):
        stopped[f"sqlite:///{tmp_path}/{how.__name__}/store/nightlatch.db"] = how
    alerts: dict[str, subprocess.Popen[bytes]] = {}
    for store in stopped:
        url.connect(store).read("nothing")
        ledger = open_for(store)
        ledger.outbox.reader.begin()
        ledger.close()
    with ExitStack() as receivers:
        told_by = {store: receivers.enter_context(http_receiver()) for store in stopped}

        def restart() -> None:
            end()
            for store, how in stopped.items():
                alerts[store] = daemon(store, tmp_path / how.__name__ / "alerts", told_by[store].url)

        def end() -> None:
            for one in alerts.values():
                one.kill()
                one.wait()

        restart()
        try:
            with ExitStack() as away:
                for store, how in stopped.items():
                    away.enter_context(how(store))
                until(lambda: all(told(one.accepted) for one in told_by.values()), timeout=150)
                restart()
                time.sleep(STOPPED)
            restart()
            until(lambda: all(len(told(one.accepted)) > 1 for one in told_by.values()), timeout=150)
            restart()
            time.sleep(1.0)
        finally:
            end()
            server.remove()
    for store, receiver in told_by.items():
        rules = {alert["id"]: alert["rule"] for body in receiver.accepted for alert in json.loads(body)["alerts"]}
        assert list(rules.values()) == ["store-away", "recovered"], store
        assert len(receiver.accepted) <= 4  # each again, with the same id, if the daemon was killed right after it


def told(bodies: list[bytes]) -> set[str]:
    return {alert["id"] for body in list(bodies) for alert in json.loads(body)["alerts"]}


WORKER = """
import sys
from nightlatch.ledger import open_for
from tests.support.ledgers import ME
ledger, token = open_for(sys.argv[1]), int(sys.argv[2])
while True:
    for key in range(3):
        token += 1
        run = ledger.open_run("job", str(key), again=True)
        writer = ledger.seal(run.id, token=token, grant=f"g{token}", holder=ME)
        writer.usage({"model": "large", "tag": f"site={key}"}, usd=0.001 * key, tokens=key)
        writer.progress(key, 3)
        writer.finish("succeeded" if key else "failed", elapsed=0.01)
        print(token, flush=True)
"""


def test_the_tally_is_the_sum_of_attempts_and_usage_after_any_kill(ledger_url):
    ledger = open_for(ledger_url)
    list(ledger.history.runs())
    rng, token = random.Random(11), 0
    for _ in range(4 * ROUNDS):
        worker = subprocess.Popen([sys.executable, "-c", WORKER, ledger_url, str(token)], stdout=subprocess.PIPE)
        assert worker.stdout
        for _ in range(rng.randrange(1, 12)):
            token = int(worker.stdout.readline() or token)
        time.sleep(rng.random() / 100)
        worker.kill()
        worker.communicate()
        token += 10_000  # above whatever it had begun
    read = ledger._tables.read
    ended = "FROM {prefix}attempt AS attempt WHERE attempt.status <> 'running'"
    ((attempts, milliseconds),) = read(f"SELECT COUNT(*), CAST(SUM(attempt.elapsed) AS BIGINT) {ended}")
    used = (
        "SELECT CAST(SUM(used.usd) AS BIGINT), CAST(SUM(used.tokens) AS BIGINT) FROM {prefix}usage AS used JOIN "
        "{prefix}attempt AS attempt ON attempt.run = used.run AND attempt.attempt = used.attempt "
        "WHERE attempt.status <> 'running'"
    )
    ((usd, tokens),) = read(used)
    (whole,) = tally.report(ledger._tables, (), running=False)
    assert (whole.attempts, round(whole.elapsed * 1000)) == (attempts, milliseconds)
    assert (round(whole.amounts.usd * 10**9), whole.amounts.tokens) == (usd, tokens)
    by_status = {row.status: row.attempts for row in tally.report(ledger._tables, ("status",), running=False)}
    rows = read("SELECT status, COUNT(*) FROM {prefix}attempt WHERE status <> 'running' GROUP BY status")
    assert by_status == {status: count for status, count in rows}
