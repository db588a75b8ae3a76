"""One course in a process of its own: python -m tests.soak.course NAME FOLDER SECONDS SEED [BROKEN]

NAME is STORE/GATE (the guarded set) or KIND/STORE (commands). What was found is in FOLDER/found.json. BROKEN is the
promise that is not kept, so that a test sees whether the checker notices: `fence` (the set is written past its gate;
a file only) or `memory` (a git store loses its done keys).
"""

from __future__ import annotations

import gc
import os
import random
import sys
import time
import traceback
from pathlib import Path

from tests.soak import commands, seeds
from tests.soak.found import Found, crashes
from tests.soak.places import GATES, STORES, TTL, Place, place
from tests.support.scheduling import simulation
from tests.support.workloads import guarded_set
from tests.support.workloads.shared_sets import Setup

SCHEDULER = "scheduler"  # simulated: one seed after another

NAMES = [f"{store}/{gate}" for store in STORES for gate in GATES]
NAMES += [f"{kind}/{store}" for kind in commands.KINDS for store in STORES]
NAMES += [f"{SCHEDULER}/{kind}" for kind in simulation.KINDS]


def needs(name: str) -> set[str]:
    """The shared servers that it uses."""
    return set() if name.startswith(f"{SCHEDULER}/") else set(name.split("/")) & {"postgres", "object"}


def guarded(store: str, gate: str, where: Place, seconds: float, seed: str, *, fenced: bool) -> Found:
    setup = Setup(
        where.store(store), fenced=fenced, ttl=max(TTL[store], TTL[gate]),
        seed=random.Random(seed).randrange(10**9), target=where.target(gate),
        homes=where.homes,
    )  # fmt: skip
    course = guarded_set.run(
        setup, where.folder / "set", seconds=seconds, cut=where.lose_reply if "git" in (store, gate) else None
    )
    found = Found(acknowledged=len(course.added), refused=len(course.refused), violations=course.violations)
    found.violations += crashes([where.folder / "set" / "stderr"])
    found.faults.update({"stop": course.stops, "kill": course.kills, "clock": course.steps, "cut": course.cuts})
    found.notes.update({**course.without, "died": course.died})
    found.unknown = sum(course.without.values())
    return found


def simulated(kind: str, seconds: float, seed: str) -> Found:
    """Seeds of the scheduler's simulator until the time is over."""
    found, chance, over = Found(), random.Random(seed), time.monotonic() + seconds
    gc.set_threshold(100_000)  # a course makes many objects and hardly any garbage
    while time.monotonic() < over and not found.violations:
        seeds.play(seeds.of(kind, chance), found)
    return found


def main() -> None:
    name, folder, seconds, seed = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
    broken = sys.argv[5] if len(sys.argv) > 5 else ""
    first, second = name.split("/")
    for name, part in (("XDG_STATE_HOME", "state"), ("TMPDIR", "tmp")):  # what the killed leave goes with the course
        (folder / part).mkdir(parents=True)
        os.environ[name] = str(folder / part)
    try:
        with place(folder) as where:
            if first == SCHEDULER:
                found = simulated(second, seconds, seed)
            elif first in commands.KINDS:
                found = commands.Course(first, second, where, seed, forgetful=broken == "memory").run(seconds)
            else:
                found = guarded(first, second, where, seconds, seed, fenced=broken != "fence")
    except Exception:  # noqa: BLE001 - a course that cannot be judged is a finding too
        found = Found(violations=[f"the course broke:\n{traceback.format_exc()}"])
    found.save(folder / "found.json")


if __name__ == "__main__":
    main()
