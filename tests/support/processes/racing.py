"""Two publishers race for one file, again and again; whatever the order, the higher token's content must stand.

python racing.py TARGET ROUNDS      prints one JSON object

Each round has two new tokens. Both publishers are let go at once; when both are through, the file is read.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from nightlatch import gates
from nightlatch.core.model import Mark
from nightlatch.errors import StaleToken


def publisher(target: str, which: int, go: int, through: int) -> None:
    gate = gates.File(target)
    while turn := os.read(go, 8):
        # The one with the higher token changes every round.
        token = 1000 + 2 * int.from_bytes(turn, "big") + (which + turn[-1]) % 2
        mark = Mark(store="5" * 32, name="job", token=token, grant=f"{token:032d}")
        try:
            gate.write(mark, str(token).encode())
            os.write(through, b"w")
        except StaleToken:
            os.write(through, b"r")


def main() -> None:
    target, rounds = sys.argv[1], int(sys.argv[2])
    ways: list[tuple[int, int]] = []
    for which in (0, 1):
        (go, let_go), (hears, through) = os.pipe(), os.pipe()
        if not os.fork():
            os.close(let_go)
            for other, _ in ways:
                os.close(other)
            publisher(target, which, go, through)
            os._exit(0)
        os.close(go)
        os.close(through)
        ways.append((let_go, hears))
    found = {"rounds": rounds, "lower_stood": 0, "refused": 0, "higher_refused": 0}
    for turn in range(rounds):
        for let_go, _ in ways:
            os.write(let_go, turn.to_bytes(8, "big"))
        outcomes = [os.read(hears, 1) for _, hears in ways]
        higher = 0 if turn % 2 else 1
        found["lower_stood"] += int(Path(target).read_bytes()) != 1001 + 2 * turn
        found["refused"] += outcomes.count(b"r")
        found["higher_refused"] += outcomes[higher] == b"r"
    print(json.dumps(found))


if __name__ == "__main__":
    main()
