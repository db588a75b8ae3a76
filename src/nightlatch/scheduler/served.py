"""What this machine served last: each job's definition, and the nightlatch.toml that it is from. Several such files may
have jobs in one store."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Container

from ..errors import StoreUnreachable
from ..system import durable

_FILE = "served.json"


class Served:
    def __init__(self, folder: str, file: str = "") -> None:
        """`folder`: the store's, on this machine; `file`: the path of the nightlatch.toml that is served."""
        self._path, self._file = os.path.join(folder, _FILE), file
        self._known = self._read()
        self._mine = {job for job, (_, source) in self._known.items() if source == file}
        self.definitions = {job: definition for job, (definition, _) in self._known.items()}
        self._written = dict(self.definitions)

    def is_alone(self) -> bool:
        """Is this the only process on this machine that serves the file? Call it once: it keeps a lock until this
        process ends."""
        name = f"{self._path}.{hashlib.sha256(self._file.encode()).hexdigest()[:8]}.lock"
        durable.private_folder(os.path.dirname(name))
        lock = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # not inherited by runs, which may outlive this process
        except OSError:
            os.close(lock)
            return False
        return True

    def elsewhere(self, jobs: Container[str]) -> dict[str, str]:
        """Job → file, for those of these jobs that were served from another file which still exists."""
        return {job: file for job, (_, file) in self._known.items()
                if job in jobs and file != self._file and os.path.exists(file)}  # fmt: skip

    def removed(self, jobs: Container[str]) -> set[str]:
        """The jobs that were served from this file and are not in it any more."""
        return {job for job in self._mine if job not in jobs}

    def remember(self, jobs: Container[str]) -> None:
        """Record what is served now; `jobs` are those of this file. Raises `StoreUnreachable` if this machine's disk
        does not take it."""
        if self.definitions == self._written:
            return
        kept = dict(self.definitions)
        self._mine = {job for job in kept if job in jobs or job in self._mine}
        others = {job: pair for job, pair in self._read().items() if pair[1] != self._file}
        mine = {job: (kept[job], self._file) for job in self._mine}
        try:
            durable.replace(self._path, json.dumps(others | mine).encode())
        except OSError as error:
            problem = f"{self._path} cannot be written: {error.strerror}. Check space and permissions there"
            raise StoreUnreachable(problem) from error
        self._written = kept

    def _read(self) -> dict[str, tuple[str, str]]:
        try:
            with open(self._path, encoding="utf-8") as file:
                return {job: (definition, source) for job, (definition, source) in json.load(file).items()}
        except (OSError, ValueError, AttributeError):
            return {}
