"""kill -9 of a whole batch at random moments, against a real server that counts: never a silent second effect.

NIGHTLATCH_ROUNDS=300 makes it a long one.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from nightlatch.ledger import open_for
from tests.faults import counting
from tests.programs import NIGHTLATCH, kill_all, nightlatch, start, until

ROUNDS = int(os.environ.get("NIGHTLATCH_ROUNDS", "50"))
LATENCY = 0.05  # seconds at most, before and after the effect: far below its deadline

CLIENT = [sys.executable, "-S", "-E", counting.__file__]


class Counting:
    """Effects by name. `dedups`: a request with a key that was seen before does nothing."""

    def __init__(self) -> None:
        self.effects: Counter[str] = Counter()
        self.dedups = False
        self.drops = False  # the effect happens, and the connection breaks before the reply
        self._keys: set[str] = set()
        self._lock = threading.Lock()
        chance, counting_server = random.Random(), self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                time.sleep(chance.uniform(0, LATENCY))
                counting_server.act(self.path[1:], self.headers["Idempotency-Key"])
                if counting_server.drops:
                    return
                time.sleep(chance.uniform(0, LATENCY))
                self.send_response(200)
                self.end_headers()

            def do_GET(self) -> None:
                self.send_response(200 if counting_server.effects[self.path[1:]] else 404)
                self.end_headers()

            def handle(self) -> None:
                try:
                    super().handle()
                except OSError:
                    pass  # its client was killed

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = str(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def act(self, name: str, key: str) -> None:
        with self._lock:
            if not self.dedups or key not in self._keys:
                self.effects[name] += 1
            self._keys.add(key)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Counting]:
    made = Counting()
    yield made
    made.close()


def items(folder: Path, count: int) -> str:
    path = folder / "items.jsonl"
    path.write_text("".join(json.dumps({"id": f"item-{number}"}) + "\n" for number in range(count)))
    return str(path)


def torment(store: str, rounds: int, *words: str) -> None:
    """Start it and kill all of it, again and again; then let it come to its end."""
    chance, window = random.Random(), 1.0
    for _ in range(rounds):
        mark = f"TORMENT={os.urandom(8).hex()}"
        name, _, text = mark.partition("=")
        process = start(store, *words, env={name: text}, start_new_session=True)
        deadline = time.monotonic() + chance.uniform(0.05, window)
        while time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.005)
        kill_all(mark)
        process.communicate()


def test_an_api_that_dedups_sees_each_item_once(sqlite_url, tmp_path, server):
    server.dedups = True
    path = items(tmp_path, 100)
    words = (
        "batch",
        "b",
        path,
        "--key",
        "{id}",
        "-j",
        "4",
        "--lost",
        "again",
        "--",
        *CLIENT,
        "post",
        server.port,
        "{id}",
    )
    torment(sqlite_url, ROUNDS * 2 // 5, *words)
    done = nightlatch(sqlite_url, *words)
    assert done.returncode == 0, done.stderr
    assert server.effects == {f"item-{number}": 1 for number in range(100)}
    assert not open_for(sqlite_url).verify().breaks


def test_a_token_blind_api_with_a_probe_sees_each_item_once(sqlite_url, tmp_path, server):
    count = 24
    path = items(tmp_path, count)
    probe = " ".join([*CLIENT, "probe", server.port, "{id}"])
    once = [
        *NIGHTLATCH,
        "once",
        "post/{id}",
        "--timeout",
        "600ms",
        "--settle",
        "300ms",
        "--wait",
        "20s",
        "--probe",
        probe,
    ]
    post = [*CLIENT, "post", server.port, "{id}"]
    words = ("batch", "b", path, "--key", "{id}", "-j", "4", "--lost", "again", "--", *once, "--", *post)
    torment(sqlite_url, ROUNDS * 3 // 10, *words)
    # On a loaded machine an effect may run into its short timeout: then it is in doubt, and probed by the next start.
    until(lambda: nightlatch(sqlite_url, *words).returncode == 0, timeout=60)
    assert server.effects == {f"item-{number}": 1 for number in range(count)}


def test_without_a_probe_each_item_is_done_at_most_once_and_the_rest_is_in_doubt(sqlite_url, tmp_path, server):
    path = items(tmp_path, 100)
    words = ("batch", "b", path, "--key", "{id}", "-j", "4", "--", *CLIENT, "post", server.port, "{id}")
    torment(sqlite_url, ROUNDS * 3 // 10, *words)
    done = nightlatch(sqlite_url, *words)
    in_doubt = {step.key for step in open_for(sqlite_url).steps.in_doubt("b")}
    time.sleep(LATENCY * 4)  # what killed clients had asked for has arrived
    assert done.returncode == (76 if in_doubt else 0), done.stderr
    for number in range(100):
        name = f"item-{number}"
        assert server.effects[name] == 1 or (name in in_doubt and server.effects[name] == 0), name


def test_once_killed_anywhere_acts_at_most_once(sqlite_url, server):
    words = ("once", "k", "--", *CLIENT, "post", server.port, "k")
    torment(sqlite_url, max(ROUNDS // 10, 3), *words)
    code = nightlatch(sqlite_url, *words).returncode
    time.sleep(LATENCY * 4)
    assert (code, server.effects["k"]) in ((0, 1), (76, 1), (76, 0))


def test_a_reply_lost_after_the_act_is_in_doubt_and_not_repeated(sqlite_url, server):
    server.drops = True
    words = ("once", "k", "--not-done", "7", "--", *CLIENT, "post", server.port, "k")
    assert [nightlatch(sqlite_url, *words).returncode for _ in range(3)] == [76, 76, 76]
    assert server.effects["k"] == 1
    probe = " ".join([*CLIENT, "probe", server.port, "k"])
    probed = nightlatch(sqlite_url, *words[:2], "--settle", "100ms", "--wait", "20s", "--probe", probe, *words[2:])
    assert probed.returncode == 0, probed.stderr
    assert server.effects["k"] == 1


def test_the_count_would_show_a_second_effect(sqlite_url, tmp_path, server):
    """The same client without Nightlatch, started again after its reply was lost: what the tests above would see."""
    server.drops = True
    for _ in range(2):
        nightlatch(sqlite_url, "lock", "naive", "--", *CLIENT, "post", server.port, "k")
    assert server.effects["k"] == 2
