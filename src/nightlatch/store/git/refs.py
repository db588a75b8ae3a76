"""Refs of a remote as this process sees them: remembered, looked at, and moved by compare-and-swap."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from ...errors import StoreUnreachable
from ...system import clock
from . import names
from .objects import Commit, NewObjects
from .repository import PushRefused, RefMove, Repository

TRIES = 12  # how often other writers may be first at a ref before we give up
PATIENCE = 30.0  # seconds for one request, unless a TTL allows less


class RefChange:
    """A new commit for a ref, which must still be at `before`."""

    def __init__(self, ref: str, before: Commit | None, message: str, tree: str = "") -> None:
        self.ref, self.before, self.message, self.tree = ref, before, message, tree


class Refs:
    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.last_seen: dict[str, Commit | None] = {}  # ref → the commit there; None: it did not exist
        self._turns: dict[str, threading.Lock] = {}
        self._chained = False  # the server refused a commit without a parent

    def push(
        self, changes: list[RefChange], timeout: float, objects: NewObjects | None = None, moves: Sequence[RefMove] = ()
    ) -> None:
        """Write a new commit for each change and move its ref there; also make the `moves`. All refs move, or none."""
        objects = objects or NewObjects()
        try:
            self._swap(changes, timeout, objects, moves)
        except PushRefused as refused:
            if self._chained or not _wants_fast_forward(str(refused)) or not any(change.before for change in changes):
                raise StoreUnreachable(
                    f"the server of {self.repository.shown} refuses pushes to {names.ROOT}* ({refused}). "
                    f"Allow them there, or use another store: --store URL"
                ) from refused
            # Some servers accept only fast-forward pushes: then each commit has the previous one as its parent.
            self._chained = True
            self.push(changes, timeout, objects, moves)

    def _swap(self, changes: list[RefChange], timeout: float, objects: NewObjects, moves: Sequence[RefMove]) -> None:
        new_moves, new = self.make_commits(changes, objects)
        try:
            self.repository.swap([*new_moves, *moves], timeout=timeout)
        except BaseException:
            for ref in new:
                self.last_seen.pop(ref, None)  # where it is now is unknown
            raise
        self.last_seen |= new

    def make_commits(self, changes: list[RefChange], objects: NewObjects) -> tuple[list[RefMove], dict[str, Commit]]:
        """Make the new commits in the local repository; returns the moves that bring the refs to them."""
        moves, new = [], {}
        for change in changes:
            before = change.before.oid if change.before else ""
            chained = change.before is not None and (self._chained or change.before.chained)
            parent = before if chained else ""
            new[change.ref] = commit = objects.commit(change.message, tree=change.tree, parent=parent, at=clock.wall())
            moves.append(RefMove(ref=change.ref, old=before, new=commit.oid))
        self.repository.write(objects)
        return moves, new

    def look(self, *refs: str, timeout: float = PATIENCE) -> Commit | None:
        """Read refs from the remote, with their commits; returns the first one's commit."""
        found = self.get(*refs, timeout=timeout)
        self.last_seen |= {ref: found.get(ref) for ref in refs}
        return found.get(refs[0])

    def get(self, *patterns: str, only: Callable[[str], object] = bool, timeout: float = PATIENCE) -> dict[str, Commit]:
        """Read the refs that match from the remote, each with its commit; only those that pass `only`."""
        for _ in range(TRIES):
            oids = {ref: oid for ref, oid in self.repository.look(*patterns, timeout=timeout).items() if only(ref)}
            known = {commit.oid: commit for commit in list(self.last_seen.values()) if commit}
            found = {ref: known[oid] for ref, oid in oids.items() if oid in known}
            found |= self.repository.commits(
                {ref: oid for ref, oid in oids.items() if ref not in found}, timeout=timeout
            )
            if len(found) == len(oids):  # otherwise one moved between the look and the fetch
                return found
        raise self.crowded(patterns[0])

    def turn(self, ref: str) -> threading.Lock:
        """The lock by which threads of this process take turns on a ref, instead of racing each other at the server."""
        return self._turns.setdefault(ref, threading.Lock())

    def crowded(self, name: str) -> StoreUnreachable:
        return StoreUnreachable(f"others wrote {name} first, {TRIES} times in a row. Try again")


def _wants_fast_forward(message: str) -> bool:
    signs = ("fast-forward", "forward", "rewind", "force", "hook declined", "denied", "not allowed", "prohibited")
    return any(sign in message for sign in signs)
