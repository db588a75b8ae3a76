"""What the contestants of the overnight trial run. Small and quick to start: `python -S -E`.

post PORT NAME [NIGHTLATCH …]  one item: 0 done, 75 the server said to come later (reported), 56 no reply
probe PORT NAME                was it done? 0 yes, 1 no, 2 not known
naive PORT BATCH COUNT         all items, one after the other; the first error ends it
retrying PORT BATCH COUNT      the same, each request tried up to six times, Retry-After honoured
"""

from __future__ import annotations

import os
import socket
import sys
import time

LATER, DROPPED = 75, 56
TRIES, PAUSE = 6, 0.05


def ask(verb: str, port: str, name: str, key: str) -> tuple[int, float]:
    """(status, Retry-After); status 0 when there was no reply: nobody knows whether it was done."""
    try:
        with socket.create_connection(("127.0.0.1", int(port)), timeout=30) as line:
            line.sendall(f"{verb} /{name} HTTP/1.0\r\nIdempotency-Key: {key}\r\nContent-Length: 0\r\n\r\n".encode())
            reply = line.makefile("rb").read().decode()
    except OSError:
        return 0, 0.0
    words = reply.split()
    after = words[words.index("Retry-After:") + 1] if "Retry-After:" in words else "0"
    return (int(words[1]) if len(words) > 1 else 0), float(after)


def post(port: str, name: str, *nightlatch: str) -> int:
    status, after = ask("POST", port, name, os.environ.get("NIGHTLATCH_IDEMPOTENCY_KEY", ""))
    if status in (429, 503):
        os.execv(nightlatch[0], [*nightlatch, "fail", "--http", str(status), "--retry-after", str(after)])
    return 0 if status == 200 else DROPPED


def probe(port: str, name: str) -> int:
    return {200: 0, 404: 1}.get(ask("GET", port, name, "")[0], 2)


def naive(port: str, batch: str, count: str) -> int:
    for number in range(int(count)):
        if ask("POST", port, f"{batch}-{number}", "")[0] != 200:
            return 1
    return 0


def retrying(port: str, batch: str, count: str) -> int:
    """A key for each request, kept over its tries, as SDKs do it; after a restart there are new ones."""
    for number in range(int(count)):
        key = os.urandom(8).hex()
        for attempt in range(TRIES):
            status, after = ask("POST", port, f"{batch}-{number}", key)
            if status == 200:
                break
            time.sleep(max(after, PAUSE * 2**attempt))
        else:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(globals()[sys.argv[1]](*sys.argv[2:]))
