"""Where the SQL gate's database is: URLs, passwords, servers that are away."""

from __future__ import annotations

from contextlib import closing

import pytest

import nightlatch
from nightlatch import gates
from nightlatch.errors import GateUnreachable, UsageError
from nightlatch.gates import sql_postgres_address
from tests.support.sql_gate import MARK


def test_without_a_url_the_gate_is_named_by_the_connection(target):
    gate = gates.Sql("found")
    with closing(target.connect()) as connection, gate.transaction(connection, MARK):
        connection.execute("INSERT INTO article VALUES ('x', 1)")
    again = gates.open(gate.url)
    assert isinstance(again, gates.Sql)
    assert again.standing()["job"].mark == MARK


def test_before_its_first_connection_a_gate_without_a_url_cannot_be_registered():
    with pytest.raises(UsageError, match="url="):
        gates.Sql("articles").url  # noqa: B018


def test_a_password_is_used_and_not_registered():
    url = "postgresql://app:s%40cret@db:5433/site?sslmode=require&password=again&schema=x"
    gate = gates.Sql("articles", url)
    assert gate.url == "postgresql://app@db:5433/site?sslmode=require#articles"


@pytest.mark.parametrize(
    ("parameters", "url"),
    [
        ({"host": "db", "port": "5433"}, "postgresql://app@db:5433/site"),
        ({"host": "/run/pg", "port": "5433"}, "postgresql://app@/site?host=/run/pg&port=5433"),
        ({"host": "a,b", "target_session_attrs": "any"}, "postgresql://app@/site?host=a,b&target_session_attrs=any"),
        ({"host": "::1", "application_name": "x"}, "postgresql://app@[::1]/site"),
    ],
)
def test_a_connection_says_where_its_database_is(parameters, url):
    assert sql_postgres_address.of_parameters(parameters, "app", "site") == url


def test_a_server_that_cannot_be_reached_is_69_and_a_password_is_asked_for_where_it_belongs(monkeypatch):
    gate = gates.Sql("articles", "postgresql://app@127.0.0.1:1/site")
    with pytest.raises(GateUnreachable, match=r"could not be sealed.*refused"):
        gate.seal(MARK, "me")


def test_a_missing_password_is_asked_for_where_it_belongs(postgres, sqlite_url, monkeypatch):
    rules = postgres.folder / "data" / "pg_hba.conf"
    before = rules.read_text()
    postgres.psql("CREATE ROLE app_with SUPERUSER LOGIN PASSWORD 's@cret'")
    postgres.ask_for_password("app_with")
    try:
        gate = gates.Sql("with", f"postgresql://app_with:s%40cret@127.0.0.1:{postgres.port}/postgres")
        for _ in range(2):  # the second time it is registered: still it is this object that is sealed
            with nightlatch.lease("job", gates=[gate], store=sqlite_url) as lease:
                assert gate.standing()["job"].mark == lease.mark
        with pytest.raises(GateUnreachable, match="PGPASSWORD"):
            nightlatch.lease("job", store=sqlite_url).acquire()
        monkeypatch.setenv("PGPASSWORD", "s@cret")
        nightlatch.lease("job", store=sqlite_url).acquire().release()
    finally:
        rules.write_text(before)
        postgres.psql("SELECT pg_reload_conf(); REASSIGN OWNED BY app_with TO postgres; DROP ROLE app_with")


@pytest.mark.parametrize("url", ["mysql://db/site", "sqlite://", "sqlite:///:memory:", "postgresql://[db/site"])
def test_a_url_of_no_database_is_a_usage_error(url):
    with pytest.raises(UsageError):
        gates.Sql("articles", url)


def test_a_database_on_another_machine_is_left_to_the_holders_there(sqlite_url):
    with nightlatch.lease("job", store=sqlite_url) as lease:
        lease.store.register("job", lease.grant, "sqlite://another-machine/srv/site.db#articles")
    with nightlatch.lease("job", store=sqlite_url):
        pass
