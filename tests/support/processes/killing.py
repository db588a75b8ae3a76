"""Kills a writer at random points, looks at what it left, and goes on from there.

python killing.py KIND FOLDER ROUNDS SEED      prints one JSON object: what was found, by kind of damage

A writer is forked from here, so that a round takes milliseconds. It writes numbers in order, with a new
token every third time, and acknowledges each through a pipe. It is killed after none, one or two of them, and some
part of a write: however busy the machine is, it has come to writing.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

from nightlatch import gates
from nightlatch.core.model import Mark

STORE, NAME = "5" * 32, "job"
BODY = 60_000


def content(number: int) -> bytes:
    body = str(number).encode() * (BODY // len(str(number)))
    return f"{number} {token_of(number)} {hashlib.sha256(body).hexdigest()}\n".encode() + body


def token_of(number: int) -> int:
    return 1000 + number // 3


def whole(found: bytes) -> bool:
    head, _, body = found.partition(b"\n")
    return head.split()[2].decode() == hashlib.sha256(body).hexdigest()


def write(gate: Any, folder: Path, number: int) -> None:
    mark = Mark(store=STORE, name=NAME, token=token_of(number), grant=f"{token_of(number):032d}")
    if isinstance(gate, gates.File):
        gate.write(mark, content(number))
        return
    source = folder / "source"
    source.mkdir(exist_ok=True)
    for name in ("page", "again"):
        (source / name).write_bytes(content(number))
    gate.publish(mark, source)


def writer(gate: Any, folder: Path, first: int, pipe: int) -> None:
    for number in range(first, first + 1000):
        write(gate, folder, number)
        os.write(pipe, number.to_bytes(8, "big"))


def acknowledged(pipe: int, last: int = -1) -> int:
    """The last number that was acknowledged; `last` if none was since."""
    os.set_blocking(pipe, False)
    try:
        heard = os.read(pipe, 1 << 16)
    except BlockingIOError:
        heard = b""
    return int.from_bytes(heard[-8:], "big") if heard else last


def left_behind(folder: Path) -> set[str]:
    """What only one that was killed in the middle leaves."""
    releases = folder / "target.releases"
    unfinished = {name for name in os.listdir(releases) if name.startswith("new.")} if releases.exists() else set()
    hidden = {
        name for name in os.listdir(folder / ".target.nightlatch") if not name.startswith(("landing.", "before."))
    }
    return hidden - {"marks", "lock"} | unfinished


def main() -> None:
    kind, folder, rounds, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    chance = random.Random(seed)
    target = folder / "target"
    gate = gates.File(target) if kind == "file" else gates.Folder(target, keep=2)
    found = {"torn": 0, "behind": 0, "lost": 0, "kills": 0, "caught": 0, "left": 0}
    started = time.monotonic()
    for number in range(6):
        write(gate, folder, number)
    window = (time.monotonic() - started) / 6  # of one write
    number = 6
    for _ in range(rounds):
        hears, pipe = os.pipe()
        child = os.fork()
        if not child:
            writer(gate, folder, number, pipe)
            os._exit(1)
        os.close(pipe)
        last, before = -1, left_behind(folder)
        for _ in range(chance.randrange(3)):
            last = int.from_bytes(os.read(hears, 8), "big")
        time.sleep(chance.uniform(0.0, window))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        found["kills"] += 1
        last = acknowledged(hears, last)
        os.close(hears)
        pages = [target] if kind == "file" else [target / "page", target / "again"]
        contents = [page.read_bytes() for page in pages]
        found["torn"] += not all(map(whole, contents)) or len(set(contents)) > 1
        stands, token = (int(word) for word in contents[0].partition(b"\n")[0].split()[:2])
        found["behind"] += gate.standing()[NAME].mark.token < token
        found["lost"] += stands < last
        found["caught"] += bool(left_behind(folder) - before) or stands > max(last, number - 1)
        number = stands + 1
    # After the next holder's seal nothing of the killed ones is left but whole releases.
    write(gate, folder, number)
    gate.seal(Mark(store=STORE, name=NAME, token=10**9, grant="9" * 32), "the next")
    found["left"] = len(left_behind(folder))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
