"""The sets that workers share: a file with a fence of its own, or a target behind one of our gates."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nightlatch
from nightlatch.errors import StaleToken
from tests.support import targets


@dataclass(frozen=True)
class Setup:
    """The workers' options: the store, where the set is, and whether its fence is used."""

    url: str
    ttl: float
    fenced: bool = True
    seed: int = 0
    target: tuple[str, str, str] | None = None  # kind, URL, place on this disk; None: a file with its own fence
    homes: tuple[str, ...] = ()  # state folders, one for each machine; the workers take turns

    def open(self, folder: Path) -> GuardedSet | GatedSet:
        if self.target is None:
            return GuardedSet(folder, fenced=self.fenced)
        kind, url, place = self.target
        return GatedSet(targets.Target(kind, url, Path(place) if place else None), fenced=self.fenced)


# The set and its fence


class GuardedSet:
    """A file with (token, elements). `fenced` false: the token is written and not looked at."""

    gates: tuple[Any, ...] = ()

    def __init__(self, folder: Path, *, fenced: bool) -> None:
        self._file, self._lock, self._fenced = folder / "set", folder / "set.lock", fenced

    def elements(self, token: int | None = None) -> list[str]:
        """With a token, nobody with a lower one writes from now on: what is read stays true until we write."""
        with self._alone():
            elements = self._read()[1]
            if token is not None:
                self._admit(token)
                self._write(token, elements)
            return elements

    def replace(self, lease: nightlatch.Lease, elements: list[str]) -> None:
        with self._alone():
            self._admit(lease.token)
            self._write(lease.token, elements)

    def _admit(self, token: int) -> None:
        stands = self._read()[0]
        if self._fenced and token < stands:
            raise StaleToken(f"{token} is behind {stands}")

    def _read(self) -> tuple[int, list[str]]:
        try:
            token, elements = json.loads(self._file.read_text())
        except FileNotFoundError:
            return 0, []
        return token, elements

    def _write(self, token: int, elements: list[str]) -> None:
        new = self._file.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps([token, elements]))
        os.replace(new, self._file)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with open(self._lock, "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


class GatedSet:
    """A target behind a gate of ours, which the lease seals when it is taken. `fenced` false: written past its gate."""

    def __init__(self, target: targets.Target, *, fenced: bool) -> None:
        self._target, self._fenced = target, fenced
        self.gates: tuple[Any, ...] = (target.gate(),) if fenced else ()

    def elements(self, token: int | None = None) -> list[str]:
        stands = self._target.read()
        return json.loads(stands) if stands else []

    def replace(self, lease: nightlatch.Lease, elements: list[str]) -> None:
        """With the mark alone: the lease would refuse before the gate is asked, and the gate is what is tried here."""
        content = json.dumps(elements)
        if self._fenced:
            targets.write(self.gates[0], lease.mark, content)
        else:
            targets.write_past_the_gate(self._target, content)
