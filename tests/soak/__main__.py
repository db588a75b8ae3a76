"""`make soak [SOAK=30m] [SEED=…] [ONLY=…]`: every store with every gate, and every command, under random faults.

A course is one pair, in a process of its own, for a slice of the time; a few run at once, round after round, until the
time is over. The seed decides the order of the courses, and in each of them the kind of each fault, at whom it is aimed
and for how long. What it cannot decide is where a program is in its work when a fault hits it, and when a server is
reached: a seed brings back the same faults, not the same interleaving. Exit code 1: a violation; its folders are kept.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from nightlatch.core import duration
from tests.soak import course
from tests.soak.found import Found
from tests.soak.servers import Servers, Weather
from tests.support.programs import kill_all

MARK = "SOAK_COURSE"  # in the environment of all that belongs to a course
PATIENCE = 400.0  # seconds more than its slice: a course that is not over by then hangs
SLICE = 40.0  # seconds of one course: its set stays small, and every pair has had its turn after a few minutes
ROOT = Path(__file__).parents[2]


class Soak:
    def __init__(self, names: list[str], seconds: float, seed: str, folder: Path, at_once: int, broken: str) -> None:
        self.names, self.seed, self.folder, self.at_once, self.broken = names, seed, folder, at_once, broken
        self.rows: dict[str, Found] = {name: Found() for name in names}
        self.kept: list[Path] = []
        self.running: dict[subprocess.Popen[bytes], tuple[str, Path, float]] = {}  # and when it has had enough time
        self.slice = min(SLICE, max(5.0, seconds * at_once / len(names)))
        self.deadline = time.monotonic() + seconds

    def run(self) -> None:
        servers = Servers(set().union(*map(course.needs, self.names)))
        try:
            weather = Weather(servers, self.seed, self.folder, self._in_use)
            try:
                for turn, name in enumerate(self._order()):
                    self._wait_for_room(self.at_once - 1)
                    if time.monotonic() >= self.deadline and turn >= len(self.names):
                        break
                    self._start(name, turn, servers.environment)
                self._wait_for_room(0)
            finally:
                weather.end()
                kill_all(f"{MARK}={self.folder}/")
        finally:
            servers.close()
        self.rows["servers"] = Found(faults=weather.faults)
        if weather.trouble:
            raise weather.trouble

    def _order(self):
        """Every course once in each round, in another order each time."""
        chance = random.Random(self.seed)
        while True:
            yield from chance.sample(self.names, len(self.names))

    def _start(self, name: str, turn: int, env: dict[str, str]) -> None:
        folder = self.folder / f"{turn:04d}-{name.replace('/', '-')}"
        mark = {MARK: f"{folder}/"}  # whatever is started from there has it, and is ended with it
        words = [name, str(folder), str(self.slice), f"{self.seed} {turn} {name}", self.broken]
        with open(folder.with_suffix(".stderr"), "wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.soak.course", *words],
                env={**os.environ, **env, **mark},
                cwd=ROOT,
                stderr=stderr,
            )
        self.running[process] = (name, folder, time.monotonic() + self.slice + PATIENCE)

    def _wait_for_room(self, most: int) -> None:
        while len(self.running) > most:
            time.sleep(0.05)
            for process, (name, folder, deadline) in list(self.running.items()):
                if process.poll() is not None or time.monotonic() > deadline:
                    kill_all(f"{MARK}={folder}/")
                    process.wait()
                    del self.running[process]
                    self._book(name, folder)

    def _book(self, name: str, folder: Path) -> None:
        result = folder / "found.json"
        found = Found.load(result) if result.exists() else Found(violations=["the course came to no end"])
        self.rows[name] += found
        if found.violations:
            self.kept.append(folder)
            print(f"VIOLATION {name}, kept in {folder}", *found.violations, sep="\n  ", flush=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)

    def _in_use(self) -> set[str]:
        return set().union(*(course.needs(name) for name, *_ in list(self.running.values())))


def table(rows: dict[str, Found]) -> str:
    kinds = ["stop", "kill", "clock", "cut"]
    lines = [["course", "faults", *kinds, "acknowledged", "refused", "unknown", "violations"]]
    total = Found()
    for name, found in [*rows.items(), ("", total)]:
        total += found
        shown = found if name else total
        figures = [sum(shown.faults.values()), *(shown.faults[kind] for kind in kinds), shown.acknowledged]
        figures += [shown.refused, shown.unknown, len(shown.violations)]
        lines.append([name or "all", *map(str, figures)])
    lines.insert(1, ["---", *["--:"] * (len(lines[0]) - 1)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--for", dest="time", default="30m", help="how long; every course has one slice at least")
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**6)))
    parser.add_argument("--only", default="*", help="patterns of courses, with commas: 'git/*,*/postgres'")
    parser.add_argument("--at-once", type=int, default=(os.cpu_count() or 1) + 1)
    parser.add_argument("--break", dest="broken", default="", choices=("fence", "memory"), help="see tests.soak.course")
    parser.add_argument("--list", action="store_true", help="print the names of all courses")
    given = parser.parse_args()
    patterns = given.only.split(",")
    wanted = [pattern if "/" in pattern or "*" in pattern else f"{pattern}/*" for pattern in patterns]
    names = [name for name in course.NAMES if any(fnmatch.fnmatch(name, pattern) for pattern in wanted)]
    if given.list or not names:
        print("\n".join(course.NAMES))
        return 0 if given.list else 64
    folder = Path(tempfile.mkdtemp(prefix="nightlatch-soak-"))
    began = time.monotonic()
    soak = Soak(names, duration.parse(given.time, what="--for"), given.seed, folder, given.at_once, given.broken)
    print(f"soak of {len(names)} courses for {given.time}: SEED={given.seed}", flush=True)
    soak.run()
    print(table(soak.rows))
    servers = ", ".join(f"{kind} {n}" for kind, n in sorted(soak.rows["servers"].faults.items()))
    ends = ", ".join(f"{end} {n}" for end, n in sorted(sum(soak.rows.values(), Found()).notes.items()))
    print(f"\nother ends, by exit code or error: {ends}")
    print(f"servers: {servers or 'none was hit'}; {time.monotonic() - began:.0f} s; SEED={given.seed}")
    if soak.kept:
        print("violations; the folders have the faults, what each caller said and did, and the stores:")
        print("\n".join(f"  {kept}" for kept in soak.kept))
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
