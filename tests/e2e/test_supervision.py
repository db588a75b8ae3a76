"""A command under a supervisor: how long it may go on, and what becomes of its lease and of the signal handlers."""

from __future__ import annotations

import subprocess
import sys

_HEAD = """
import os, signal, sys, time
from nightlatch.errors import Busy
from nightlatch.runtime.shared.leases.lease import Lease
from nightlatch.runtime.supervisor.supervision import Supervision
from nightlatch.store.url import connect
from nightlatch.system import warden

def spied(warden, method):
    calls, real = [], getattr(warden, method)
    setattr(warden, method, lambda *args: (calls.append(args), real(*args)))
    return calls

def handlers():
    return [signal.getsignal(signum) for signum in (signal.SIGTERM, signal.SIGUSR1)]

before, store, argv = handlers(), connect(sys.argv[1]), ["sh", "-c", 'echo "$NIGHTLATCH_TOKEN"; exec sleep 1000']
"""

_ASKED_TO_END = """
with Supervision(argv, store.folder, captured=(1,)) as supervision:
    kept = spied(supervision.warden, "keep")
    supervision.hold(store, "agent", ttl=60.0, wait=0.0)
    assert kept[0][0].ttl == 60.0
    supervision.start(supervision.environment())
    assert int(os.read(supervision.streams[1], 99)) == store.read("agent").token
    os.kill(os.getpid(), signal.SIGTERM)
    ended = supervision.last_report()
    dismissed, dismiss = [], supervision.warden.dismiss

    def dismiss_under_lease():
        dismiss()
        try:
            Lease(store, "agent", ttl=60.0, wait=0.0)
        except Busy:
            dismissed.append(True)

    supervision.warden.dismiss = dismiss_under_lease
supervision.close()
assert ended.why == warden.SIGNALLED and ended.signal == signal.SIGTERM, ended
assert dismissed and supervision.end_signal == signal.SIGTERM
assert handlers() == before
Lease(store, "agent", ttl=60.0, wait=0.0).release()
"""

_TAKEN = """
with Supervision(argv, store.folder) as supervision:
    asked = spied(supervision.warden, "ask_to_end")
    supervision.hold(store, "agent", ttl=1.0, wait=0.0)
    supervision.start(supervision.environment())
    store.evict("agent")
    ended = supervision.last_report()
supervision.close()
assert asked[0][0] == ended.why == warden.LOST and supervision.lost
assert handlers() == before
"""


def _run(program: str, store: str) -> None:
    words = [sys.executable, "-c", _HEAD + program, store]
    done = subprocess.run(words, text=True, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_command_is_kept_asked_to_end_and_ended_before_its_lease_is_free(sqlite_url: str) -> None:
    _run(_ASKED_TO_END, sqlite_url)


def test_a_command_whose_lease_was_taken_is_asked_to_end_at_once(sqlite_url: str) -> None:
    _run(_TAKEN, sqlite_url)
