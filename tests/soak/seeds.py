"""Seeds of the scheduler's simulator, one after another on one core: python -m tests.soak.seeds FIRST COUNT

The stores take turns; a seed is the same course wherever it is run. `python -m tests.soak.seeds SEED 1` replays one.
Exit 1 if a promise was broken.
"""

from __future__ import annotations

import gc
import random
import sys
import time

from tests.soak.found import Found
from tests.support.scheduling.simulation import KINDS, Simulation, Violation

_FAULTS = ("kill", "froze", "sleep", "clock", "edit", "upgrade")
_OFTEN = 500  # seeds between two lines about how far it is


def of(kind: str, chance: random.Random) -> int:
    """A seed whose course is on this kind of store."""
    return len(KINDS) * chance.randrange(10**9) + KINDS.index(kind)


def play(seed: int, found: Found) -> None:
    """A virtual day with many faults, or, one time in fifty, thirty days."""
    chance = random.Random(seed)
    machines, long = chance.choice((2, 3)), chance.random() < 0.02
    try:
        world = Simulation(
            seed, KINDS[seed % len(KINDS)], machines=machines, days=30.0 if long else 1.0,
            faults=1.0 if long else 2.0,
        ).run()  # fmt: skip
    except Violation as violation:
        found.violations.append(str(violation))
        return
    found.faults.update(word for line in world.course for word in _FAULTS if word in line)
    found.acknowledged += sum(world.acts.values())
    found.notes["seeds"] += 1


def main() -> int:
    first, count = map(int, sys.argv[1:])
    gc.set_threshold(100_000)  # a course makes many objects and hardly any garbage
    found, began = Found(), time.monotonic()
    for seed in range(first, first + count):
        broken = len(found.violations)
        play(seed, found)
        for violation in found.violations[broken:]:
            print(violation)
        if (seed + 1 - first) % _OFTEN == 0 or seed + 1 == first + count:
            each = (time.monotonic() - began) / (seed + 1 - first)
            print(
                f"seeds {first} to {seed}: {found.faults.total()} faults, {found.acknowledged} done, "
                f"{len(found.violations)} violations, {1000 * each:.0f} ms each",
                flush=True,
            )
    return bool(found.violations)


if __name__ == "__main__":
    sys.exit(main())
