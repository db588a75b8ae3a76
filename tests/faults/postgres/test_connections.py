"""Replies and connections to PostgreSQL are lost: what happened is found out, and nothing is granted twice."""

from __future__ import annotations

import os
import threading
import time

import pytest

import nightlatch
from nightlatch.core.protocols import Store
from nightlatch.errors import StoreUnreachable
from nightlatch.ledger import open_for
from nightlatch.ledger.holds import Hold
from nightlatch.observe import usage_report
from nightlatch.observe.reader import StoreReader
from nightlatch.system import identity
from tests.support.ledgers import begun
from tests.support.postgres_sessions import end_sessions, take, version
from tests.support.programs import until
from tests.support.servers.postgres import PostgresServer
from tests.support.servers.postgres_proxy import Proxy


def test_an_acquire_whose_reply_was_lost_did_happen_and_is_got_by_asking_again(
    store: Store, through: Store, proxy: Proxy
) -> None:
    grant, holder = identity.new_id(), identity.holder(pid=0)
    proxy.lose_replies = 1
    with pytest.raises(StoreUnreachable, match="the outcome is not known"):
        through.acquire("job", grant, holder, 60.0)
    record = store.read("job")
    assert record is not None and record.grant == grant
    assert through.acquire("job", grant, holder, 60.0).token == record.token


def test_a_lost_reply_costs_nobody_the_lease(store: Store, through: Store, proxy: Proxy) -> None:
    proxy.lose_replies = 1
    with nightlatch.lease("job", store=through) as lease:
        record = store.read("job")
        assert record is not None and (record.grant, record.token) == (lease.grant, lease.token)
    assert proxy.lose_replies == 0


def test_a_renewal_whose_reply_was_lost_is_sent_again(store: Store, through: Store, proxy: Proxy) -> None:
    with nightlatch.lease("job", ttl="6s", store=through) as lease:
        before = version(store, "job")
        proxy.lose_replies = 1
        until(lambda: version(store, "job") >= before + 2)
        lease.check()
    assert proxy.lose_replies == 0


def test_a_release_whose_reply_was_lost_did_happen(store: Store, through: Store, proxy: Proxy) -> None:
    with nightlatch.lease("job", store=through):
        proxy.lose_replies = 1
    record = store.read("job")
    assert record is not None and record.grant == ""


def test_a_server_that_says_nothing_is_given_up_in_time_to_ask_again(through: Store, proxy: Proxy) -> None:
    grant, _ = take(through, "job", ttl=12.0)
    proxy.silent = True
    started = time.monotonic()
    with pytest.raises(StoreUnreachable, match="did not answer in time"):
        through.renew("job", grant, 12.0)
    assert 1.9 < time.monotonic() - started < 12.0  # a sixth of the TTL, and what a busy machine takes


# Connections that are gone


def test_a_connection_ended_by_the_server_is_replaced_in_silence(
    store: Store, server: PostgresServer, schema: str
) -> None:
    grant, token = take(store, "job")
    end_sessions(server)
    store.renew("job", grant, 60.0)
    record = store.read("job")
    assert record is not None and (record.grant, record.token) == (grant, token)


def test_a_store_whose_tables_are_dropped_for_a_restore_is_not_made_anew_by_a_process_that_knew_it(
    store: Store, server: PostgresServer, schema: str, url: str
) -> None:
    """An empty store in its place would know no pause, no stage and no done key; and the restore would fail."""
    grant, _ = take(store, "job")
    end_sessions(server)
    server.psql(f"ALTER SCHEMA {schema} RENAME TO {schema}_away")
    for _ in range(2):
        with pytest.raises(StoreUnreachable, match="has lost its tables"):
            store.renew("job", grant, 60.0)
    assert server.psql(f"SELECT count(*) FROM pg_namespace WHERE nspname = '{schema}'").strip() == "0"
    server.psql(f"ALTER SCHEMA {schema}_away RENAME TO {schema}")
    store.renew("job", grant, 60.0)
    end_sessions(server)
    server.psql(f"DROP SCHEMA {schema} CASCADE")
    assert nightlatch.connect(url).id != store.id, "a process that did not know it makes it"
    with pytest.raises(StoreUnreachable, match="is not the same as before"):
        store.renew("job", grant, 60.0)


def test_a_connection_ended_in_the_middle_of_a_verb_leaves_it_unknown(
    store: Store, server: PostgresServer, schema: str
) -> None:
    grant, _ = take(store, "job")
    blocker = nightlatch.connect(server.url(schema))
    failed = threading.Event()

    def release() -> None:
        try:
            store.release("job", grant)
        except StoreUnreachable:
            failed.set()

    with blocker._db.transaction() as execute:  # type: ignore[attr-defined]
        execute(f"SELECT 1 FROM {schema}.lease FOR UPDATE")
        thread = threading.Thread(target=release)
        thread.start()
        waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        until(lambda: server.psql(waiting))
        server.psql(f"SELECT pg_terminate_backend(pid) FROM ({waiting}) AS waiting")
        thread.join(60)
    blocker.close()
    assert failed.is_set()


def test_a_forked_child_and_its_parent_do_not_share_a_connection(store: Store) -> None:
    grant, _ = take(store, "parent")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            take(store, "child")
            code = 0
        finally:
            os._exit(code)
    for _ in range(20):
        store.renew("parent", grant, 60.0)
    assert os.waitpid(child, 0)[1] == 0
    store.renew("parent", grant, 60.0)
    record = store.read("child")
    assert record is not None and record.grant


def test_a_session_that_forgot_its_prepared_statements_is_used_all_the_same(store: Store) -> None:
    """A pooler that looks like a server may switch to another session at any time."""
    for again in range(4):
        grant, _ = take(store, "job")
        if again == 2:
            assert store._db.read("SELECT count(*) > 0 FROM pg_prepared_statements") == [(True,)]  # type: ignore[attr-defined]
            store._db.write("DEALLOCATE ALL")  # type: ignore[attr-defined]
        store.release("job", grant)


