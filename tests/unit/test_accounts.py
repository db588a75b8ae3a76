"""The accounts of an attempt, with a real ledger: calls in turn, caps of items and of all jobs, what an earlier attempt left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nightlatch.core import budget
from nightlatch.core.metering.call import Call
from nightlatch.ledger import open_for
from nightlatch.runtime.supervisor.metering.accounts import Accounts
from nightlatch.system import identity

CALL = Call(input=1000, input_rate=10**9, output=2000, output_rate=10**10, counted=True)  # 0.021 usd
ONE = CALL.bound(2000)["usd"]


class Money:
    """What is left of the run's spending: its caps, and nothing spent before."""

    days = None

    def __init__(self, caps: str, everything: str = "") -> None:
        self.caps = budget.parse(caps)
        self.caps_of_all_jobs = budget.parse_for_all_jobs(everything) if everything else ()

    def before(self, unit: str, period: str) -> float:
        return 0.0

    def elsewhere(self, unit: str, period: str) -> int:
        return 0


class Sure:
    is_sure, sure_until = True, float("inf")


class Bench:
    def __init__(self, url: str, folder: str, caps: str, item_caps: str = "", everything: str = "") -> None:
        self.ledger, self.folder = open_for(url), folder
        self.money, self.lease = Money(caps, everything), Sure()
        self.items = budget.parse(item_caps, ("item",)) if item_caps else ()
        self.token = 0
        self.begin()

    def begin(self) -> None:
        """An attempt, as if its predecessor had been killed."""
        self.token += 1
        run = self.ledger.open_run("night", "k")
        writer = self.ledger.seal(run.id, token=self.token, grant=f"grant-{self.token}",
                                  holder=identity.holder(pid=1, lifetime=""))  # fmt: skip
        kept: dict[str, Any] = {"spending": self.money, "lease": self.lease, "used": lambda *_: None}
        self.accounts = Accounts(item_caps=self.items, ledger=self.ledger, writer=writer, folder=self.folder, **kept)
        self.number = 0

    def hold(self, call: Call = CALL, **about: Any) -> int:
        self.number += 1
        self.accounts.take({"do": "hold", "id": self.number, "call": dict(call.__dict__), "at": 0.0, **about})
        return self.number

    def settle(self, number: int, usd: int) -> None:
        rows = [{"kind": "output", "tokens": 5, "usd": usd, "calls": 1}]
        self.accounts.take({"do": "settle", "id": number, "rows": rows})

    @property
    def answers(self) -> dict[int, Any]:
        found, self.accounts.answers = self.accounts.answers, []
        return {one["id"]: "refused" if "refused" in one else one.get("output") for one in found}

    @property
    def used(self) -> tuple[int, int]:
        self.accounts.write()
        run = self.ledger.newest("night")
        assert run
        return round(run.usage.usd * 10**9), round(run.usage.doubt * 10**9)


@pytest.fixture
def make(ledger_url: str, tmp_path: Path) -> Iterator[Any]:
    made: list[Bench] = []

    def bench(*words: str, **more: str) -> Bench:
        made.append(Bench(ledger_url, str(tmp_path), *words, **more))
        return made[-1]

    yield bench
    for one in made:
        one.ledger.close()


def test_calls_wait_in_turn_until_what_is_in_flight_has_settled(make):
    bench = make(f"usd={2 * ONE / 10**9}")
    first, second, third, fourth = (bench.hold() for _ in range(4))
    assert bench.answers == {first: 2000, second: 2000}
    bench.settle(first, 0)
    assert bench.answers == {third: 2000}  # not the fourth, although both wait
    bench.settle(second, ONE)
    assert bench.answers == {}
    bench.settle(third, 0)
    assert bench.answers == {fourth: 2000}
    bench.settle(fourth, ONE)
    last = bench.hold()
    assert bench.answers == {last: "refused"}
    assert bench.used == (2 * ONE, 0)
    assert bench.accounts.refusals == 1


