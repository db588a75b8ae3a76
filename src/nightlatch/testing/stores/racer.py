"""A process that acquires and releases a lease again and again, and says which tokens it got."""

from __future__ import annotations

import os
import subprocess
import sys


def race(opener: str, name: str, *, processes: int, rounds: int, seconds: float) -> list[list[int]]:
    """The tokens each process got, in its own order."""
    words = [sys.executable, "-c", f"from {__name__} import main; main()", opener, name, str(rounds), str(seconds)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    pipe = subprocess.PIPE
    racers = [subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, env=env) for _ in range(processes)]
    try:
        for racer in racers:
            assert racer.stdout and racer.stdout.readline() == "ready\n", "another process could not open the store"
        for racer in racers:
            assert racer.stdin
            racer.stdin.close()  # the starting gun
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
    return [[int(token) for token in text.split()] for text in found]


def main() -> None:
    from ...errors import Busy
    from ...system import clock, identity

    opener, name, rounds, seconds = sys.argv[1:]
    store = eval(opener)  # noqa: S307  the suite's own words
    store.read(name)
    print("ready", flush=True)
    sys.stdin.read()
    deadline = clock.now() + float(seconds)
    had = 0
    while had < int(rounds) and clock.now() < deadline:
        grant = identity.new_id()
        try:
            granted = store.acquire(name, grant, identity.holder(pid=0), 60.0)
        except Busy:
            clock.sleep(store.poll_every)
            continue
        print(granted.token, flush=True)
        store.release(name, grant)
        had += 1
    store.close()
