"""Stores and targets for one course, in its folder or on the shared servers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nightlatch import gates
from nightlatch.system import identity
from tests.soak.servers import ENDPOINT, PORT
from tests.support.programs import until
from tests.support.servers.git import GitHttp, git_http, git_repository
from tests.support.sql_target import Target as SqlTarget

STORES = ("sqlite", "postgres", "git")
GATES = ("file", "folder", "object", "sqlite", "postgres", "git")
# What git does is a push, and a git store's expiry is 1.25 TTL of watching: it needs longer TTLs.
TTL = {**dict.fromkeys(GATES, 1.0), "postgres": 2.0, "git": 4.0}


class Place:
    """`folder` is the course's; git repositories are reached over smart HTTP, whose replies can be lost."""

    def __init__(self, folder: Path, http: GitHttp) -> None:
        self.folder, self.http = folder, http
        self.homes = (str(folder / "machine-a"), str(folder / "machine-b"))

    def store(self, kind: str) -> str:
        if kind == "git":
            return f"git+{self._repository('store.git')}"
        if kind == "postgres":
            return f"{_postgres()}&schema=store_{identity.new_id()}"
        return f"sqlite:///{self.folder}/store/nightlatch.db"

    def target(self, kind: str) -> tuple[str, str, str]:
        """(kind, URL of the gate, where it is on this disk)"""
        on_disk = self.folder / "target"
        if kind == "git":
            return kind, f"git+{self._repository('site.git')}#main", str(self.folder / "site.git")
        if kind == "object":
            return kind, f"s3://bucket/{identity.new_id()}?endpoint={os.environ[ENDPOINT]}", ""
        if kind == "sqlite":
            return kind, until(lambda: _made(f"sqlite:///{self.folder}/site.db#articles")), ""
        if kind == "postgres":
            name = f"site_{identity.new_id()}"
            return kind, until(lambda: _made(f"{_postgres()}&options=-csearch_path%3D{name}#{name}", name)), ""
        gate = gates.File(on_disk) if kind == "file" else gates.Folder(on_disk)
        return kind, gate.url, str(on_disk)

    def _repository(self, name: str) -> str:
        git_repository(self.folder / name)
        return self.http.url(name)

    def lose_reply(self) -> None:
        self.http.lose_replies += 1


def _postgres() -> str:
    return f"postgresql://postgres@127.0.0.1:{os.environ[PORT]}/postgres?sslmode=disable&gssencmode=disable"


def _made(url: str, schema: str = "") -> str:
    """The URL, when its tables are there; "" while the server is away."""
    import psycopg

    try:
        if schema:
            with psycopg.connect(_postgres(), autocommit=True) as connection:
                connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
                found = connection.execute("SELECT to_regclass(%s)", [f"{schema}.total"]).fetchone()
                if found and found[0]:
                    return url
        SqlTarget(url)
    except psycopg.Error:
        return ""
    return url


@contextmanager
def place(folder: Path) -> Iterator[Place]:
    with git_http(folder) as http:
        yield Place(folder, http)