def test_a_client_that_leaves_the_queue_lets_the_next_one_through(make):
    bench = make(f"usd={ONE / 10**9}")
    first, second, third = (bench.hold() for _ in range(3))
    bench.accounts.take({"do": "drop", "id": second})
    bench.settle(first, 0)
    assert bench.answers == {first: 2000, third: 2000}


def test_no_call_is_granted_while_the_lease_is_not_sure(make):
    bench = make("usd=1")
    bench.lease.is_sure = False
    number = bench.hold()
    assert bench.answers == {}
    bench.lease.is_sure = True
    bench.accounts.tick(float("inf"))
    assert bench.answers == {number: 2000}


class Stopped(Sure):
    """A lease of a supervisor that is stopped while it holds a call, until another may have the lease."""

    looks = 0

    @property
    def is_sure(self) -> bool:  # type: ignore[override]
        self.looks += 1
        return self.looks != 2


def test_a_call_that_is_held_too_late_for_a_successor_is_not_granted(make):
    bench = make("usd=1")
    bench.lease = bench.accounts._lease = Stopped()
    number = bench.hold()
    assert bench.answers == {} and bench.lease.looks == 2
    assert bench.ledger.holds.of_run(bench.ledger.newest("night")) == []
    bench.accounts.tick(float("inf"))
    assert bench.answers == {number: 2000}


def test_what_a_killed_attempt_had_in_flight_is_in_doubt_for_the_next(make):
    bench = make("usd=1")
    bench.hold()
    bench.settle(bench.hold(), 700)
    bench.accounts.write()
    bench.hold()
    bench.begin()
    assert bench.used == (700, 2 * ONE)
    assert bench.ledger.holds.of_run(bench.ledger.newest("night")) == []


def test_a_killed_gateway_leaves_doubt_and_no_hold(make):
    bench = make("usd=1")
    bench.hold()
    bench.accounts.abandon()
    assert bench.used == (0, ONE)
    assert bench.accounts.held == 0


def test_an_item_has_caps_of_its_own(make):
    bench = make("usd=1", "calls/item=1")
    first, again, other = bench.hold(item="a"), bench.hold(item="a"), bench.hold(item="b")
    assert bench.answers == {first: 2000}
    bench.settle(first, 10)
    assert bench.answers == {again: "refused", other: 2000}


def test_all_jobs_share_a_cap_and_a_dead_runs_hold_counts(make):
    bench = make("usd=9", everything=f"usd/day={2.5 * ONE / 10**9}")
    bench.hold()
    other = make("usd=9", everything=f"usd/day={2.5 * ONE / 10**9}")
    other.ledger.open_run("other", "k")
    number = other.hold()
    assert other.answers == {number: 2000}
    assert other.ledger.holds.taken("", "day", "usd") == 2 * ONE
    refused = other.hold()
    other.settle(number, ONE)
    assert other.answers[refused] in (None, "refused", 1450)


def test_a_new_budget_lets_calls_through_that_were_refused(make):
    bench = make(f"usd={ONE / 10**9 / 2}")
    assert bench.answers == {} and bench.hold() and set(bench.answers.values()) == {"refused"}
    bench.money.caps = budget.parse("usd=1")
    number = bench.hold()
    assert bench.answers == {number: 2000} and not bench.accounts.refused


def test_an_answer_that_its_client_did_not_wait_for_is_given_back(tmp_path):
    """The answer and the client's leaving come in one moment: what was held must not stay held."""
    import asyncio
    import json
    import socket

    from nightlatch.gateway.pipe import Pipe

    async def leave() -> list[dict[str, Any]]:
        ours, theirs = socket.socketpair()
        ours.sendall(json.dumps({"last": 0, "slots": str(tmp_path / "calls.1")}).encode() + b"\n")
        pipe, _ = await Pipe.open(theirs.detach())
        waiting = asyncio.create_task(pipe.hold(CALL, {"at": 0.0}))
        await asyncio.sleep(0)
        pipe.data_received(b'{"id":1,"output":2000}\n')
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await pipe.close()
        return [json.loads(line) for line in ours.recv(1 << 16).splitlines()]

    assert [message["do"] for message in asyncio.run(leave())] == ["hold", "free"]
