"""Marks kept in a hidden folder beside the target, under a fair lock: what file and folder gates share.

`.NAME.nightlatch/` holds `marks`, `lock`, `refusals` and what is being written. The lock file is never
renamed: whoever waits on it waits on the same one. Do not delete the folder: the marks in it are what
keeps a stale holder out until the next one seals.
"""

from __future__ import annotations

import os
from contextlib import contextmanager

from ..core import fence
from ..core.value import replace
from ..errors import GateUnreachable, StaleToken
from ..system import clock, durable, filelock, identity, process, storage
from . import refusals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..core.fence import Refusal, Standing
    from ..core.model import Known, Mark

PATIENCE = 30.0  # seconds to wait for the lock; whoever has it flushes a file at the most


class Marks:
    """The marks of one target. Every change is made inside `locked`."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.parent, name = os.path.split(target)
        self.folder = os.path.join(self.parent, f".{name}.nightlatch")
        self._marks = os.path.join(self.folder, "marks")
        self._refusals = os.path.join(self.folder, "refusals")
        self._local = False

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Alone at the target. A process that is stopped in here is ended by the next one that wants in."""
        self.make_folder()
        lock = filelock.FairLock(os.path.join(self.folder, "lock"))
        if not self._taken(lock):
            who = lock.holder()
            raise GateUnreachable(
                f"{self.target} is kept locked"
                + (f" by process {who[0]}" if who else " by a process that cannot be seen from here")
                + f": no turn in {PATIENCE:.0f} s. Nothing was written. End that process, then try again"
            )
        try:
            with self.explained():
                yield
        finally:
            lock.release()

    def _taken(self, lock: filelock.FairLock) -> bool:
        with self.explained():
            try:
                return lock.acquire_from_stopped(PATIENCE)
            except PermissionError as error:
                stopped = lock.stopped_holder()
                if stopped is None:
                    raise
                raise GateUnreachable(
                    f"{self.target} is kept locked by process {stopped[0]} of another user, which is stopped. Nothing "
                    f"was written. Have it ended (kill -9 {stopped[0]}), then try again"
                ) from error

    def admit(self, mark: Mark, by: str, known: Known | None = None) -> Mark | None:
        """Inside `locked`: make the mark stand, durably, or refuse it. Returns the one that stood before.

        A mark that stands already is not written again: that would double what a write has to flush.
        """
        standing = self.read()
        try:
            higher = fence.admit(self.target, standing, mark, known)
        except StaleToken as refused:
            refusals.record(self._refusals, refused, by)
            raise
        before = standing.get(mark.name)
        if higher:
            here = fence.Standing(mark=mark, by=" ".join(by.split()), at=clock.wall())
            self._write({**standing, mark.name: here})
        return before.mark if before else None

    def adopt(self, store: str) -> int:
        """Make every mark one of this store's, on a person's word; returns how many were another's.

        Tokens stay, so that a holder of this store has to come with a higher one; it raises its own.
        """
        with self.locked():
            standing = self.read()
            foreign = sum(s.mark.store != store for s in standing.values())
            if foreign:
                self._write({n: replace(s, mark=replace(s.mark, store=store, grant="")) for n, s in standing.items()})
        return foreign

    def read(self) -> dict[str, Standing]:
        """Every mark by lease name. Without the lock: as they stood a moment ago."""
        try:
            with open(self._marks, encoding="utf-8") as file:
                return fence.unpack(file.read())
        except FileNotFoundError:
            return {}
        except ValueError as error:
            # Never taken for "no marks": that would let every stale holder in.
            raise GateUnreachable(
                f"the marks of {self.target} cannot be read: {self._marks} is damaged. Nothing was written. Once no "
                f"old holder is left, remove that file; the next holder seals anew"
            ) from error

    def refusals(self) -> list[Refusal]:
        """The refusals that were recorded here, the oldest first."""
        return refusals.read(self._refusals)

    def make_folder(self) -> str:
        """The hidden folder, made at first use together with those above it."""
        if not self._local:
            self._check_place()
        with self.explained():
            if not os.path.isdir(self.folder):
                # The folders above too: a gate that was registered is sealed before whoever needs it
                # has made its folder again, and a mark must stand there first.
                os.makedirs(self.parent, exist_ok=True)
                durable.private_folder(self.folder)
                durable.fsync_folder(self.parent)
        return self.folder

    def _check_place(self) -> None:
        reason = storage.not_local(self.target)
        if reason:
            raise GateUnreachable(
                f"{self.target} cannot be gated: {reason}, where neither a lock nor a rename is sure to hold. Publish "
                f"to a disk of this machine's own and copy it from there; or write to an object store "
                f"(s3://bucket/key), or to a git repository, which several machines can share"
            )
        self._local = True

    def new_path(self) -> str:
        """A fresh path in the hidden folder, named so that `sweep` can tell when its writer is gone."""
        return os.path.join(self.make_folder(), new_name())

    def sweep(self) -> None:
        """Inside `locked`: remove what killed writers left behind."""
        for name in os.listdir(self.folder):
            # Marks are written inside the lock only: a part of them that is seen here is a dead writer's.
            if abandoned(name) or (name.startswith("marks.") and name.endswith(".tmp")):
                os.unlink(os.path.join(self.folder, name))

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turns what the file system says into one line that tells a person what to do."""
        try:
            yield
        except OSError as error:
            raise GateUnreachable(
                f"{self.target} could not be sealed or written: {error.strerror or error}"
                + (f" ({error.filename})" if error.filename else "")
                + ". Check space, owner and permissions there, then try again"
            ) from error

    def _write(self, standing: dict[str, Standing]) -> None:
        durable.replace(self._marks, fence.pack(standing).encode())


def new_name() -> str:
    """For what is not finished yet: says which process writes it."""
    pid = os.getpid()
    return f"new.{pid}.{process.start_of(pid)}.{_namespace()}.{os.urandom(4).hex()}"


def abandoned(name: str) -> bool:
    """Was this left unfinished by a process that is gone? False if that cannot be known from here."""
    word, *rest = name.split(".")
    if word != "new" or len(rest) != 4 or rest[2] != _namespace():
        return False
    return process.state_of(int(rest[0]), int(rest[1])) in (process.GONE, process.ZOMBIE)


def _namespace() -> str:
    return "".join(filter(str.isdigit, identity.pid_namespace())) or "0"
