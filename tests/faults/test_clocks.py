"""Clocks that lie: a wall clock an hour off, another boot id, a machine that slept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from nightlatch.core.tenure import Tenure
from nightlatch.errors import LeaseLost, StoreUnreachable
from nightlatch.store.keeper import Keeper
from tests.support.programs import Held, alive, environment, faketime, nightlatch, until

TOKEN = ("--", "sh", "-c", "echo $NIGHTLATCH_TOKEN")


@pytest.mark.parametrize("offset", ["+1h", "-1h"])
def test_a_challenger_whose_wall_clock_is_off_steals_nothing(sqlite_url, tmp_path, offset):
    held = Held(sqlite_url, tmp_path, "job", "--ttl", "60s")
    skewed = nightlatch(sqlite_url, "lock", "job", *TOKEN, env=faketime(offset))
    assert skewed.returncode == 75, skewed.stdout + skewed.stderr
    held.end()
    assert nightlatch(sqlite_url, "lock", "job", *TOKEN, env=faketime(offset)).returncode == 0


def test_the_skewed_clock_is_really_skewed(sqlite_url):
    """Otherwise the tests here would pass for nothing."""
    real, ahead = (
        int(nightlatch(sqlite_url, "lock", name, *TOKEN, env=env).stdout)
        for name, env in (("a", {}), ("b", faketime("+1h")))
    )
    assert ahead - real > 3_000_000


def test_tokens_rise_whatever_the_wall_clock_does(sqlite_url):
    tokens = [
        int(nightlatch(sqlite_url, "lock", "job", *TOKEN, env=env).stdout)
        for env in ({}, faketime("+1h"), {}, faketime("-1h"), faketime("+2h"), {})
    ]
    assert tokens == sorted(set(tokens))


OTHER_BOOT = """
import sys
from nightlatch.system import identity
identity._known["boot"] = "another-boot"
from nightlatch.cli.main import main
main(sys.argv[1:])
"""


def after_reboot(store: str, *words: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", OTHER_BOOT, *words]
    return subprocess.run(program, env=environment(store), text=True, capture_output=True, timeout=60)


def test_after_a_reboot_a_lease_is_free_at_once(sqlite_url, tmp_path):
    held = Held(sqlite_url, tmp_path, "job", "--ttl", "1h")
    held.end()
    until(lambda: not alive(held.command))
    done = after_reboot(sqlite_url, "lock", "job", *TOKEN)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > held.token


def test_another_boot_id_alone_frees_nothing(sqlite_url, tmp_path):
    held = Held(sqlite_url, tmp_path, "job", "--ttl", "1h")
    assert after_reboot(sqlite_url, "lock", "job", *TOKEN).returncode == 75
    assert alive(held.command)
    held.end()


def test_a_grant_of_another_boot_without_a_lifetime_is_watched_for_its_ttl(sqlite_url):
    assert nightlatch(sqlite_url, "lease", "acquire", "job", "--ttl", "1s").returncode == 0
    assert after_reboot(sqlite_url, "lease", "acquire", "job").returncode == 75, "its clock means nothing here"
    assert after_reboot(sqlite_url, "lease", "acquire", "job", "--wait", "50s").returncode == 0


OTHER_MACHINE = OTHER_BOOT.replace("main(sys", "identity._known['machine'] = 'another-machine'\nmain(sys")


def test_another_machine_on_one_sqlite_file_is_refused(sqlite_url):
    assert nightlatch(sqlite_url, "lease", "acquire", "job", "--ttl", "1h").returncode == 0
    program = [sys.executable, "-c", OTHER_MACHINE, "lease", "acquire", "job"]
    done = subprocess.run(program, env=environment(sqlite_url), text=True, capture_output=True, timeout=60)
    assert done.returncode == 69
    assert "another machine" in done.stderr
    assert "release job --force" in done.stderr
    assert nightlatch(sqlite_url, "lease", "release", "job", "--force").returncode == 0
    assert subprocess.run(program, env=environment(sqlite_url), capture_output=True).returncode == 0


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


class Shaky:
    """A store whose renew does what the test says."""

    def __init__(self) -> None:
        self.renewals = 0
        self.fails: BaseException | None = None

    def renew(self, name: str, grant: str, ttl: float) -> None:
        self.renewals += 1
        if self.fails:
            raise self.fails


@pytest.fixture
def kept():
    clock, store = Clock(), Shaky()
    events: list[object] = []
    keeper = Keeper(
        store,  # type: ignore[arg-type]
        "job",
        "grant",
        Tenure(start=clock.time, ttl=60.0),
        now=clock,
        on_tenure=lambda tenure: events.append(tenure.start),
        on_lost=lambda lost: events.append(lost.reason),
    )
    yield keeper, clock, store, events
    keeper.stop()


def test_a_machine_that_slept_past_its_ttl_knows_that_it_lost(kept):
    keeper, clock, store, events = kept
    keeper.check()
    clock.time += 8 * 3600  # the lid was closed
    with pytest.raises(LeaseLost) as lost:
        keeper.check()
    assert lost.value.reason == "expired"
    assert events[-1] == "expired"
    renewals = store.renewals
    assert keeper.lost
    assert store.renewals == renewals, "what is lost is not renewed"


def test_a_renewal_in_time_carries_on(kept):
    keeper, clock, _, events = kept
    for _ in range(3):
        clock.time += 20.5
        until(lambda: clock.time in events)
        keeper.check()


def test_an_unreachable_store_is_unknown_and_lost_only_when_the_time_is_up(kept):
    keeper, clock, store, events = kept
    store.fails = StoreUnreachable("no answer")
    clock.time += 21
    until(lambda: store.renewals >= 1)
    keeper.check()
    clock.time += 20  # 41 of 60: still sure
    keeper.check()
    clock.time += 10  # 51: neither sure nor lost; check waits
    store.fails = None
    keeper.check()
    assert events[-1] == clock.time
    store.fails = StoreUnreachable("no answer")
    clock.time += 54.1
    with pytest.raises(LeaseLost):
        keeper.check()


def test_a_lease_that_another_has_is_lost_at_once(kept):
    keeper, clock, store, events = kept
    store.fails = LeaseLost("taken", reason="taken")
    clock.time += 20.5
    until(lambda: "taken" in events)
    with pytest.raises(LeaseLost):
        keeper.check()
    assert events.count("taken") == 1


def test_a_store_that_answers_after_the_deadline_saves_nothing(kept):
    """The process was stopped inside the request: the answer is old news."""
    keeper, clock, store, events = kept

    def slow(*_: object) -> None:
        clock.time += 100
        store.renewals += 1

    store.renew = slow
    clock.time += 20.5
    until(lambda: store.renewals == 1)
    with pytest.raises(LeaseLost):
        keeper.check()
    assert events == ["expired"]


def test_a_stopped_supervisor_does_not_stop_the_wardens_clock(sqlite_url, tmp_path):
    held = Held(sqlite_url, tmp_path, "job", "--ttl", "2s")
    os.kill(held.supervisor, signal.SIGSTOP)
    until(lambda: not alive(held.command))
    held.end()
