"""PostgreSQL stops, or its clock steps: short faults kill nobody, nobody outlives long ones."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from nightlatch.core.protocols import Store
from nightlatch.errors import Busy, LeaseLost, StoreUnreachable
from nightlatch.ledger import open_for
from nightlatch.store.sightings import MARGIN
from nightlatch.system import clock, process
from tests.support.postgres_sessions import InBackground, ends, someone_listens, take, version
from tests.support.programs import alive, environment, until
from tests.support.runs import Running, listed
from tests.support.servers.postgres import PostgresServer


def test_a_short_stop_of_the_server_kills_nobody(
    server: PostgresServer, store: Store, lock: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    """For longer than lies between two renewals: the command continues, and so does a waiter for its lease."""
    pid, go_on = tmp_path / "pid", tmp_path / "go-on"
    script = f"echo $$ > {pid}.new; mv {pid}.new {pid}; until [ -e {go_on} ]; do sleep 0.05; done"
    holder = lock("job", "--ttl", "15s", "--", "sh", "-c", script)
    until(pid.exists)
    waiter = lock("job", "--wait", "60s", "--", "true")
    until(lambda: someone_listens(server))
    before = version(store, "job")
    server.stop()
    time.sleep(5.5)
    server.start()
    until(lambda: version(store, "job") > before)  # renewed
    assert alive(int(pid.read_text()))
    assert waiter.poll() is None
    go_on.touch()
    assert ends(holder) == 0
    assert ends(waiter) == 0


def test_a_run_outlives_a_short_stop_of_the_server(server: PostgresServer, url: str, tmp_path: Path) -> None:
    """Also one whose command ends meanwhile: its end is recorded when the server is back."""
    long, ends = Running(url, tmp_path, "long"), Running(url, tmp_path, "ends", "--meter", "output")
    server.stop()
    ends.go.touch()
    gone = clock.now() + 5  # more than between two looks for a cancellation
    until(lambda: not alive(ends.command) and clock.now() > gone)
    assert (long.process.poll(), ends.process.poll()) == (None, None)
    server.start()
    assert (long.finish(), ends.finish()) == (0, 0)
    assert {run["status"] for run in listed(url)} == {"succeeded"}


def test_when_the_server_stays_away_everybody_is_gone_before_the_ttl_has_passed(
    server: PostgresServer, store: Store, lock: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    ttl, pids = 10.0, [tmp_path / "one", tmp_path / "two"]
    holders = [
        lock(p.name, "--ttl", "10s", "--", "sh", "-c", f"echo $$ > {p}.new; mv {p}.new {p}; sleep 100") for p in pids
    ]
    until(lambda: all(p.exists() for p in pids))
    server.stop()
    try:
        stopped = time.monotonic()  # nobody was renewed after this moment
        until(lambda: not any(alive(int(p.read_text())) for p in pids))
        assert time.monotonic() - stopped < ttl
        assert [ends(holder) for holder in holders] == [LeaseLost.exit_code] * 2
    finally:
        server.start()
    was = store.read("one")
    assert was is not None
    assert take(store, "one", wait=60.0)[1] > was.token


# Clocks and pauses


def test_a_server_clock_that_stepped_back_does_not_extend_a_lease_for_ever(
    store: Store, server: PostgresServer, schema: str
) -> None:
    """What a step back leaves behind: an end that is further away than the TTL. The holder is another machine's."""
    ttl = 1.0
    _, token = take(store, "job", ttl=ttl)
    day = 86_400_000
    server.psql(f"UPDATE {schema}.lease SET expires = expires + {day}, until = until + {day}, holder = 'host=far'")
    record = store.read("job")
    assert record is not None and record.left is None
    started = time.monotonic()
    with pytest.raises(Busy):
        take(store, "job")
    assert take(store, "job", wait=60.0)[1] > token
    assert time.monotonic() - started > ttl * MARGIN


def test_a_holder_that_renews_under_a_clock_that_stepped_back_keeps_its_lease(
    store: Store, server: PostgresServer, schema: str
) -> None:
    grant, _ = take(store, "job", ttl=3.0)
    waiter = InBackground(store, "job", wait=5.5)
    deadline = time.monotonic() + 5.0
    with psycopg.connect(server.url().partition("?")[0], autocommit=True) as clock:
        while time.monotonic() < deadline:
            store.renew("job", grant, 3.0)
            clock.execute(f"UPDATE {schema}.lease SET expires = expires + 86400000, holder = 'host=far'")
            time.sleep(0.1)
    waiter.join(60)
    assert isinstance(waiter.result, Busy)


def test_a_holder_stopped_past_its_ttl_has_lost_and_knows_it_when_it_goes_on(store: Store, url: str) -> None:
    program = (
        "import sys, nightlatch\n"
        "lease = nightlatch.lease('job', ttl='2s').acquire()\n"
        "print(lease.token, flush=True)\n"
        "sys.stdin.readline()\n"
        "try: lease.check()\n"
        "except nightlatch.LeaseLost as lost: print('lost', flush=True)\n"
    )
    pipe = subprocess.PIPE
    holder = subprocess.Popen(
        [sys.executable, "-c", program], env=environment(url), stdin=pipe, stdout=pipe, text=True, process_group=0
    )
    assert holder.stdout and holder.stdin
    token = int(holder.stdout.readline())
    holder.send_signal(signal.SIGSTOP)
    try:
        mine, higher = take(store, "job", wait=60.0)
    finally:
        holder.send_signal(signal.SIGCONT)
    assert higher > token
    assert holder.communicate("\n", timeout=60)[0] == "lost\n"
    record = store.read("job")
    assert record is not None and record.grant == mine


STOPPED = """
import os, signal, sys
from nightlatch.ledger import open_for

with open_for(sys.argv[1])._tables.on_chain("job"):
    os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_a_process_that_stops_in_a_transaction_of_the_ledger_holds_its_job_up_for_seconds_only(url: str) -> None:
    """A laptop that falls asleep there, for a night."""
    ledger = open_for(url)
    ledger.open_run("job", "before")
    sleeper = subprocess.Popen([sys.executable, "-c", STOPPED, url], env=environment(url), stderr=subprocess.PIPE)
    try:
        until(lambda: process.state_of(sleeper.pid, process.start_of(sleeper.pid) or 0) == process.STOPPED)

        def opened() -> bool:
            try:
                return bool(ledger.open_run("job", "after").id)
            except StoreUnreachable:
                return False

        until(opened, 60)
        sleeper.send_signal(signal.SIGCONT)
        said = sleeper.communicate(timeout=30)[1]
        assert sleeper.returncode and b"StoreUnreachable" in said
    finally:
        sleeper.kill()
        sleeper.communicate()
