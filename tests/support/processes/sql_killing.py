"""Kills writers of a SQL gate at random points, takes over, looks at what they left, and goes on from there.

python sql_killing.py GATE ROUNDS SEED      prints one JSON object: what was found, by kind of damage

Each writer has a token of its own and writes numbers in order, each into two tables in one transaction, and
acknowledges it through a pipe. It is forked from here, so that a round takes milliseconds, and killed somewhere
in its first three writes. Then the next holder seals: from there on nothing of the killed one may land.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from contextlib import closing

from nightlatch import gates
from nightlatch.core.model import Mark
from tests.support.processes.killing import NAME, STORE, acknowledged
from tests.support.sql_target import connect


def mark_of(turn: int) -> Mark:
    return Mark(store=STORE, name=NAME, token=1000 + turn, grant=f"{turn:032d}")


def writer(gate: gates.Sql, turn: int, first: int, pipe: int) -> None:
    connection = connect(gate)
    os.write(pipe, b"\0" * 8)
    for number in range(first, first + 1000):
        with gate.transaction(connection, mark_of(turn)):
            connection.execute(f"INSERT INTO entry VALUES ({number}, {1000 + turn})")
            connection.execute(f"UPDATE total SET number = {number}")
        os.write(pipe, number.to_bytes(8, "big"))


def look(gate: gates.Sql) -> tuple[list[tuple[int, int]], int]:
    """(number and token of every entry, the total)"""
    with closing(connect(gate)) as connection:
        entries = connection.execute("SELECT number, token FROM entry ORDER BY number").fetchall()
        (total,) = connection.execute("SELECT number FROM total").fetchone()
        return entries, total


def main() -> None:
    url, rounds, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    chance = random.Random(seed)
    gate = gates.Sql.from_url(url)
    gate.seal(mark_of(0), "the first")
    found = {"torn": 0, "behind": 0, "lost": 0, "stale": 0, "kills": 0, "writes": 0}
    entries: list[tuple[int, int]] = []
    for turn in range(rounds):
        hears, pipe = os.pipe()
        child = os.fork()
        if not child:
            writer(gate, turn, len(entries), pipe)
            os._exit(1)
        os.close(pipe)
        os.read(hears, 8)  # it is connected, and about to write
        last = -1
        for _ in range(chance.randrange(3)):
            last = int.from_bytes(os.read(hears, 8), "big")
        time.sleep(chance.uniform(0.0, 0.004))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        found["kills"] += 1
        gate.seal(mark_of(turn + 1), "the next")
        last = max(last, acknowledged(hears))
        os.close(hears)
        before, (entries, total) = entries, look(gate)
        new = entries[len(before) :]
        found["stale"] += entries[: len(before)] != before or any(token != 1000 + turn for _, token in new)
        found["torn"] += [number for number, _ in entries] != list(range(total + 1))
        found["behind"] += bool(entries) and gate.standing()[NAME].mark.token < entries[-1][1]
        found["lost"] += total < last
        found["writes"] += len(new)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
