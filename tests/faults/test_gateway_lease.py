"""The gateway has no word of its own: without its supervisor nothing passes, and with a lost lease streams are cut."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import time

from tests.e2e.test_gateway import TALK
from tests.e2e.test_gateway_streams import STREAM
from tests.support.budgets import gateways, spent
from tests.support.programs import children, start, until
from tests.support.vendor import Plan, Vendor


def test_a_stream_is_cut_when_the_lease_is_lost(sqlite_url, tmp_path):
    """Somebody else has taken the lease: the next renewal finds that."""
    with Vendor(plan=lambda _: Plan(chunks=3000, pause=0.05)) as vendor:
        code = (
            STREAM
            + f"connection, reply = stream(); reply.read1(9); open({str(tmp_path / 'on')!r}, 'w').close(); time.sleep(60)"
        )
        running = start(sqlite_url, "run", "night", "--ttl", "2s", "--grace", "30s", "--budget", "usd=1", "--",
                        "sh", "-c", 'trap "" TERM; "$0" -c "$1"; sleep 60', sys.executable, code,
                        env=vendor.environment)  # fmt: skip
        until((tmp_path / "on").exists)
        path = sqlite_url.removeprefix("sqlite:///")
        store = sqlite3.connect(path, timeout=30)
        with store:
            store.execute("UPDATE lease SET grant_id = 'another', token = token + 1")
        store.close()
        until(lambda: vendor.calls[0].ended == "left", timeout=20)
        running.communicate(timeout=60)
        assert running.returncode == 123
        assert vendor.charged <= spent(sqlite_url, "night").doubt or spent(sqlite_url, "night").held


def test_no_call_passes_a_supervisor_that_is_stopped(sqlite_url, tmp_path):
    """The gateway lets nothing through by itself."""
    with Vendor() as vendor:
        go = tmp_path / "go"
        code = (
            TALK
            + f"""
import time
call(); open({str(tmp_path / "on")!r}, 'w').close()
while not os.path.exists({str(go)!r}): time.sleep(0.02)
print(call()[0])
"""
        )
        running = start(sqlite_url, "run", "night", "--ttl", "20s", "--budget", "usd=1", "--", sys.executable, "-c", code,
                        env=vendor.environment)  # fmt: skip
        until((tmp_path / "on").exists)
        (gateway,) = gateways(running.pid)
        os.kill(running.pid, signal.SIGSTOP)  # the supervisor, which grants calls
        go.touch()
        time.sleep(0.5)
        assert len(vendor.calls) == 1 and gateway in children(running.pid)
        os.kill(running.pid, signal.SIGCONT)
        out, err = running.communicate(timeout=60)
        assert (running.returncode, out.strip()) == (0, "200"), (out, err)
        assert spent(sqlite_url, "night").usd == vendor.charged
