"""Places for `doctor --prove` to write to: one beside each of the user's targets, removed afterwards."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tempfile
from contextlib import closing
from typing import Any

from .. import gates
from ..core.model import Mark
from ..errors import GateUnreachable, UsageError
from ..store.git import names

PREFIX = "nightlatch-prove-"


def places(targets: list[str], number: str) -> list[TrialPlace]:
    return [trial_place(target, f"{number}-{index}") for index, target in enumerate(targets, 1)]


def trial_place(target: str, number: str) -> TrialPlace:
    """The place beside `target` in the proof `number`; nothing is created yet."""
    if target.startswith("git+"):
        return _BranchPlace(target, number)
    if target.startswith(("postgresql:", "postgres:")):
        return _TablePlace(target, number)
    if target.startswith("sqlite:"):
        return _DatabasePlace(target, os.path.dirname(_sqlite_path(target)), number)
    if target.startswith(("s3:", "gs:", "az:")):
        return _ObjectPlace(target, number)
    gate = gates.at(target)
    if isinstance(gate, gates.Folder):
        return _FolderPlace(target, os.path.dirname(os.path.abspath(gate.path)), number)
    if isinstance(gate, gates.File):
        return _FilePlace(target, os.path.dirname(os.path.abspath(gate.path)), number)
    raise UsageError(f"{target} cannot be tested: name a file, a folder, a database, a branch, an object")


class TrialPlace:
    """A temporary place to write to, beside the user's `target`, which is not changed."""

    def __init__(self, target: str, number: str) -> None:
        self.target, self.name = target, f"{PREFIX}{number}"

    def make(self) -> None:
        """Create what must exist before a gate is sealed."""

    def gate(self) -> Any:
        raise NotImplementedError

    def write(self, gate: Any, mark: Mark, worker: str) -> None:
        raise NotImplementedError

    def read(self) -> str:
        """The worker that wrote last; "": none."""
        raise NotImplementedError

    def remove(self) -> None:
        raise NotImplementedError


class _OnDiskPlace(TrialPlace):
    def __init__(self, target: str, folder: str, number: str) -> None:
        super().__init__(target, number)
        self.folder = os.path.join(folder, f".{self.name}")

    def make(self) -> None:
        try:
            os.mkdir(self.folder, 0o700)
        except OSError as error:
            raise GateUnreachable(f"nothing can be written beside {self.target}: {error.strerror}") from error

    def remove(self) -> None:
        shutil.rmtree(self.folder)


class _FilePlace(_OnDiskPlace):
    def gate(self) -> Any:
        return gates.File(os.path.join(self.folder, "file"))

    def write(self, gate: Any, mark: Mark, worker: str) -> None:
        gate.write(mark, worker.encode())

    def read(self) -> str:
        return _content(os.path.join(self.folder, "file"))


class _FolderPlace(_OnDiskPlace):
    def gate(self) -> Any:
        return gates.Folder(os.path.join(self.folder, "folder"))

    def write(self, gate: Any, mark: Mark, worker: str) -> None:
        with tempfile.TemporaryDirectory(prefix=PREFIX) as source:
            with open(os.path.join(source, "file"), "w", encoding="utf-8") as file:
                file.write(worker)
            gate.publish(mark, source)

    def read(self) -> str:
        return _content(os.path.join(self.folder, "folder", "file"))


class _SqlPlace(TrialPlace):
    @property
    def table(self) -> str:
        return self.name.replace("-", "_")

    def connect(self) -> Any:
        raise NotImplementedError

    def write(self, gate: Any, mark: Mark, worker: str) -> None:
        with closing(self.connect()) as connection, gate.transaction(connection, mark):
            connection.execute(f"DELETE FROM {self.table}")
            connection.execute(f"INSERT INTO {self.table} VALUES ('{worker}')")

    def read(self) -> str:
        with closing(self.connect()) as connection:
            rows = connection.execute(f"SELECT worker FROM {self.table}").fetchall()
        return str(rows[0][0]) if rows else ""

    def make(self) -> None:
        with closing(self.connect()) as connection:
            connection.execute(f"CREATE TABLE {self.table} (worker TEXT)")
            connection.commit()


