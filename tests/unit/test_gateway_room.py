"""Calls that the gateway grants by itself: never more than the run's own caps leave, and on record before they go on."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from typing import Any

import pytest

from nightlatch.core.metering.call import Call
from nightlatch.core.value import replace
from nightlatch.gateway.room import Room
from nightlatch.runtime.shared import call_slots
from nightlatch.runtime.shared.call_slots import CallSlots
from nightlatch.runtime.supervisor.metering.gateway_process import GatewayProcess
from nightlatch.system import clock, process

from .test_accounts import CALL, ONE, Bench, make  # noqa: F401 - a fixture

ABOUT = {"model": "claude", "item": "", "agent": "", "login": False, "at": 0.0}


class Gateway:
    """What it grants by itself goes to the accounts when `send` is called, in order, as the pipe has it."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.room = bench, Room(CallSlots(bench.accounts.slots))
        self.unsent: list[bytes] = []
        self.hear()

    def hear(self) -> None:
        self.room.renew(json.loads(json.dumps(self.bench.accounts.room())))

    def grant(self, call: Call = CALL) -> int:
        """The number of a call that was granted; 0: it has to ask."""
        self.bench.number += 1
        line = self.room.grant(self.bench.number, call, ABOUT)
        if line:
            self.unsent.append(line)
        return self.bench.number if line else 0

    def send(self) -> None:
        for line in self.unsent:
            self.bench.accounts.take(json.loads(line))
        self.unsent.clear()


def ask(bench: Bench) -> int:
    number = bench.hold()
    return number if bench.answers == {number: 2000} else 0


@pytest.fixture
def bench(make) -> Any:  # noqa: F811
    return make


@pytest.fixture(params=["sqlite"])
def ledger_url(sqlite_url: str) -> str:
    return sqlite_url


def test_it_grants_what_fits_and_not_one_call_more(bench):
    gateway = Gateway(bench(f"usd={3.5 * ONE / 10**9}"))
    assert [bool(gateway.grant()) for _ in range(5)] == [True, True, True, False, False]


def test_what_it_granted_meanwhile_is_taken_off_old_figures(bench):
    gateway = Gateway(bench(f"usd={3.5 * ONE / 10**9}"))
    gateway.grant()
    gateway.send()
    gateway.grant()
    gateway.hear()  # figures that know the first call, not the second
    assert gateway.grant() and not gateway.grant()


def test_what_was_not_used_comes_back_with_the_next_word(bench):
    gateway = Gateway(bench(f"usd={1.5 * ONE / 10**9}"))
    number = gateway.grant()
    gateway.send()
    gateway.bench.settle(number, 0)
    gateway.bench.accounts.write()
    assert not gateway.grant()
    gateway.hear()
    assert gateway.grant()


def test_both_ways_together_never_pass_the_cap(bench):
    mine = bench(f"usd={3.5 * ONE / 10**9}")
    gateway = Gateway(mine)
    assert gateway.grant() and gateway.grant()
    gateway.send()  # what was granted comes before the next question, in the pipe
    assert ask(mine)
    gateway.hear()
    assert not gateway.grant()
    mine.hold()
    assert mine.answers == {}  # it waits


@pytest.mark.parametrize("more", [{"item_caps": "calls/item=9"}, {"everything": "usd/day=9"}])
def test_caps_that_are_not_the_runs_own_are_asked_for(make, more):  # noqa: F811
    assert Gateway(make("usd=9", **more)).grant() == 0


def test_a_cap_of_the_day_is_asked_for(bench):
    assert Gateway(bench("usd=9,usd/day=9")).grant() == 0


def test_a_call_that_would_be_lowered_is_asked_for(bench):
    gateway = Gateway(bench("usd=1"))
    assert gateway.grant(replace(CALL, output=100_000, highest=100_000)) == 0


def test_nothing_is_granted_when_the_lease_is_not_sure_any_more(bench):
    mine = bench("usd=9")
    mine.lease.sure_until = clock.now() - 1
    assert Gateway(mine).grant() == 0
    mine.lease.is_sure = False
    assert Gateway(mine).grant() == 0


def test_another_budget_or_other_usage_is_told_at_once(bench):
    from nightlatch.core import budget

    gateway = Gateway(bench("usd=9"))
    accounts = gateway.bench.accounts
    assert not accounts.room_is_stale
    accounts.spent({"usd": 8.99}, "")
    assert accounts.room_is_stale
    gateway.hear()
    assert not accounts.room_is_stale and gateway.grant() == 0
    gateway.bench.money.caps = budget.parse("usd=10")
    assert accounts.room_is_stale
    gateway.hear()
    assert gateway.grant()


def test_more_calls_than_there_are_slots_wait_for_the_ledger(bench, monkeypatch):
    monkeypatch.setattr(call_slots, "SLOTS", 3)
    gateway = Gateway(bench("usd=9"))
    assert [bool(gateway.grant()) for _ in range(4)] == [True, True, True, False]
    gateway.send()
    gateway.hear()
    assert not gateway.grant()
    gateway.bench.accounts.tick(float("inf"))  # the ledger holds them now
    gateway.bench.accounts.tick(float("inf"))
    while gateway.bench.accounts.room()["to"] < 6:
        gateway.bench.accounts.tick(0.0)
    gateway.hear()
    assert gateway.grant()


def test_a_killed_gateway_leaves_doubt_for_what_it_did_not_say(bench):
    gateway = Gateway(bench("usd=9"))
    gateway.grant()
    gateway.send()
    gateway.grant()  # never sent
    gateway.bench.accounts.abandon()
    assert gateway.bench.used == (0, 2 * ONE)
    assert (gateway.bench.accounts.held, gateway.bench.accounts.last) == (0, 2)


