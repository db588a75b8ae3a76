"""PostgreSQL and its network fail: nothing is granted twice, short faults kill nobody, nobody outlives long ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import nightlatch
from nightlatch.core.protocols import Store
from nightlatch.database import ear
from nightlatch.errors import Busy, LeaseLost, StoreUnreachable
from nightlatch.runtime.acquire import acquire
from nightlatch.store.sightings import MARGIN
from nightlatch.system import identity
from tests.programs import alive, environment, start, until
from tests.proxy import Proxy
from tests.servers import PostgresServer


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server that is stopped and started: not the one of the other tests."""
    server = PostgresServer()
    yield server
    server.remove()


@pytest.fixture
def proxy(server: PostgresServer) -> Iterator[Proxy]:
    with Proxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def schema(state_home: Path) -> str:
    return f"faults_{identity.new_id()[:12]}"


@pytest.fixture
def url(server: PostgresServer, schema: str) -> str:
    return server.url(schema)


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    store = nightlatch.connect(url)
    yield store
    store.close()


@pytest.fixture
def through(proxy: Proxy, server: PostgresServer, schema: str) -> Iterator[Store]:
    """The same store, through the proxy."""
    store = nightlatch.connect(server.url(schema, port=proxy.port) + "&sslmode=disable&gssencmode=disable")
    assert store.id
    yield store
    store.close()


@pytest.fixture
def lock(url: str) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start `nightlatch lock …`; whatever a failed test leaves behind is ended."""
    started: list[subprocess.Popen[str]] = []

    def lock(*words: str) -> subprocess.Popen[str]:
        started.append(start(url, "lock", *words))
        return started[-1]

    yield lock
    for program in started:
        program.kill()
        program.communicate()


def take(store: Store, name: str, *, ttl: float = 60.0, wait: float = 0.0) -> tuple[str, int]:
    grant = identity.new_id()
    return grant, acquire(store, name, grant, identity.holder(pid=0), ttl, wait)[0].token


class InBackground(threading.Thread):
    """A waiter; `result` is the grant and token it got."""

    def __init__(self, store: Store, name: str, wait: float) -> None:
        super().__init__(daemon=True)
        self._asked = store, name, wait
        self.result: tuple[str, int] | BaseException | None = None
        self.start()

    def run(self) -> None:
        store, name, wait = self._asked
        try:
            self.result = take(store, name, wait=wait)
        except BaseException as error:  # noqa: BLE001 - a test looks at it
            self.result = error

    def got(self, within: float = 20.0) -> tuple[str, int]:
        self.join(within)
        assert isinstance(self.result, tuple), self.result
        return self.result


# Replies that are lost


def test_an_acquire_whose_reply_was_lost_did_happen_and_is_got_by_asking_again(
    store: Store, through: Store, proxy: Proxy
) -> None:
    grant, holder = identity.new_id(), identity.holder(pid=0)
    proxy.lose_replies = 1
    with pytest.raises(StoreUnreachable):
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
    with nightlatch.lease("job", ttl="3s", store=through) as lease:
        before = _version(store, "job")
        proxy.lose_replies = 1
        until(lambda: _version(store, "job") >= before + 2)
        lease.check()
    assert proxy.lose_replies == 0


def test_a_release_whose_reply_was_lost_did_happen(store: Store, through: Store, proxy: Proxy) -> None:
    with nightlatch.lease("job", store=through):
        proxy.lose_replies = 1
    record = store.read("job")
    assert record is not None and record.grant == ""


def test_a_server_that_says_nothing_is_given_up_in_time_to_ask_again(through: Store, proxy: Proxy) -> None:
    grant, _ = take(through, "job", ttl=3.0)
    proxy.silent = True
    started = time.monotonic()
    with pytest.raises(StoreUnreachable, match="did not answer in time"):
        through.renew("job", grant, 3.0)
    assert 0.4 < time.monotonic() - started < 3.0  # a sixth of the TTL, and what a busy machine takes


# Connections that are gone


def test_a_connection_ended_by_the_server_is_replaced_in_silence(
    store: Store, server: PostgresServer, schema: str
) -> None:
    grant, token = take(store, "job")
    _end_sessions(server)
    store.renew("job", grant, 60.0)
    record = store.read("job")
    assert record is not None and (record.grant, record.token) == (grant, token)


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
        thread.join(10)
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
    """A pooler that could not be told from a server may hand out another session at any time."""
    for again in range(4):
        grant, _ = take(store, "job")
        if again == 2:
            assert store._db.read("SELECT count(*) > 0 FROM pg_prepared_statements") == [(True,)]  # type: ignore[attr-defined]
            store._db.write("DEALLOCATE ALL")  # type: ignore[attr-defined]
        store.release("job", grant)


# Handover


def test_a_waiter_is_told_of_a_release_at_once(
    store: Store, url: str, server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were it not told, it would look again after a minute."""
    monkeypatch.setattr(ear, "TRUST", 60.0)
    monkeypatch.setattr("nightlatch.database.postgres.Postgres.poll_every", 60.0)
    grant, token = take(store, "job")
    waiter = InBackground(nightlatch.connect(url), "job", wait=60.0)
    until(lambda: _someone_listens(server))
    store.release("job", grant)
    assert waiter.got()[1] > token


