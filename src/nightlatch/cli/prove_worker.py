"""A holder of `doctor --prove`, in a separate process: takes the lease, reports it, waits for a line, and writes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from ..errors import LeaseLost, StaleToken
from ..runtime.shared.leases.lease import Lease
from ..store import url
from .prove_places import places

LANDED, REFUSED, FAILED = "landed", "refused", "failed"
RENEWAL, DONE_KEY = "its renewal", "its done key"  # what a worker writes to the store


def work(worker: str, name: str, number: str, ttl: float, targets: list[str]) -> None:
    store = url.connect()
    trial_places = places(targets, number)
    gates = [place.gate() for place in trial_places]
    with Lease(store, name, ttl=ttl, wait=60.0, gates=gates) as lease:
        lease.check()
        mark, grant = lease.mark, lease.grant
        _report({"token": mark.token})
        sys.stdin.readline()  # the first worker is frozen here, between its check and its write
        outcomes = [
            _outcome(partial(place.write, gate, mark, worker)) for place, gate in zip(trial_places, gates, strict=True)
        ]
        _report(
            {
                "targets": outcomes,
                "store": {
                    RENEWAL: _outcome(lambda: store.renew(name, grant, ttl)),
                    DONE_KEY: _outcome(lambda: store.settle(name, grant, name, worker)),
                },
            }
        )
        sys.stdin.readline()


def _outcome(write: Callable[[], object]) -> tuple[str, str]:
    """Try to write: LANDED, REFUSED or FAILED, and the reason."""
    try:
        write()
    except (StaleToken, LeaseLost) as refused:
        return REFUSED, str(refused)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is reported
        return FAILED, f"{type(error).__name__}: {error}"
    return LANDED, ""


def _report(facts: dict[str, Any]) -> None:
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    work(**json.loads(sys.argv[1]))
