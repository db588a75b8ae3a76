"""kill -9 of a whole batch at random moments, against a real server that counts: never a silent second effect.

NIGHTLATCH_ROUNDS=300 NIGHTLATCH_KEYS=200 makes it a long one: so many kills for each kind of API, each of them in a
batch of so many items that was unfinished. `pytest -s` shows the counts.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from pathlib import Path

from nightlatch.ledger import open_for
from tests.support.programs import NIGHTLATCH, kill_all, nightlatch, start, until
from tests.support.servers.counting import CLIENT, LATENCY, Counting

ROUNDS = int(os.environ.get("NIGHTLATCH_ROUNDS", "0"))
KEYS = int(os.environ.get("NIGHTLATCH_KEYS", "0"))


class Torment:
    """Starts a batch and kills all of it, again and again; one that came to its end is followed by the next."""

    def __init__(self, store: str, folder: Path, count: int, *words: str) -> None:
        self.store, self._folder, self._count, self._words = store, folder, KEYS or count, words
        self.batches = self.kills = 0

    def go(self, rounds: int) -> None:
        chance, rounds = random.Random(), ROUNDS or rounds
        self._begin()
        while self.kills < rounds:
            mark = f"TORMENT={os.urandom(8).hex()}"
            name, _, text = mark.partition("=")
            process = start(self.store, *self._command(self.batches - 1), env={name: text}, start_new_session=True)
            deadline = time.monotonic() + chance.uniform(0.05, 1.0)
            while time.monotonic() < deadline and process.poll() is None:
                time.sleep(0.005)
            if process.poll() is None:
                self.kills += 1
            kill_all(mark)
            process.communicate()
            if process.returncode >= 0:
                self._begin()

    def finish(self) -> None:
        """Let them come to their end. On a loaded machine an effect may run into its short timeout: then it is in
        doubt, and probed by the next start."""
        for batch in range(self.batches):
            until(lambda: nightlatch(self.store, *self._command(batch), timeout=300).returncode == 0, timeout=120)  # noqa: B023

    def names(self) -> list[str]:
        return [f"{batch}-{number}" for batch in range(self.batches) for number in range(self._count)]

    def in_doubt(self) -> set[str]:
        steps = open_for(self.store).items
        return {step.key for batch in range(self.batches) for step in steps.in_doubt(f"b{batch}")}

    def tell(self, server: Counting) -> None:
        seen = Counter(server.effects[name] for name in self.names())
        print(
            f"{self.kills} kills in {self.batches} batches of {self._count} items; items by how often they were done: "
            f"{dict(sorted(seen.items()))}; in doubt: {len(self.in_doubt())}"
        )

    def _begin(self) -> None:
        lines = (json.dumps({"id": f"{self.batches}-{number}"}) + "\n" for number in range(self._count))
        (self._folder / f"{self.batches}.jsonl").write_text("".join(lines))
        self.batches += 1

    def _command(self, batch: int) -> tuple[str, ...]:
        return ("batch", f"b{batch}", str(self._folder / f"{batch}.jsonl"), "--key", "{id}", "-j", "4", *self._words)


def test_an_api_that_dedups_sees_each_item_once(sqlite_url, tmp_path, server):
    server.dedups = True
    torment = Torment(sqlite_url, tmp_path, 100, "--lost", "again", "--", *CLIENT, "post", server.port, "{id}")
    torment.go(8)
    torment.finish()
    torment.tell(server)
    assert server.effects == dict.fromkeys(torment.names(), 1)
    assert not open_for(sqlite_url).journal.verify().breaks


def test_a_token_blind_api_with_a_probe_sees_each_item_once(sqlite_url, tmp_path, server):
    server.latency = 0.4  # below the deadline, and far above the time to settle
    probe = " ".join([*CLIENT, "probe", server.port, "{id}"])
    bounds = ("--timeout", "3s", "--settle", "10ms", "--wait", "50s")
    once = (*NIGHTLATCH, "once", "post/{id}", *bounds, "--probe", probe, "--", *CLIENT, "post", server.port, "{id}")
    torment = Torment(sqlite_url, tmp_path, 24, "--lost", "again", "--", *once)
    torment.go(6)
    torment.finish()
    torment.tell(server)
    assert server.effects == dict.fromkeys(torment.names(), 1)


def test_without_a_probe_each_item_is_done_at_most_once_and_the_rest_is_in_doubt(sqlite_url, tmp_path, server):
    torment = Torment(sqlite_url, tmp_path, 100, "--", *CLIENT, "post", server.port, "{id}")
    torment.go(6)
    for batch in range(torment.batches):
        assert nightlatch(sqlite_url, *torment._command(batch), timeout=300).returncode in (0, 76)
    time.sleep(LATENCY * 4)  # what killed clients had asked for has arrived
    torment.tell(server)
    in_doubt = torment.in_doubt()
    for name in torment.names():
        assert server.effects[name] == 1 or (name in in_doubt and server.effects[name] == 0), name


def test_once_killed_anywhere_acts_at_most_once(sqlite_url, server):
    words = ("once", "k", "--", *CLIENT, "post", server.port, "k")
    for _ in range(max(ROUNDS // 10, 5)):
        mark = os.urandom(8).hex()
        process = start(sqlite_url, *words, env={"TORMENT": mark}, start_new_session=True)
        time.sleep(random.uniform(0.02, 0.3))
        kill_all(mark)
        process.communicate()
    code = nightlatch(sqlite_url, *words).returncode
    time.sleep(LATENCY * 4)
    assert (code, server.effects["k"]) in ((0, 1), (76, 1), (76, 0))


def test_a_reply_lost_after_the_act_is_in_doubt_and_not_repeated(sqlite_url, server):
    server.drops = True
    words = ("once", "k", "--not-done", "7", "--", *CLIENT, "post", server.port, "k")
    assert [nightlatch(sqlite_url, *words).returncode for _ in range(3)] == [76, 76, 76]
    assert server.effects["k"] == 1
    probe = " ".join([*CLIENT, "probe", server.port, "k"])
    probed = nightlatch(sqlite_url, *words[:2], "--settle", "100ms", "--wait", "50s", "--probe", probe, *words[2:])
    assert probed.returncode == 0, probed.stderr
    assert server.effects["k"] == 1


def test_the_count_would_show_a_second_effect(sqlite_url, tmp_path, server):
    """The same client without Nightlatch, started again after its reply was lost: what the tests above would see."""
    server.drops = True
    for _ in range(2):
        nightlatch(sqlite_url, "lock", "naive", "--", *CLIENT, "post", server.port, "k")
    assert server.effects["k"] == 2
