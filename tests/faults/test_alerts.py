"""Every alert arrives, and each once at a receiver that drops known ids: with daemons that are killed at random and a
receiver that fails, hangs and answers 500 in turns. And the tally is the sum of what happened after any kill."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from nightlatch.ledger import open_for, tally
from nightlatch.store import url
from tests.support.ledgers import begun
from tests.support.receivers import http_receiver

ROUNDS = int(os.environ.get("NIGHTLATCH_ROUNDS", "1"))
EVENTS, JOBS, DAEMONS = 30 * ROUNDS, 5 * min(ROUNDS, 10), 3
PATIENCE = 90.0 + 30 * ROUNDS


def daemon(store: str, folder: Path, hook: str) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "tests.support.alert_daemon", store, str(folder), hook]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)


def test_every_alert_arrives_and_none_twice_whoever_is_killed(ledger_url, tmp_path):
    ledger = open_for(ledger_url)
    url.connect(ledger_url).read("nothing")
    list(ledger.runs())
    ledger.outbox.begin()
    rng = random.Random(7)
    hanging = threading.Event()

    def answer(number: int) -> int:
        turn = number % 5
        if turn == 1:
            hanging.wait(1.5)  # longer than the sender waits
        return 500 if turn == 2 else 200

    expected: set[str] = set()
    with http_receiver(answer) as receiver:
        daemons = [daemon(ledger_url, tmp_path / str(number), receiver.url) for number in range(DAEMONS)]
        try:
            for number in range(1, EVENTS + 1):
                job = f"job{rng.randrange(JOBS)}"
                ended = begun(ledger, number, key=str(number), job=job).finish("failed")
                expected.add(f"{ended.anchor.rsplit(':', 1)[0]}:failed")
                if number % 6 == 0:
                    victim = rng.randrange(DAEMONS)
                    daemons[victim].send_signal(signal.SIGKILL)
                    daemons[victim].wait()
                    daemons[victim] = daemon(ledger_url, tmp_path / str(victim), receiver.url)
            deadline = time.monotonic() + PATIENCE
            while time.monotonic() < deadline and not expected <= told(receiver.accepted):
                time.sleep(0.1)
        finally:
            hanging.set()
            for one in daemons:
                one.kill()
                one.wait()
    messages = {message["id"]: message for message in map(json.loads, receiver.accepted)}
    once = [alert["id"] for message in messages.values() for alert in message["alerts"]]
    assert expected == set(once) and len(once) == len(expected)


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
    list(ledger.runs())
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
