"""The command line on PostgreSQL: migrate, doctor, and what is said when the store cannot be used."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs import TOOL, children, environment, nightlatch, start, until
from tests.support.servers.postgres import PostgresServer, free_port
from tests.support.servers.postgres_proxy import Proxy

SECRET = "correct-horse"


def test_lock_runs_a_command_with_a_rising_token(postgres_url: str) -> None:
    tokens = [
        int(nightlatch(postgres_url, "lock", "job", "--", "sh", "-c", "echo $NIGHTLATCH_TOKEN").stdout)
        for _ in range(2)
    ]
    assert 0 < tokens[0] < tokens[1]


def test_the_default_store_does_not_load_psycopg(sqlite_url: str) -> None:
    program = "import sys; from nightlatch.cli.main import run; run(['lock', 'job', '--', 'true']); "
    ran = subprocess.run(
        [sys.executable, "-c", program + "print('psycopg' in sys.modules)"],
        env=environment(sqlite_url),
        text=True,
        capture_output=True,
    )
    assert ran.stdout == "False\n", ran.stderr


def test_a_password_in_the_url_is_neither_shown_nor_recorded_and_looking_inside_a_run_asks_pgpass(
    postgres: PostgresServer, state_home: Path, tmp_path: Path
) -> None:
    url = postgres.url_with_password("test_unseen", "unseen")
    password = url.split(":")[2].split("@")[0]
    (tmp_path / "items").write_text("a\n")
    words = ("--store", url, "batch", "b", str(tmp_path / "items"), "--json", "--")
    passwords = tmp_path / "pgpass"
    passwords.write_text(f"*:*:*:*:{password}\n")
    passwords.chmod(0o600)
    done = nightlatch("", *words, "sh", "-c", f"{TOOL} status; exit 70", env={"PGPASSFILE": str(passwords)})
    assert "running" in done.stderr and "logs -f" in done.stderr, done.stderr
    assert json.loads(done.stdout)["again"].startswith("nightlatch batch --store 'postgresql://unseen@127.")
    shown = nightlatch("", "--store", url, "status")
    assert "nightlatch --store 'postgresql://unseen@127.0.0.1:" in shown.stdout
    run = json.loads(nightlatch(url, "runs", "--json").stdout)["run"]
    for said in (done.stdout, done.stderr, shown.stdout, nightlatch(url, "show", run, "--json").stdout):
        assert password not in said and "***" not in said


# migrate


def test_migrate_makes_the_tables_once(postgres: PostgresServer, postgres_url: str) -> None:
    first, second = (nightlatch(postgres_url, "migrate") for _ in range(2))
    assert first.stdout.startswith("made the tables of postgresql://")
    assert "is up to date" in second.stdout
    schema = postgres_url.rpartition("=")[2]
    assert postgres.psql(f"SELECT count(*) FROM pg_tables WHERE schemaname = '{schema}'") == "5"


def test_migrate_on_sqlite(sqlite_url: str) -> None:
    dumped = nightlatch(sqlite_url, "migrate", "--dump-sql")
    assert "CREATE TABLE lease" in dumped.stdout
    assert not Path(sqlite_url.removeprefix("sqlite:///")).exists(), "printing the SQL changes nothing"
    assert nightlatch(sqlite_url, "migrate").stdout.startswith("made the tables")
    assert nightlatch(sqlite_url, "migrate", "--dump-sql").stdout == ""


def test_the_owner_runs_the_dumped_sql_and_a_user_without_rights_works(
    postgres: PostgresServer, postgres_url: str
) -> None:
    schema = postgres_url.rpartition("=")[2]
    postgres.psql(f"CREATE ROLE worker_{schema} LOGIN")
    worker = postgres_url.replace("postgres@", f"worker_{schema}@")
    refused = nightlatch(worker, "lease", "acquire", "job")
    assert refused.returncode == 69 and "nightlatch migrate" in refused.stderr
    postgres.psql(nightlatch(worker, "migrate", "--dump-sql").stdout)
    postgres.psql(
        f"GRANT USAGE ON SCHEMA {schema} TO worker_{schema}; "
        f"GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA {schema} TO worker_{schema}"
    )
    assert nightlatch(worker, "lock", "job", "--", "true").returncode == 0


# doctor


def test_doctor_finds_nothing_wrong(postgres_url: str) -> None:
    ran = nightlatch(postgres_url, "doctor")
    assert ran.returncode == 0
    assert not [line for line in ran.stdout.splitlines() if line.startswith(("warn", "fail"))], ran.stdout
    assert "waiters notice a release at once" in ran.stdout


@pytest.mark.parametrize(
    ("setting", "value", "grade", "about"),
    [
        ("synchronous_commit", "off", "fail", "durability"),
        ("statement_timeout", "2s", "warn", "timeouts"),
        ("lock_timeout", "500ms", "warn", "timeouts"),
    ],
)
def test_doctor_finds_a_setting_that_does_harm(
    postgres: PostgresServer, postgres_url: str, setting: str, value: str, grade: str, about: str
) -> None:
    role = f"set_{setting}"
    postgres.psql(f"CREATE ROLE {role} LOGIN SUPERUSER; ALTER ROLE {role} SET {setting} = '{value}'")
    ran = nightlatch(postgres_url.replace("postgres@", f"{role}@"), "doctor")
    found = next(line for line in ran.stdout.splitlines() if line.split()[1] == about)
    assert found.split()[0] == grade and setting in found
    assert ran.returncode == (69 if grade == "fail" else 0)


def test_doctor_warns_of_an_asynchronous_standby(postgres: PostgresServer, postgres_url: str) -> None:
    with postgres.follower():
        until(lambda: postgres.psql("SELECT count(*) FROM pg_stat_replication") == "1")
        said = nightlatch(postgres_url, "doctor").stdout
    assert "warn  failover     1 standby, replicated asynchronously" in said


def test_doctor_sees_a_pooler(postgres: PostgresServer, postgres_url: str) -> None:
    with Proxy(postgres.port) as proxy:
        proxy.pooler = True
        url = postgres_url.replace(str(postgres.port), str(proxy.port)) + "&sslmode=disable&gssencmode=disable"
        assert "there is one: waiters poll every 50 ms" in nightlatch(url, "doctor").stdout


# What is said


def _one_line(url: str, code: int, *words: str, env: dict[str, str] | None = None) -> None:
    """Refused with this code, in one line that says these words, and never the password."""
    ran = nightlatch(url, "lock", "job", "--", "true", env=env or {})
    assert ran.returncode == code, ran.stderr
    assert ran.stderr.count("\n") == 1
    assert all(word in ran.stderr for word in words), ran.stderr
    assert SECRET not in ran.stderr and SECRET not in ran.stdout


def test_a_url_that_is_none(state_home: Path) -> None:
    for url in (
        f"postgresql://me:{SECRET}%@host/db",
        f"postgresql://me@host/db?no_such_option=1&password={SECRET}",
        f"postgresql:/me:{SECRET}@host/db",
        f"postgresql://me:{SECRET}@host/db?schema=No-Schema",
    ):
        _one_line(url, 64, "nightlatch: ")


def test_a_server_that_is_not_there(state_home: Path) -> None:
    port = free_port()
    _one_line(f"postgresql://me:{SECRET}@127.0.0.1:{port}/db", 69, "connection refused", f"me:***@127.0.0.1:{port}")
    _one_line(f"postgresql://me:{SECRET}@no.such.host.invalid/db", 69, "no such host name")
    _one_line(f"postgresql://me:{SECRET}@host:port/db", 69, "cannot be reached", '"port"')


def test_a_wrong_password_user_or_database(postgres: PostgresServer, state_home: Path) -> None:
    postgres.psql("CREATE ROLE guarded LOGIN PASSWORD 'another'")
    postgres.ask_for_password("guarded")
    server = f"127.0.0.1:{postgres.port}"
    _one_line(f"postgresql://guarded:{SECRET}@{server}/postgres", 69, "refused user or password", "~/.pgpass")
    _one_line(f"postgresql://guarded@{server}/postgres", 69, "asks for a password", "~/.pgpass")
    _one_line(f"postgresql://nobody_here:{SECRET}@{server}/postgres", 69, "does not know this user", "createuser")
    _one_line(f"postgresql://postgres:{SECRET}@{server}/nothing_here", 69, "no such database", "createdb")


def test_a_server_that_cannot_be_written_to(postgres: PostgresServer, postgres_url: str) -> None:
    assert nightlatch(postgres_url, "migrate").returncode == 0
    postgres.psql("CREATE ROLE reading LOGIN SUPERUSER; ALTER ROLE reading SET default_transaction_read_only = on")
    url = postgres_url.replace("postgres@", f"reading:{SECRET}@")
    _one_line(url, 69, "is read-only", "target_session_attrs=read-write")


def test_without_psycopg(tmp_path: Path, state_home: Path) -> None:
    (tmp_path / "psycopg.py").write_text("raise ImportError('No module named psycopg')")
    url = f"postgresql://me:{SECRET}@127.0.0.1/db"
    _one_line(url, 69, "-m pip install 'psycopg[binary]>=3.2'", env={"PYTHONPATH": str(tmp_path)})


def test_the_warden_does_without_the_driver(postgres_url: str) -> None:
    running = start(postgres_url, "run", "job", "--timeout", "60s", "--", "sleep", "60")
    try:
        (warden,) = until(
            lambda: children(running.pid) and children(children(running.pid)[0]) and children(running.pid)
        )
        loaded = {pid: "psycopg" in Path(f"/proc/{pid}/maps").read_text() for pid in (running.pid, warden)}
    finally:
        running.terminate()
        running.communicate()
    assert loaded == {running.pid: True, warden: False}, "it is forked after tens of megabytes were loaded"