@pytest.mark.parametrize("how", ["pooler", "deaf"])
def test_a_waiter_that_cannot_be_told_looks(
    store: Store, through: Store, proxy: Proxy, server: PostgresServer, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a pooler LISTEN succeeds, and nothing ever comes."""
    monkeypatch.setattr(ear, "TRUST", 60.0)
    setattr(proxy, how, True)
    through.close()  # what it knows of the way is from before
    grant, token = take(store, "job")
    waits, wait = threading.Event(), ear.Notified.wait

    def noticed(self: ear.Notified, seconds: float) -> None:
        waits.set()
        wait(self, seconds)

    monkeypatch.setattr(ear.Notified, "wait", noticed)
    waiter = InBackground(through, "job", wait=60.0)
    assert waits.wait(20)
    assert _someone_listens(server) == (how == "deaf")  # a pooler's sessions are not ours to leave a LISTEN on
    store.release("job", grant)
    assert waiter.got()[1] > token


def test_a_waiter_whose_ear_was_cut_off_still_gets_the_lease(store: Store, url: str, server: PostgresServer) -> None:
    grant, token = take(store, "job")
    waiter = InBackground(nightlatch.connect(url), "job", wait=60.0)
    until(lambda: _someone_listens(server))
    _end_sessions(server)
    store.release("job", grant)
    assert waiter.got()[1] > token


# The server stops


def test_a_short_stop_of_the_server_kills_nobody(
    server: PostgresServer, store: Store, lock: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    """Five seconds, more than lie between two renewals: the command goes on, and so does who waits for its lease."""
    pid, go_on = tmp_path / "pid", tmp_path / "go-on"
    script = f"echo $$ > {pid}.new; mv {pid}.new {pid}; until [ -e {go_on} ]; do sleep 0.05; done"
    holder = lock("job", "--ttl", "14s", "--", "sh", "-c", script)
    until(pid.exists)
    waiter = lock("job", "--wait", "60s", "--", "true")
    until(lambda: _someone_listens(server))
    before = _version(store, "job")
    server.stop()
    time.sleep(5)
    server.start()
    until(lambda: _version(store, "job") > before)  # renewed
    assert alive(int(pid.read_text()))
    assert waiter.poll() is None
    go_on.touch()
    assert _ends(holder) == 0
    assert _ends(waiter) == 0


def test_when_the_server_stays_away_everybody_is_gone_before_the_ttl_has_passed(
    server: PostgresServer, store: Store, lock: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    ttl, pids = 5.0, [tmp_path / "one", tmp_path / "two"]
    holders = [
        lock(p.name, "--ttl", "5s", "--", "sh", "-c", f"echo $$ > {p}.new; mv {p}.new {p}; sleep 100") for p in pids
    ]
    until(lambda: all(p.exists() for p in pids))
    server.stop()
    try:
        stopped = time.monotonic()  # nobody was renewed after this moment
        until(lambda: not any(alive(int(p.read_text())) for p in pids))
        assert time.monotonic() - stopped < ttl
        assert [_ends(holder) for holder in holders] == [LeaseLost.exit_code] * 2
    finally:
        server.start()
    was = store.read("one")
    assert was is not None
    assert take(store, "one", wait=20.0)[1] > was.token


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
    assert take(store, "job", wait=30.0)[1] > token
    assert time.monotonic() - started > ttl * MARGIN


def test_a_holder_that_renews_under_a_clock_that_stepped_back_keeps_its_lease(
    store: Store, server: PostgresServer, schema: str
) -> None:
    grant, _ = take(store, "job", ttl=1.0)
    waiter = InBackground(store, "job", wait=4.0)
    deadline = time.monotonic() + 3.5
    while time.monotonic() < deadline:
        store.renew("job", grant, 1.0)
        server.psql(f"UPDATE {schema}.lease SET expires = expires + 86400000, holder = 'host=far'")
        time.sleep(0.2)
    waiter.join(10)
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
    holder = subprocess.Popen([sys.executable, "-c", program], env=environment(url), stdin=pipe, stdout=pipe, text=True)
    assert holder.stdout and holder.stdin
    token = int(holder.stdout.readline())
    holder.send_signal(signal.SIGSTOP)
    try:
        mine, higher = take(store, "job", wait=30.0)
    finally:
        holder.send_signal(signal.SIGCONT)
    assert higher > token
    assert holder.communicate("\n", timeout=20)[0] == "lost\n"
    record = store.read("job")
    assert record is not None and record.grant == mine


def _version(store: Store, name: str) -> int:
    try:
        record = store.read(name)
    except StoreUnreachable:
        return 0
    return int(record.version) if record else 0


def _end_sessions(server: PostgresServer) -> None:
    """Every session but psql's own is over when this returns."""
    others = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    server.psql(f"SELECT pg_terminate_backend(pid, 5000) FROM ({others}) AS others")


def _someone_listens(server: PostgresServer) -> bool:
    return bool(server.psql("SELECT 1 FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND state = 'idle'"))


def _ends(program: subprocess.Popen[str]) -> int:
    _, said = program.communicate(timeout=30)
    print(said)
    return program.returncode
