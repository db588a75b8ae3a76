"""The fence of a branch: a second ref that every push through the gate moves too; its commits carry the marks."""

from __future__ import annotations

import os
from collections.abc import Callable

from ..core import fence
from ..core.fence import KeptMark, Refusal
from ..core.model import KnownGrants, Mark
from ..errors import GateUnreachable, StaleToken, StoreUnreachable
from ..store import url as store_url
from ..store.git import names
from ..store.git.objects import Commit, NewObjects
from ..store.git.remote import Remote
from ..store.git.repository import Moved, PushRefused, RefMove, Repository
from ..system import clock, durable, identity
from . import git_seen, refusals

TIMEOUT = 30.0
MAX_TRIES = 20  # how often others (holders of other leases, our own keeper) may move the refs before us


class BranchFence:
    def __init__(self, remote: Remote, branch: str, url: str) -> None:
        self.branch, self.url = branch, url
        folder = store_url.folder_of(f"git+{remote.url}")
        self.repository = Repository(remote, folder)
        self.branch_ref, self.ref = f"refs/heads/{branch}", names.fence(branch)
        file_name = names.encode(branch).replace("/", "")
        self._refusals = os.path.join(folder, "refusals", file_name)
        self._seen = os.path.join(folder, "seen", file_name)
        self._cached: tuple[str, dict[str, KeptMark]] = ("", {})  # a fence commit and its marks
        self.sealed: set[str] = set()  # grants under which this process has sealed it

    def look(self) -> tuple[str, str]:
        """(the branch's tip, the fence) at the remote; "" for what is not there."""
        with gate_errors():
            found = self.repository.look(self.branch_ref, self.ref, timeout=TIMEOUT)
        return found.get(self.branch_ref, ""), found.get(self.ref, "")

    def marks(self, fence_commit: str) -> dict[str, KeptMark]:
        """Every mark by lease name, in this fence commit."""
        if fence_commit != self._cached[0] or not fence_commit:
            self._cached = (fence_commit, _marks(self._commit(fence_commit)))
        return self._cached[1]

    def with_mark(
        self, marks: dict[str, KeptMark], mark: Mark, by: str, known: KnownGrants | None = None
    ) -> dict[str, KeptMark] | None:
        """The marks with `mark` added; None if it is there already. A refusal is recorded on this machine."""
        fence.check_not_gone(self.url, marks, mark, self.sealed)
        try:
            if not fence.admit(self.url, marks, mark, known):
                self.sealed.add(mark.grant)
                return None
        except StaleToken as refused:
            durable.private_folder(os.path.dirname(self._refusals))
            refusals.record(self._refusals, refused, by)
            raise
        return {**marks, mark.name: fence.kept(mark, by, clock.wall())}

    def refusals(self) -> list[Refusal]:
        """The refusals of writers on this machine, the oldest first."""
        return refusals.read(self._refusals)

    def change(self, decide: Callable[[dict[str, KeptMark]], dict[str, KeptMark] | None]) -> None:
        """Move only the fence, to what `decide` returns for the current marks. If that is None, nothing moves.

        If another holder moved the fence first, `decide` gets its marks and decides again.
        """
        for _ in range(MAX_TRIES):
            tip, old = self.look()
            marks = decide(self.marks(old))
            if marks is None:
                return
            try:
                move = self.next_move(old, marks)
                with gate_errors():
                    self.repository.swap([move], timeout=TIMEOUT)
                self.remember(tip, move.new, marks)
                return
            except PushRefused as refused:
                raise GateUnreachable(f"{self.url} cannot be sealed: the server refuses it ({refused})") from refused
            except Moved:
                continue
        raise GateUnreachable(f"{self.url} is being sealed by others: no success in {MAX_TRIES} tries. Try again")

    def next_move(self, old: str, marks: dict[str, KeptMark]) -> RefMove:
        """A move of the fence to a new commit on top of `old`.

        The commit is new even with the same marks: git checks only refs that the push changes, so a fence that stayed
        the same would not be compared, and the branch would move.
        """
        new_objects = NewObjects()
        message = f"fence of {self.branch}\n\n{fence.pack(marks)}\nnonce={identity.new_id()}"
        commit = new_objects.commit(message, parent=old, at=clock.wall())
        self.repository.write(new_objects)
        return RefMove(ref=self.ref, old=old, new=commit.oid)

    def remember(self, tip: str, fence_commit: str, marks: dict[str, KeptMark]) -> None:
        git_seen.keep(self._seen, tip, fence_commit)
        self._cached = (fence_commit, marks)

    def recall(self, mark: Mark) -> tuple[str, str] | None:
        """(tip, fence) after this machine's last push; None unless that fence admits `mark`.

        A refusal must come from the remote's current fence, not from one that is remembered here.
        """
        tip, fence_commit = git_seen.recall(self._seen) or ("", "")
        if fence_commit and fence_commit != self._cached[0]:
            here = self.repository.commits_here({"": fence_commit})
            if not here:
                return None
            self._cached = (fence_commit, _marks(here[""]))
        try:
            fence.admit(self.url, self._cached[1], mark)
        except StaleToken:
            return None
        return (tip, fence_commit) if fence_commit else None

    def _commit(self, oid: str) -> Commit | None:
        """The fence commit `oid`, fetched by its id: the ref may have moved on since."""
        if not oid:
            return None
        with gate_errors():
            found = self.repository.commits({self.ref: oid}, timeout=TIMEOUT)
        if not found:
            raise GateUnreachable(
                f"the fence of {self.url} was set back: {oid[:12]} is no longer in its history. Restore {self.ref}"
            )
        return found[self.ref]


class gate_errors:
    """Turns `StoreUnreachable` into `GateUnreachable`: the remote is used as a gate here."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        if isinstance(error, StoreUnreachable):
            raise GateUnreachable(str(error)) from error


def _marks(commit: Commit | None) -> dict[str, KeptMark]:
    lines = commit.message.split("\n") if commit else []
    return fence.unpack("\n".join(line for line in lines if "\t" in line))