@pytest.mark.parametrize("committed", [False, True])
def test_when_all_are_killed_the_next_attempt_finds_what_was_granted(bench, committed):
    gateway = Gateway(bench("usd=9"))
    first, second, third = gateway.grant(), gateway.grant(), gateway.grant()
    gateway.send()
    gateway.bench.settle(first, 700)
    gateway.bench.accounts.take({"do": "free", "id": second})
    if committed:
        gateway.bench.accounts.write()
    gateway.grant()  # never sent
    gateway.bench.begin()
    # What was settled and not written is in doubt: nobody knows of it.
    assert gateway.bench.used == ((700, 2 * ONE) if committed else (0, 4 * ONE))
    run = gateway.bench.ledger.newest("night")
    assert run and gateway.bench.ledger.holds.of_run(run) == []
    assert [name for name in os.listdir(gateway.bench.folder) if name.startswith("calls.")] == []
    gateway.bench.begin()
    assert gateway.bench.used == ((700, 2 * ONE) if committed else (0, 4 * ONE))  # and not twice
    assert third


def test_a_long_name_has_no_slot_and_is_asked_for(bench):
    gateway = Gateway(bench("usd=9"))
    assert gateway.room.grant(1, CALL, {**ABOUT, "agent": "x" * 600}) is None


def test_an_answer_never_arrives_before_the_room_without_its_call(bench):
    """The pipe may end between two messages: what has arrived by then must not let both ways have the same money."""
    gateway = Gateway(bench(f"usd={1.5 * ONE / 10**9}"))
    mine = gateway.bench
    lease: Any = mine.lease
    supervisor = GatewayProcess(mine.accounts, {}, lease=lease, folder=mine.folder, settings={})
    ours, theirs = socket.socketpair()
    supervisor._pipe, supervisor._started = ours.detach(), [clock.now()]
    os.set_blocking(supervisor._pipe, False)
    mine.number += 1
    about = {"do": "hold", "id": mine.number, "call": CALL.__dict__, **ABOUT}
    theirs.sendall(json.dumps(about).encode() + b"\n")
    supervisor.serve()
    answered = False
    for message in map(json.loads, theirs.recv(1 << 16).splitlines()):
        if "room" in message:
            gateway.room.renew(message)
        answered = answered or message.get("output") == 2000
        assert not (answered and gateway.grant())
    assert answered
    os.close(supervisor._pipe)
    theirs.close()


class SlowSlots(CallSlots):
    """A gateway that is stopped while it writes, until its lease is over."""

    until = 0.0

    def put(self, number: int, line: bytes) -> bool:
        done = super().put(number, line)
        while clock.now() < self.until:
            clock.sleep(self.until - clock.now())
        return done


def test_what_is_written_too_late_for_a_successor_is_not_granted(bench):
    gateway = Gateway(bench("usd=9"))
    slots = SlowSlots(gateway.bench.accounts.slots)
    gateway.room = Room(slots)
    gateway.bench.lease.sure_until = slots.until = clock.now() + 0.1
    gateway.hear()
    assert gateway.grant() == 0


def test_a_slot_that_a_power_failure_has_torn_is_passed_over(bench):
    gateway = Gateway(bench("usd=9"))
    gateway.grant(), gateway.grant()
    path = gateway.bench.accounts.slots
    with open(path, "r+b") as file:
        file.seek(file.read().index(b'"id":1,'))
        file.write(b"\0" * 100)
    gateway.bench.begin()
    assert gateway.bench.used == (0, ONE)


LONG = replace(CALL, output=500_000, highest=500_000)  # more than is generated in minutes
STOPPED = """
import os, signal, sys
from nightlatch.runtime.shared.call_slots import CallSlots
CallSlots(sys.argv[1]).sign()
os.kill(os.getpid(), signal.SIGSTOP)
"""


def doubt_after(gateway: Gateway) -> float:
    """Kill the attempt with a long call in flight; returns which part of it is in doubt for the next one."""
    assert gateway.grant(LONG)
    gateway.bench.begin()
    return gateway.bench.used[1] / LONG.bound(LONG.wanted)["usd"]


@pytest.fixture
def stopped(bench) -> Any:
    """A gateway whose supervisor was killed, and that is stopped itself."""
    gateway = Gateway(bench("usd=90"))
    child = subprocess.Popen([sys.executable, "-c", STOPPED, gateway.bench.accounts.slots])
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
    yield gateway, child
    child.kill()
    child.wait()


def test_a_gateway_that_is_left_is_ended_before_its_calls_are_counted(stopped):
    gateway, child = stopped
    assert doubt_after(gateway) < 0.5  # by its time
    assert process.state_of(child.pid, process.start_of(child.pid) or 0) in (process.GONE, process.ZOMBIE)


@pytest.mark.parametrize("fact", [{"where": "another boot"}, {"wall": 3600.0}])
def test_a_call_whose_time_cannot_be_known_counts_whole(stopped, fact):
    """Its gateway may still be at work somewhere; or the clock was set back since."""
    gateway, child = stopped
    with open(gateway.bench.accounts.slots, "r+b") as file:
        facts = json.loads(file.read(512))
        changed = {**facts, **{name: facts[name] + more for name, more in fact.items()}}
        file.seek(0)
        file.write(json.dumps(changed).encode().ljust(512))
    assert doubt_after(gateway) == 1
    assert (child.poll() is None) == ("where" in fact)  # a pid of another boot means nothing


def test_on_another_machine_a_call_counts_whole(bench):
    mine = bench("usd=90")
    mine.hold(LONG)
    mine.begin()  # there is no file here: its gateway may be at work elsewhere
    assert mine.used == (0, LONG.bound(LONG.wanted)["usd"])