class _DatabasePlace(_OnDiskPlace, _SqlPlace):
    """SQLite: a file beside the target."""

    @property
    def _path(self) -> str:
        return os.path.join(self.folder, "file.db")

    def make(self) -> None:
        _OnDiskPlace.make(self)
        _SqlPlace.make(self)

    def gate(self) -> Any:
        return gates.Sql(self.name, f"sqlite:///{self._path}")

    def connect(self) -> Any:
        return sqlite3.connect(self._path, timeout=30)


class _TablePlace(_SqlPlace):
    """PostgreSQL: a table in the same database. The schema nightlatch_gates, which all gates there share, stays."""

    def __init__(self, target: str, number: str) -> None:
        super().__init__(target, number)
        self._url = target.partition("#")[0]

    def gate(self) -> Any:
        return gates.Sql(self.name, self._url)

    def connect(self) -> Any:
        import psycopg

        try:
            return psycopg.connect(self._url, connect_timeout=10)
        except psycopg.Error as error:
            raise GateUnreachable(f"{self.gate().url} cannot be reached: {type(error).__name__}") from None

    def remove(self) -> None:
        with closing(self.connect()) as connection:
            connection.execute(f"DROP TABLE IF EXISTS {self.table}")
            for table in ("mark", "refusal"):
                connection.execute(f"DELETE FROM nightlatch_gates.{table} WHERE gate = %s", (self.name,))
            connection.commit()


class _BranchPlace(TrialPlace):
    def gate(self) -> Any:
        return gates.Git(self.target.partition("#")[0], self.name)

    def write(self, gate: Any, mark: Mark, worker: str) -> None:
        with tempfile.TemporaryDirectory(prefix=PREFIX) as source:
            _git(source, "init", "--quiet")
            with open(os.path.join(source, "file"), "w", encoding="utf-8") as file:
                file.write(worker)
            _git(source, "add", "file")
            _git(source, "commit", "--quiet", "--no-verify", "-m", worker)
            gate.push(mark, folder=source)

    def read(self) -> str:
        repository = self.gate()._fence.repository
        ref = f"refs/heads/{self.name}"
        tip = repository.look(ref, timeout=30.0).get(ref, "")
        if not tip:
            return ""
        repository.fetch([ref], timeout=30.0)
        return str(repository.git("show", f"{tip}:file").decode())

    def remove(self) -> None:
        self.gate()._fence.repository.delete([f"refs/heads/{self.name}", names.fence(self.name)])


class _ObjectPlace(TrialPlace):
    def gate(self) -> Any:
        plain, question, query = self.target.partition("?")
        return gates.Object(f"{plain}.{self.name}{question}{query}")

    def write(self, gate: Any, mark: Mark, worker: str) -> None:
        gate.write(mark, worker.encode())

    def read(self) -> str:
        gate = self.gate()
        return str(gate.read().decode()) if gate.key() else ""

    def remove(self) -> None:
        gate = self.gate()
        for path in [*gate._bucket.below(f"{gate._key}.releases"), f"{gate._key}.nightlatch"]:
            gate._bucket.discard(path)


def _sqlite_path(target: str) -> str:
    path = target.partition("#")[0].removeprefix("sqlite://")
    return os.path.abspath(path[1:] if path.startswith("//") else path.removeprefix("/"))


def _content(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def _git(folder: str, *words: str) -> None:
    author = ("-c", "user.name=nightlatch", "-c", "user.email=nightlatch@localhost", "-c", "commit.gpgSign=false")
    ended = subprocess.run(["git", "-C", folder, *author, *words], check=False, capture_output=True, text=True)
    if ended.returncode:
        raise GateUnreachable(f"git {words[0]} failed in a temporary folder: {ended.stderr.strip()}")
