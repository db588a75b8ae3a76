"""`nightlatch doctor --prove`: the promises tried on a store and targets, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from nightlatch import connect
from nightlatch.cli import prove
from nightlatch.gates.bucket import Bucket
from tests.support.clones import begun, git
from tests.support.programs import carrying, nightlatch, start, until
from tests.support.servers import s3
from tests.support.servers.git import git_repository
from tests.support.servers.postgres import PostgresServer


def files(folder: Path) -> set[str]:
    """All there is, without what a store keeps for itself."""
    return {str(path) for path in folder.rglob("*") if "state" not in path.parts and ".git" not in str(path)}


def proven(store: str, *targets: str) -> dict[str, Any]:
    done = nightlatch(store, "doctor", "--prove", "--json", *targets)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert not found["left"], found["left"]
    return found


def leases(store: str) -> list[str]:
    return [record.name for record in connect(store).records()]


def test_every_kind_of_target_and_none_is_touched(sqlite_url, tmp_path, postgres: PostgresServer):
    site, data = tmp_path / "site", tmp_path / "data.db"
    site.mkdir()
    (tmp_path / "page.html").write_text("mine")
    with closing(sqlite3.connect(data)) as made:
        made.execute("CREATE TABLE article (body TEXT)")
    remote = git_repository(tmp_path / "remote.git")
    begun(remote, tmp_path / "clone")
    before, refs = files(tmp_path), git(remote, "for-each-ref")
    tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
    with s3.server() as endpoint:
        object_ = f"s3://bucket/report?endpoint={endpoint}"
        database = f"postgresql://postgres@127.0.0.1:{postgres.port}/postgres?sslmode=disable#articles"
        targets = [
            str(tmp_path / "page.html"), str(tmp_path / "other.html"), f"{site}/", f"sqlite:///{data}#articles",
            f"git+{remote}#main", object_, database,
        ]  # fmt: skip
        stood, objects = postgres.psql(tables), set(Bucket(object_).below(""))  # other tests have left theirs
        found = proven(sqlite_url, *targets)
        left = set(Bucket(object_).below("")) - objects
    assert found["held"] and {promise["about"] for promise in found["promises"]} >= {*targets, "token", "processes"}
    refusals = [promise["found"] for promise in found["promises"] if promise["about"] in targets]
    assert all("stale write was refused" in refusal for refusal in refusals)
    assert found["takeover"]["frozen"] > found["takeover"]["killed"] > 0
    assert {proof["proof"] for proof in found["proofs"]} >= {"lifetime lock", "sweep"}
    assert files(tmp_path) == before and git(remote, "for-each-ref") == refs and not left
    assert postgres.psql(tables) == stood
    assert postgres.psql("SELECT count(*) FROM nightlatch_gates.mark WHERE gate LIKE 'nightlatch-prove%'") == "0"
    assert leases(sqlite_url) == []
    assert not [*(tmp_path / "state" / "nightlatch.db.d" / "live").iterdir()]


@pytest.mark.parametrize("store", ["postgres_url", "git_url"])
def test_every_kind_of_store(store, request, tmp_path):
    url = request.getfixturevalue(store)
    found = proven(url, str(tmp_path / "page.html"))
    assert found["held"] and leases(url) == []
    if store == "git_url":
        assert "doctor" not in git(tmp_path / "store.git", "for-each-ref")


def test_a_gate_that_lets_everything_pass_is_found_out(sqlite_url, tmp_path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "sitecustomize.py").write_text(
        "from nightlatch.core import fence\nfence.admit = lambda *_: True\n"
    )
    env = {"PYTHONPATH": os.pathsep.join([str(tmp_path / "broken"), os.environ.get("PYTHONPATH", "")])}
    target = str(tmp_path / "page.html")
    shown = nightlatch(sqlite_url, "doctor", "--prove", target, env=env)
    assert shown.returncode == 1, shown.stdout + shown.stderr
    (broken,) = [line for line in shown.stdout.splitlines() if line.startswith("BROKEN")]
    assert target in broken and "THE STALE WRITE LANDED" in broken
    assert "A promise did NOT hold here" in shown.stdout


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_leaves_nothing_behind(sqlite_url, tmp_path, signum):
    before = files(tmp_path)
    running = start(sqlite_url, "doctor", "--prove", str(tmp_path / "page.html"), env={"PROVE": str(tmp_path)})
    until(lambda: any(path.name.startswith(".nightlatch-prove") for path in tmp_path.iterdir()))
    until(lambda: leases(sqlite_url))
    running.send_signal(signum)
    _, said = running.communicate(timeout=60)
    assert running.returncode in (130, 143), said
    assert files(tmp_path) == before and leases(sqlite_url) == []
    until(lambda: not carrying(f"PROVE={tmp_path}"))


def test_what_cannot_be_reached_is_said_in_a_line(sqlite_url, tmp_path):
    done = nightlatch(sqlite_url, "doctor", "--prove", str(tmp_path / "none" / "page.html"))
    assert done.returncode == 69 and "nothing can be written beside" in done.stderr
    assert nightlatch(sqlite_url, "doctor", str(tmp_path)).returncode == 64
    assert subprocess.run(["ls", tmp_path], capture_output=True, text=True).stdout.split() == ["state"]


def test_a_holder_that_prints_two_lines_at_once_is_heard_twice(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(prove, "_PATIENCE", 5.0)
    holder = prove._Worker(["sh", "-c", "printf '1\\n2\\n'; exec sleep 60"], dict(os.environ))
    try:
        assert [holder.line(), holder.line()] == ["1", "2"]
    finally:
        holder.kill()
