"""Streams through the gateway: nothing is held back, nothing grows, and who leaves is noticed at the vendor."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from tests.support.budgets import gateways, spent
from tests.support.programs import TOOL, nightlatch, start, until
from tests.support.vendor import Plan, Vendor

STREAM = """
import http.client, json, os, sys, time
from urllib.parse import urlsplit
def stream(text="hi", **more):
    base = urlsplit(os.environ["ANTHROPIC_BASE_URL"])
    body = {"model": "claude-opus-5-5", "max_tokens": 100, "stream": True, "messages": [{"role": "user", "content": text}]}
    connection = http.client.HTTPConnection(base.netloc)
    headers = {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "content-type": "application/json"}
    connection.request("POST", base.path + "/v1/messages", json.dumps({**body, **more}), headers)
    return connection, connection.getresponse()
"""


def test_the_first_byte_is_not_held_until_the_last(sqlite_url, tmp_path):
    """The reply goes on only when its first event has arrived at the client. What the command reports before it has
    settled is that call, and must not be counted twice."""
    first = tmp_path / "first"
    with Vendor(plan=lambda _: Plan(pause=0.01, waits_for=str(first))) as vendor:
        code = (
            STREAM
            + f"""
import subprocess
connection, reply = stream()
print(reply.read1(20))
subprocess.run({f"{TOOL} spend usd=0.5"!r}, shell=True, check=True)
open({str(first)!r}, "w").close()
reply.read()
"""
        )
        done = nightlatch(sqlite_url, "run", "night", "--budget", "usd=1", "--", sys.executable, "-c", code,
                          env=vendor.environment)  # fmt: skip
        assert done.returncode == 0 and "event: message_star" in done.stdout, done.stdout + done.stderr
        assert spent(sqlite_url, "night").usd == vendor.charged


def test_a_client_that_leaves_ends_the_call_at_the_vendor(sqlite_url):
    with Vendor(plan=lambda _: Plan(chunks=2000, pause=0.1, output=100)) as vendor:
        code = (
            STREAM + "connection, reply = stream(); reply.read1(20); reply.close(); connection.close(); time.sleep(30)"
        )
        running = start(sqlite_url, "run", "night", "--budget", "usd=1", "--", sys.executable, "-c", code,
                        env=vendor.environment)  # fmt: skip
        until(lambda: vendor.calls and vendor.calls[0].usd, timeout=20)
        assert vendor.calls[0].ended == "left"
        running.terminate()
        running.communicate(timeout=30)
        found = spent(sqlite_url, "night")
        assert (found.usd, found.held) == (0, 0) and vendor.charged <= found.doubt


def test_a_long_stream_leaves_the_gateway_as_small_as_it_was(sqlite_url):
    size = int(os.environ.get("NIGHTLATCH_STREAM_MB", "60"))
    with Vendor(plan=lambda _: Plan(chunks=size * 16, text="x" * 65_000, output=100)) as vendor:
        code = (
            STREAM
            + """
connection, reply = stream()
total = 0
while data := reply.read(1 << 20): total += len(data)
print("read", total >> 20, flush=True); time.sleep(2)
"""
        )
        running = start(sqlite_url, "run", "night", "--budget", "usd=1", "--", sys.executable, "-c", code,
                        env=vendor.environment)  # fmt: skip
        until(lambda: vendor.calls)
        (gateway,) = gateways(running.pid)
        most = 0
        while running.poll() is None:
            try:
                status = Path(f"/proc/{gateway}/status").read_text()
            except OSError:
                break
            most = max(most, *(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")), 0)
            time.sleep(0.05)
        out, err = running.communicate(timeout=120)
        assert int(out.split()[-1]) >= size * 0.98, (out, err)
        assert most < 100_000, f"{most} KB"
        assert spent(sqlite_url, "night").usd == vendor.charged


def test_a_body_of_16_mb_passes(sqlite_url):
    with Vendor(plan=lambda _: Plan(input=1000)) as vendor:
        vendor.counts = True
        code = STREAM + "connection, reply = stream('x' * (16 << 20)); print(reply.status, len(reply.read()))"
        done = nightlatch(sqlite_url, "run", "night", "--budget", "usd=200", "--", sys.executable, "-c", code,
                          env=vendor.environment)  # fmt: skip
        assert done.stdout.startswith("200 "), done.stdout + done.stderr
        assert spent(sqlite_url, "night").usd == vendor.charged


@pytest.mark.parametrize("fault", ["cut", "lost", "mute", "proxy"])
def test_a_reply_that_nobody_saw_whole_is_in_doubt(sqlite_url, fault):
    with Vendor(plan=lambda _: Plan(fault=fault, output=100)) as vendor:
        code = (
            STREAM
            + """
try:
    connection, reply = stream()
    print(reply.status, len(reply.read()))
except (http.client.HTTPException, OSError) as error:
    print("broken", type(error).__name__)
"""
        )
        done = nightlatch(sqlite_url, "run", "night", "--budget", "usd=1", "--", sys.executable, "-c", code,
                          env=vendor.environment)  # fmt: skip
        assert done.returncode == 0, done.stderr
        found = spent(sqlite_url, "night")
        assert (found.usd, found.held, found.calls) == (0, 0, 1)
        assert 0 < vendor.charged <= found.doubt
        assert "doubt=" in done.stderr
