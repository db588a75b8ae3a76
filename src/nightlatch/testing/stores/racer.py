"""A process that acquires and releases a lease again and again, and prints the tokens that it got."""

from __future__ import annotations

import os
import subprocess
import sys

_PAUSE = 0.05  # seconds to let another process have its turn: otherwise one could have all its turns in a row


def race(opener: str, name: str, *, processes: int, rounds: int, seconds: float) -> list[int]:
    """Every token that was granted, in the order of the grants."""
    words = [sys.executable, "-c", f"from {__name__} import main; main()", opener, name, str(rounds), str(seconds)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    pipe = subprocess.PIPE
    racers = [subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, env=env) for _ in range(processes)]
    try:
        for racer in racers:
            assert racer.stdout and racer.stdout.readline() == "ready\n", "another process could not open the store"
        for racer in racers:
            assert racer.stdin
            racer.stdin.close()  # the signal to start
            racer.stdin = None
        found = [racer.communicate(timeout=seconds + 30)[0] for racer in racers]
    finally:
        for racer in racers:
            racer.kill()
            racer.wait()
            for stream in (racer.stdin, racer.stdout):
                if stream:
                    stream.close()
    assert [racer.returncode for racer in racers] == [0] * processes
    grants = [line.split() for text in found for line in text.splitlines()]
    return [int(token) for _, token in sorted((float(when), token) for when, token in grants)]


def main() -> None:
    from ...errors import Busy
    from ...system import clock, identity

    opener, name, rounds, seconds = sys.argv[1:]
    store = eval(opener)  # noqa: S307  written by the suite's author
    store.read(name)
    print("ready", flush=True)
    sys.stdin.read()
    deadline = clock.now() + float(seconds)
    turns = 0
    while turns < int(rounds) and clock.now() < deadline:
        grant = identity.new_id()
        try:
            granted = store.acquire(name, grant, identity.holder(pid=0), 60.0)
        except Busy:
            clock.sleep(0.01)
            continue
        print(clock.now(), granted.token, flush=True)  # under the lease, so the times have the order of the grants
        store.release(name, grant)
        turns += 1
        turn_ends = clock.now() + _PAUSE
        while clock.now() < turn_ends and store.read(name).token == granted.token:
            clock.sleep(0.001)
    store.close()
