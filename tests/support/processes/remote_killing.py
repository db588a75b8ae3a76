"""Kills writers of an object or of a git branch at random points, takes over, looks at what they left, and goes on.

python -m tests.support.processes.remote_killing GATE PLACE ROUNDS SEED      prints one JSON object: what was found, by kind of damage

PLACE: the branch's repository on this disk; - for an object. Each writer has a token of its own, writes numbers in
order and acknowledges each through a pipe. It is killed, with every program it has started on its own side, somewhere
in its first three writes; what it sent may still be under way. Then the next holder seals: from there on nothing of
the killed one may land.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from nightlatch import gates
from nightlatch.core.model import Mark
from tests.support.clones import clone, commit
from tests.support.processes.killing import NAME, STORE, acknowledged, content, whole
from tests.support.programs import children


def mark_of(turn: int) -> Mark:
    return Mark(store=STORE, name=NAME, token=1000 + turn, grant=f"{turn:032d}")


class Object:
    def __init__(self, url: str, _: str) -> None:
        self.url = url

    def prepare(self) -> None:
        pass

    def write(self, gate: Any, turn: int, number: int) -> None:
        gate.write(mark_of(turn), b"%d %d\n%s" % (number, 1000 + turn, content(number)))

    def look(self, gate: Any) -> tuple[int, int, bool]:
        """(the newest number, its token, whether it is torn)"""
        if not gate.key():
            return -1, 0, False
        head, _, body = gate.read().partition(b"\n")
        number, token = map(int, head.split())
        return number, token, body != content(number) or not whole(body)


class Branch:
    def __init__(self, url: str, place: str) -> None:
        self.url, self.place = url, Path(place)
        self.folder = Path()

    def prepare(self) -> None:
        """A new clone: what a kill leaves in a work tree is not the gate's affair."""
        if self.folder.name:
            shutil.rmtree(self.folder.parent)
        self.folder = Path(tempfile.mkdtemp(dir=self.place.parent)) / "clone"
        clone(self.url.removeprefix("git+").partition("#")[0], self.folder)

    def write(self, gate: Any, turn: int, number: int) -> None:
        commit(self.folder, "page", content(number), str(number))
        gate.push(mark_of(turn), folder=str(self.folder))

    def look(self, gate: Any) -> tuple[int, int, bool]:
        shown = "%s %(trailers:key=Nightlatch-Token,valueonly,separator=)"
        argv = ["git", "-C", str(self.place), "log", "--reverse", f"--format={shown}", "main"]
        logged = subprocess.run(argv, capture_output=True, text=True)
        entries = [(int(number), int(token)) for number, token in map(str.split, logged.stdout.splitlines())]
        if not entries:
            return -1, 0, False
        page = subprocess.run(["git", "-C", self.place, "show", "main:page"], capture_output=True).stdout
        fine = subprocess.run(["git", "-C", self.place, "fsck", "--connectivity-only", "--no-dangling"]).returncode == 0
        in_order = [number for number, _ in entries] == list(range(len(entries)))
        tokens = [token for _, token in entries]
        return *entries[-1], not (fine and in_order and tokens == sorted(tokens) and page == content(len(entries) - 1))


def writer(target: Any, turn: int, first: int, pipe: int) -> None:
    gate: Any = gates.open(target.url)
    gate.standing()  # it has a connection
    os.write(pipe, b"\0" * 8)
    for number in range(first, first + 1000):
        target.write(gate, turn, number)
        os.write(pipe, number.to_bytes(8, "big"))


def kill(pid: int) -> None:
    """It and its programs at one moment; but no server, which only in this test has the same machine."""
    ours = [pid]
    for signum in (signal.SIGSTOP, signal.SIGKILL):
        for one in ours:
            try:
                if b"receive-pack" not in Path(f"/proc/{one}/cmdline").read_bytes():
                    os.kill(one, signum)
                    ours += [child for child in children(one) if child not in ours]
            except (FileNotFoundError, ProcessLookupError):
                pass  # it has ended by itself
    os.waitpid(pid, 0)


def takeover(target: Any, turn: int) -> dict[str, Any]:
    """The next holder seals and looks, in a process of its own: a client with threads does not outlive a fork."""
    hears, pipe = os.pipe()
    child = os.fork()
    if not child:
        gate: Any = gates.open(target.url)
        gate.seal(mark_of(turn + 1), "the next")
        number, token, torn = target.look(gate)
        marked = gate.standing()[NAME].mark.token
        os.write(pipe, json.dumps({"number": number, "token": token, "torn": torn, "marked": marked}).encode())
        os._exit(0)
    os.close(pipe)
    with open(hears) as said:
        found: dict[str, Any] = json.loads(said.read())
    os.waitpid(child, 0)
    return found


def main() -> None:
    url, place, rounds, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    chance = random.Random(seed)
    target: Any = Object(url, place) if place == "-" else Branch(url, place)
    found = {"torn": 0, "behind": 0, "lost": 0, "stale": 0, "kills": 0, "writes": 0}
    stands, window = takeover(target, -1)["number"], 0.1
    for turn in range(rounds):
        target.prepare()
        hears, pipe = os.pipe()
        child = os.fork()
        if not child:
            writer(target, turn, stands + 1, pipe)
            os._exit(1)
        os.close(pipe)
        os.read(hears, 8)
        last, started = -1, time.monotonic()
        for count in range(chance.randrange(3)):
            last = int.from_bytes(os.read(hears, 8), "big")
            window = (time.monotonic() - started) / (count + 1)  # of one write
        time.sleep(chance.uniform(0.0, window))
        kill(child)
        found["kills"] += 1
        now = takeover(target, turn)
        last = max(last, acknowledged(hears))
        os.close(hears)
        found["torn"] += now["torn"]
        found["stale"] += now["number"] > stands and now["token"] != 1000 + turn
        found["behind"] += now["marked"] < now["token"]
        found["lost"] += now["number"] < max(last, stands)
        found["writes"] += now["number"] - stands
        stands = now["number"]
    print(json.dumps(found))


def kill_writers(url: str, place: str, usual: int) -> None:
    """NIGHTLATCH_ROUNDS=100 makes it a long one."""
    rounds, seed = int(os.environ.get("NIGHTLATCH_ROUNDS", usual)), random.randrange(10**6)
    print(f"seed {seed}")
    killed = subprocess.run(
        [sys.executable, "-m", "tests.support.processes.remote_killing", url, place, str(rounds), str(seed)],
        text=True, capture_output=True, timeout=100 + rounds * 6, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert not killed.returncode, killed.stderr
    print(killed.stdout)
    found = json.loads(killed.stdout)
    assert {**found, "writes": 0} == {"torn": 0, "behind": 0, "lost": 0, "stale": 0, "kills": rounds, "writes": 0}, (
        found
    )
    assert found["writes"] > rounds // 3, "too few writes for a kill to hit one"


if __name__ == "__main__":
    main()
