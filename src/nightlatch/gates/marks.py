"""Marks in a hidden folder beside the target, under a fair lock: what file and folder gates share.

`.NAME.nightlatch/` has `marks`, `lock`, `refusals`, files that are being written, and the note: an empty file
`landing.GRANT.ID.SHA256` whose name says what was written last. The lock file is never renamed, so all
processes wait on the same one. Do not delete the folder: its marks keep stale holders out until the next seal.
"""

from __future__ import annotations

import os
from contextlib import contextmanager

from ..core import fence
from ..core.fence import KeptMark, Landing, Refusal
from ..core.value import replace
from ..errors import GateUnreachable, StaleToken
from ..system import clock, durable, filelock, identity, process, storage
from . import address, refusals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeVar

    from ..core.model import KnownGrants, Mark

    T = TypeVar("T")

PATIENCE = 30.0  # seconds to wait for the lock; its holder flushes at most one file


class Marks:
    """The marks of one target. Every change is made inside `locked`."""

    def __init__(self, target: str, target_id: Callable[[], str]) -> None:
        """`target_id` returns an id of what is at the target now (an inode, a release), different after each write."""
        self.target, self._target_id = target, target_id
        self.parent, name = os.path.split(target)
        self.folder = os.path.join(self.parent, f".{name}.nightlatch")
        self._marks = os.path.join(self.folder, "marks")
        self._refusals = os.path.join(self.folder, "refusals")
        self._lock = filelock.FairLock(os.path.join(self.folder, "lock"))
        self._is_local = False  # checked at first use
        self._note = ""  # the file name of our last landing
        self.expected: set[str] = set()  # leases that have sealed the target: their marks must be there

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Exclusive access to the target. A process that is stopped in here is killed by the next one that waits."""
        self.make_folder()
        if not self._take_lock():
            holder = self._lock.holder()
            raise GateUnreachable(
                f"{self.target} has been locked for {PATIENCE:.0f} s"
                + (f" by process {holder[0]}" if holder else " by a process that cannot be seen from here")
                + ". Nothing was written. End that process, then try again"
            )
        try:
            with self.explain_errors():
                yield
        finally:
            self._lock.release()

    def _take_lock(self) -> bool:
        with self.explain_errors():
            try:
                return self._lock.acquire_from_stopped(PATIENCE)
            except PermissionError as error:
                stopped = self._lock.stopped_holder()
                if stopped is None:
                    raise
                raise GateUnreachable(
                    f"{self.target} is locked by process {stopped[0]} of another user, which is stopped. Nothing was "
                    f"written. Have it killed (kill -9 {stopped[0]}), then try again"
                ) from error

    def admit(self, mark: Mark, by: str, known: KnownGrants | None = None) -> Mark | None:
        """Inside `locked`: record the mark durably, or refuse it. Returns the lease's previous mark.

        A mark that is there already is not written again: that would double what a write has to flush.
        """
        marks = self._read(fence.unpack)
        if mark.name in self.expected and mark.name not in marks:
            raise self._mark_missing(mark.name)
        try:
            higher = fence.admit(self.target, marks, mark, known)
        except StaleToken as refused:
            refusals.record(self._refusals, refused, by)
            raise
        before = marks.get(mark.name)
        if higher:
            kept = fence.kept(mark, by, clock.wall())
            self._write({**marks, mark.name: kept}, self._with_noted_landing(self._read_note(), marks))
        self.expected.add(mark.name)
        return before.mark if before else None

    def note_landing(self, mark: Mark, digest: str, new_id: str) -> None:
        """Inside `locked`, after `admit` and before the write: note that `new_id` is about to appear at the target.

        The note is only a file name, so it costs no extra flush: the flush of the target after the write is enough
        on a file system that keeps the order of renames. It becomes a line in `marks` when they are next written; if
        the target has another id by then, the write did not land.
        """
        old, self._note = self._note, f"landing.{mark.grant}.{new_id}.{digest}"
        new = os.path.join(self.folder, self._note)
        if old.split(".")[1:2] == [mark.grant]:
            try:
                os.rename(os.path.join(self.folder, old), new)
                return
            except FileNotFoundError:
                pass  # another process has written since
        self._replace_note(new, mark.grant)

    def _replace_note(self, new: str, grant: str) -> None:
        old = self._read_note()
        if old is None:
            os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            return
        if old[1] != grant:
            marks = self._read(fence.unpack)
            kept = self._with_noted_landing(old, marks)
            if kept != self._read(fence.landings):  # the note is of another lease's write, after our seal
                self._write(marks, kept)
        os.rename(os.path.join(self.folder, ".".join(old)), new)

    def landings(self) -> tuple[Landing, ...]:
        """The writes that landed here, the oldest first, as far as they are kept. Without the lock: a moment old."""
        if not os.path.isdir(self.folder):
            return ()
        with self.explain_errors():
            noted = self._read_note()  # first: a note that becomes a line meanwhile is then seen twice, not missed
            return self._with_noted_landing(noted, self._read(fence.unpack))

    def _read_note(self) -> list[str] | None:
        """The parts of the note's name: `landing`, grant, id, digest; None if there is no note."""
        return next((name.split(".") for name in os.listdir(self.folder) if name.startswith("landing.")), None)

    def _with_noted_landing(self, noted: list[str] | None, marks: dict[str, KeptMark]) -> tuple[Landing, ...]:
        """Recorded landings, and the noted write if it landed: a writer killed before its rename leaves a note only."""
        landings = self._read(fence.landings)
        if noted is None:
            return landings
        _, grant, noted_id, digest = noted
        mark = next((kept.mark for kept in marks.values() if kept.mark.grant == grant), None)
        recorded = landings and (landings[-1].mark.grant, landings[-1].digest) == (grant, digest)
        if mark is None or recorded or noted_id != self._target_id():
            return landings
        return (*landings, fence.Landing(mark=mark, digest=digest, at=clock.wall()))[-fence.LANDINGS :]

    def adopt(self, store: str) -> int:
        """Make every mark this store's, because a person says so; returns how many were another store's.

        Tokens stay: a holder from this store needs a higher one, and raises its own if it is lower.
        """
        with self.locked():
            marks = self._read(fence.unpack)
            adopted, foreign = fence.adopted(marks, store)
            if foreign:
                landings = self._with_noted_landing(self._read_note(), marks)
                self._write(
                    adopted, tuple(replace(landing, mark=replace(landing.mark, store=store)) for landing in landings)
                )
        return foreign

    def read(self) -> dict[str, KeptMark]:
        """Every mark by lease name. Without the lock: a moment old."""
        with self.explain_errors():
            return self._read(fence.unpack)

    def _read(self, parse: Callable[[str], T]) -> T:
        try:
            with open(self._marks, encoding="utf-8") as file:
                text = file.read()
            if not text.endswith("\n"):
                raise ValueError("cut off")
            return parse(text)
        except FileNotFoundError:
            return parse("")
        except ValueError as error:
            # Never treated as "no marks": that would admit every stale holder.
            raise GateUnreachable(
                f"the marks of {self.target} cannot be read: {self._marks} is damaged. Nothing was written. Once no "
                f"old holder is left, remove that file, and for each lease that writes there: nightlatch gate forget "
                f"{self.target} --lease NAME. The next holder that names the gate seals it again"
            ) from error

    def refusals(self) -> list[Refusal]:
        """The refusals that were recorded here, the oldest first."""
        return refusals.read(self._refusals)

    def make_folder(self) -> str:
        """The hidden folder; made at first use, with its parents."""
        if not self._is_local:
            self._check_local()
        with self.explain_errors():
            if not os.path.isdir(self.folder):
                if self.expected:
                    raise self._mark_missing(min(self.expected))
                os.makedirs(self.parent, exist_ok=True)
                durable.private_folder(self.folder)
                durable.fsync_folder(self.parent)
        return self.folder

    def _mark_missing(self, lease: str) -> GateUnreachable:
        """A missing mark never means a new target: a mark on the empty mount point would not protect the disk."""
        return GateUnreachable(
            f"{self.target} was sealed by {lease} before, and its mark is gone from {self.folder}. Nothing was "
            f"written. Mount the disk it is on, or restore that folder, then try again"
        )

    def _check_local(self) -> None:
        reason = storage.not_local(os.path.realpath(self.target))
        if reason:
            raise GateUnreachable(
                f"{self.target} cannot be gated: {reason}, where locks and renames are not reliable. Publish to a "
                f"local disk and copy it from there; or write to an object store (s3://bucket/key) or a git "
                f"repository, which several machines can share"
            )
        self._is_local = True

    def new_path(self) -> str:
        """A new path in the hidden folder, named so that `sweep` can check whether its writer is gone."""
        return os.path.join(self.make_folder(), new_name())

    def sweep(self) -> None:
        """Inside `locked`: remove what killed writers left behind."""
        for name in os.listdir(self.folder):
            # Marks are only written inside the lock, so a temporary file of them is a dead writer's.
            if is_abandoned(name) or (name.startswith("marks.") and name.endswith(".tmp")):
                os.unlink(os.path.join(self.folder, name))

    @contextmanager
    def explain_errors(self) -> Iterator[None]:
        """Turn an OSError of the block into an error whose one line says what to do."""
        try:
            yield
        except OSError as error:
            raise address.unwritable(self.target, error) from error

    def _write(self, marks: dict[str, KeptMark], landings: tuple[Landing, ...]) -> None:
        durable.replace(self._marks, fence.pack(marks, landings).encode())


def new_name() -> str:
    """A name for an unfinished file, which identifies the process that writes it."""
    pid = os.getpid()
    return f"new.{pid}.{process.start_of(pid)}.{_namespace()}.{os.urandom(4).hex()}"


def is_abandoned(name: str) -> bool:
    """Was this left unfinished by a process that is gone? False if this process cannot know."""
    word, *rest = name.split(".")
    if word != "new" or len(rest) != 4 or rest[2] != _namespace():
        return False
    return process.state_of(int(rest[0]), int(rest[1])) in (process.GONE, process.ZOMBIE)


def _namespace() -> str:
    return "".join(filter(str.isdigit, identity.pid_namespace())) or "0"
