"""A real HTTP server that counts what it was made to do."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections import Counter
from http.server import ThreadingHTTPServer

from tests.support.processes import counting_client
from tests.support.servers.http import QuietHandler

LATENCY = 0.05  # seconds at most, before and after the effect: far below its deadline

CLIENT = [sys.executable, "-S", "-E", counting_client.__file__]


class Counting:
    """Effects by name. `dedups`: a request with a key that was seen before does nothing."""

    def __init__(self) -> None:
        self.effects: Counter[str] = Counter()
        self.dedups = False
        self.drops = False  # the effect happens, and the connection breaks before the reply
        self.latency = LATENCY
        self.served = threading.Event()  # cleared: requests to act wait in the queue
        self.served.set()
        self.queued = self.looked = 0
        self._keys: set[str] = set()
        self._lock = threading.Lock()
        chance, counting_server = random.Random(), self

        class Handler(QuietHandler):
            def do_POST(self) -> None:
                counting_server.queued += 1
                time.sleep(chance.uniform(0, counting_server.latency))
                counting_server.served.wait(60)
                counting_server.act(self.path[1:], self.headers["Idempotency-Key"])
                if counting_server.drops:
                    return
                time.sleep(chance.uniform(0, counting_server.latency))
                self.send_response(200)
                self.end_headers()

            def do_GET(self) -> None:
                self.send_response(200 if counting_server.effects[self.path[1:]] else 404)
                self.end_headers()
                counting_server.looked += 1

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = str(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def act(self, name: str, key: str) -> None:
        with self._lock:
            if not self.dedups or key not in self._keys:
                self.effects[name] += 1
            self._keys.add(key)

    def close(self) -> None:
        self.served.set()
        self._server.shutdown()
        self._server.server_close()
