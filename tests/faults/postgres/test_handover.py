"""Whoever waits for a lease on PostgreSQL hears of its release, or looks."""

from __future__ import annotations

import threading

import pytest

import nightlatch
from nightlatch.core.protocols import Store
from nightlatch.database import release_waiter
from tests.support.postgres_sessions import InBackground, end_sessions, someone_listens, take
from tests.support.programs import until
from tests.support.servers.postgres import PostgresServer
from tests.support.servers.postgres_proxy import Proxy


def test_a_waiter_is_told_of_a_release_at_once(
    store: Store, url: str, server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the notification it would look again after a minute."""
    monkeypatch.setattr(release_waiter, "TRUST", 60.0)
    monkeypatch.setattr("nightlatch.database.postgres.PostgresDatabase.poll_every", 60.0)
    grant, token = take(store, "job")
    waiter = InBackground(nightlatch.connect(url), "job", wait=60.0)
    until(lambda: someone_listens(server))
    store.release("job", grant)
    assert waiter.got()[1] > token


@pytest.mark.parametrize("how", ["pooler", "deaf"])
def test_a_waiter_that_cannot_be_told_looks(
    store: Store, through: Store, proxy: Proxy, server: PostgresServer, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a pooler LISTEN succeeds, and nothing ever comes."""
    monkeypatch.setattr(release_waiter, "TRUST", 60.0)
    setattr(proxy, how, True)
    through.close()  # what it knows of the way is from before
    grant, token = take(store, "job")
    waits, wait = threading.Event(), release_waiter.NotifiedWaiter.wait

    def noticed(self: release_waiter.NotifiedWaiter, seconds: float) -> None:
        waits.set()
        wait(self, seconds)

    monkeypatch.setattr(release_waiter.NotifiedWaiter, "wait", noticed)
    waiter = InBackground(through, "job", wait=60.0)
    assert waits.wait(60)
    assert someone_listens(server) == (how == "deaf")  # a pooler's sessions are not ours to leave a LISTEN on
    store.release("job", grant)
    assert waiter.got()[1] > token


def test_a_waiter_whose_ear_was_cut_off_still_gets_the_lease(store: Store, url: str, server: PostgresServer) -> None:
    grant, token = take(store, "job")
    waiter = InBackground(nightlatch.connect(url), "job", wait=60.0)
    until(lambda: someone_listens(server))
    end_sessions(server)
    store.release("job", grant)
    assert waiter.got()[1] > token
