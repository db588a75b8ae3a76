"""An API on loopback that counts what it was made to do, and the faults of one night, each at its moment."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.support.servers.http import QuietHandler

# Chance that it happens to a batch, each on its own. Together about 12 % of the batches meet one.
RATES = {
    "session timeout": 0.020,
    "429": 0.030,
    "drop before": 0.020,
    "drop after": 0.020,
    "process kill": 0.020,
    "sandbox restart": 0.015,
}
LONGEST = 0.7  # seconds that a request stays in the queue: below the deadline of an effect
DEADLY = ("session timeout", "process kill", "sandbox restart")
MOMENTS = ("queued", "acted", "answered")  # the client dies before its request is served, before the reply, after it

RETRY_AFTER = 0.2  # seconds, a hundredth of what real servers ask for
WORK = 0.004  # seconds at most, before the effect and after it


@dataclass
class Fault:
    kind: str
    item: int
    moment: str
    times: int  # a 429 may come several times in a row


def faults(seed: int, batches: int, items: int, rate: float) -> list[list[Fault]]:
    """The faults of each batch, the same for every contestant."""
    chance = random.Random(seed)
    return [
        [
            Fault(kind, chance.randrange(items), chance.choice(MOMENTS), chance.randint(1, 3) if kind == "429" else 1)
            for kind, likely in RATES.items()
            if chance.random() < likely * rate
        ]
        for _ in range(batches)
    ]


class Night:
    """One contestant's night against one kind of API: `strike(batch, kind)` is called for what kills."""

    def __init__(self, plan: list[list[Fault]], *, dedups: bool, strike: Callable[[int, str], None]) -> None:
        self.effects: Counter[str] = Counter()
        self._pending: dict[tuple[int, int], list[Fault]] = {}
        for batch, found in enumerate(plan):
            for fault in found:
                self._pending.setdefault((batch, fault.item), []).append(replace(fault))
        self._dedups, self._strike = dedups, strike
        self._keys: set[str] = set()
        self.slowest = 0.0  # seconds from a request to its effect
        self._lock, self._chance = threading.Lock(), random.Random(len(plan))
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self.port = str(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def post(self, name: str, key: str) -> tuple[int, Callable[[], None]]:
        """(status to answer with, 0 for none; what happens after the answer)"""
        batch, number = (int(part) for part in name.split("-"))
        came, fault = time.monotonic(), self._next(batch, number)
        kind = fault.kind if fault else ""
        moment = fault.moment if fault and kind in DEADLY else ""
        time.sleep(self._chance.uniform(0, WORK))
        if kind == "429":
            return 429, _nothing
        if kind == "drop before":
            return 0, _nothing
        if moment == "queued":
            # The request is here, and is served although nobody waits for it; but not later than an effect may take.
            striking = threading.Thread(target=self._strike, args=(batch, kind))
            striking.start()
            striking.join(LONGEST)
        with self._lock:
            self.slowest = max(self.slowest, time.monotonic() - came)
            if not self._dedups or not key or key not in self._keys:
                self.effects[name] += 1
            self._keys.add(key)
        if kind == "drop after":
            return 0, _nothing
        if moment == "acted":
            self._strike(batch, kind)
            return 0, _nothing
        time.sleep(self._chance.uniform(0, WORK))
        return 200, (lambda: self._strike(batch, kind)) if moment == "answered" else _nothing

    def _next(self, batch: int, number: int) -> Fault | None:
        with self._lock:
            waiting = self._pending.get((batch, number))
            if not waiting:
                return None
            waiting[0].times -= 1
            return waiting.pop(0) if not waiting[0].times else waiting[0]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


def _handler(night: Night) -> type[BaseHTTPRequestHandler]:
    class Handler(QuietHandler):
        def do_POST(self) -> None:
            status, after = night.post(self.path[1:], self.headers["Idempotency-Key"] or "")
            if status:
                self.send_response(status)
                if status == 429:
                    self.send_header("Retry-After", str(RETRY_AFTER))
                self.end_headers()
                self.wfile.flush()
            after()

        def do_GET(self) -> None:
            self.send_response(200 if night.effects[self.path[1:]] else 404)
            self.end_headers()

    return Handler


def _nothing() -> None:
    pass