def test_a_transaction_is_all_or_nothing_although_its_statements_are_sent_together(store: Store) -> None:
    database = store._db  # type: ignore[attr-defined]
    gate = f"INSERT INTO {database.prefix}gate (name, gate, token, at) VALUES (:name, :gate, 1, 1)"

    def kept() -> list[str]:
        return [name for (name,) in database.read(f"SELECT gate FROM {database.prefix}gate ORDER BY gate")]

    def write(*names: str) -> list[tuple[object, ...]]:
        with database.transaction() as execute:
            for name in names:
                execute.later(gate, name="job", gate=name)
            return execute("SELECT 1") if names[-1] == "a" else []

    for names in (["a", "b", "a", "c"], ["a", "b", "a"]):  # refused at the commit, and before it
        with pytest.raises(StoreUnreachable, match="duplicate key"):
            write(*names)
    assert kept() == []
    with database.transaction() as execute:
        execute.later(gate, name="job", gate="d")
        assert execute(f"SELECT COUNT(*) FROM {database.prefix}gate") == [(1,)]
        execute.later(gate, name="job", gate="e")
    assert kept() == ["d", "e"]


def test_a_transaction_larger_than_the_connections_buffers_goes_through(store: Store) -> None:
    database = store._db  # type: ignore[attr-defined]
    gate = f"INSERT INTO {database.prefix}gate (name, gate, token, at) VALUES (:name, :gate, 1, 1) RETURNING gate"
    with database.transaction() as execute:
        execute.many(gate, [{"name": f"job{n}", "gate": str(n) * 1000} for n in range(3000)])
    assert database.read(f"SELECT COUNT(*) FROM {database.prefix}gate") == [(3000,)]


def test_a_call_is_held_once_though_the_reply_to_its_hold_was_lost(through: Store, proxy: Proxy) -> None:
    ledger = open_for(through.url)
    run, cap, seen = begun(ledger).run, ("job", "day", "usd"), []
    hold = Hold(run=run.id, attempt=1, call=1, job="job", at=ledger.clock(), usd=5, tokens=0, calls=1, fixed=5,
                output_rate=0, output=0)  # fmt: skip

    def decide(taken: dict[tuple[str, str, str], int]) -> Hold:
        seen.append(taken[cap])
        return hold

    proxy.lose_commits = 1
    with pytest.raises(StoreUnreachable):
        ledger.holds.put_within([cap], decide)
    assert ledger.holds.put_within([cap], decide, call=(run.id, 1, 1)) == hold
    assert seen == [0, 0], "it does not count against itself"
    assert ledger.holds.taken(*cap) == 5


def test_statements_without_answers_cost_no_round_trips(through: Store, proxy: Proxy) -> None:
    writer = begun(open_for(through.url))
    writer.usage(usd=1.0)
    before = proxy.round_trips
    writer.finish("succeeded")
    assert proxy.round_trips - before == 4


def test_many_questions_are_one_round_trip_also_on_a_session_that_forgot_its_prepared_statements(
    through: Store, proxy: Proxy
) -> None:
    ledger = open_for(through.url)
    for job in ("a", "b"):
        begun(ledger, job=job)
    database, asked = ledger._tables.database, ["a", "b", "none"]
    for _ in range(2):  # at its second use a statement is prepared
        assert list(ledger.newest_of(asked)) == ["a", "b"]
    before = proxy.round_trips
    assert [run.job for run in ledger.newest_of(asked).values()] == ["a", "b"]
    assert proxy.round_trips - before == 1
    database.read("DEALLOCATE ALL")
    assert [run.job for run in ledger.newest_of(asked).values()] == ["a", "b"]
    assert ledger.newest_of([]) == {}


def test_a_run_is_opened_in_four_round_trips(through: Store, proxy: Proxy) -> None:
    ledger = open_for(through.url)
    for key in ("a", "b", "c"):
        ledger.open_run("job", key)
    before = proxy.round_trips
    opened = ledger.open_run("job", "d")  # looks, locks the chain, inserts, commits
    assert proxy.round_trips - before == 4
    assert opened == ledger.run(opened.id) and opened.anchor.startswith("job:job:4:")


def test_what_a_usual_run_of_each_job_used_is_one_round_trip(through: Store, proxy: Proxy) -> None:
    ledger = open_for(through.url)
    reader, taken = StoreReader(through.url), []
    for jobs in (["a", "b"], ["c", "d", "e"]):
        for job in jobs:
            for usd in (1, 2, 9):
                writer = begun(ledger, job=job, key=str(usd))
                writer.usage(usd=usd)
                writer.finish("succeeded")
        for _ in range(3):  # statements are prepared by then
            before = proxy.round_trips
            rows = usage_report.report(reader).rows
            trips = proxy.round_trips - before
        assert [row.usual_run.usd for row in rows if row.usual_run] == [2.0] * len(rows)
        taken.append(trips)
    assert taken[0] == taken[1]


@pytest.mark.parametrize("more", ["", ", CAST(n AS numeric)"])
def test_a_long_answer_is_read_as_a_short_one_is(store: Store, more: str) -> None:
    sql = f"SELECT n, 'é' || n, n % 2 = 0, NULLIF(n, 3), CAST(n AS smallint){more} FROM generate_series(1, :most) AS n"
    short, long = (store._db.read(sql, most=most) for most in (5, 500))  # type: ignore[attr-defined]
    assert long[:5] == short and len(long) == 500
    assert short[2][:5] == (3, "é3", False, None, 3) and (not more or short[2][5] == "3")
