"""The gateway has no longer life than the lease: what is not sure passes nothing, and with a lost one streams are cut."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
import urllib.request

from tests.e2e.test_gateway_streams import STREAM
from tests.support.budgets import spent
from tests.support.programs import nightlatch, start, until
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


def test_calls_pass_a_stopped_supervisor_only_while_its_lease_is_sure(sqlite_url, tmp_path):
    """What fits the gateway grants by itself, but not for longer than the command may work. The caller here is not
    frozen with it: it is no part of the run."""
    with Vendor() as vendor:
        code = f"""
import os, time
open({str(tmp_path / "making")!r}, "w").write(os.environ["ANTHROPIC_BASE_URL"] + " " + os.environ["ANTHROPIC_API_KEY"])
os.rename({str(tmp_path / "making")!r}, {str(tmp_path / "address")!r})
while not os.path.exists({str(tmp_path / "over")!r}): time.sleep(0.05)
"""
        words = ["run", "night", "--ttl", "10s", "--budget", "usd=1", "--lost", "again", "--"]
        running = start(sqlite_url, *words, sys.executable, "-c", code, env=vendor.environment)
        until((tmp_path / "address").exists)
        base, key = (tmp_path / "address").read_text().split()
        data = json.dumps({"model": "claude-opus-5-5", "max_tokens": 100, "messages": []}).encode()
        request = urllib.request.Request(f"{base}/v1/messages", data, {"x-api-key": key})

        passed = 0

        def passes(within: float) -> bool:
            nonlocal passed
            try:
                with urllib.request.urlopen(request, timeout=within):
                    passed += 1
                    return True
            except TimeoutError:
                return False

        assert passes(60)
        os.kill(running.pid, signal.SIGSTOP)
        assert passes(60)
        # One that only takes long is at the vendor all the same.
        until(lambda: not passes(1) and len(vendor.calls) == passed)
        os.kill(running.pid, signal.SIGCONT)
        (tmp_path / "over").touch()
        running.communicate(timeout=60)
        assert running.returncode in (0, 123)  # in time for a renewal, or not
        if running.returncode:
            nightlatch(sqlite_url, *words, "true", env=vendor.environment)
        found = spent(sqlite_url, "night")
        assert found.usd <= vendor.charged <= found.usd + found.doubt
