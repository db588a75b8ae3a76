"""Done keys in trees of small objects.

The first digit of a hash of scope and key chooses one of sixteen refs, so that writers seldom meet. Below each ref,
trees follow the next digits, as deep as needed, to a blob with many keys, one a line, which is split in sixteen when it
grows. So a new key rewrites one small blob and a few trees of at most sixteen entries, whether there are ten keys or a
million.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from ...core.model import Done
from .names import ROOT
from .objects import BLOB, TREE, NewObjects, read_tree, tree_bytes
from .record import escape, unescape
from .repository import Repository

FULL = 16_384  # bytes; a larger blob is split
_DEPTH = 12  # digits that a path may have; a blob at the end of the longest path is not split


class KeyPlace:
    """Where one key is, or would be."""

    def __init__(self, scope: str, key: str) -> None:
        self.scope, self.key = scope, key
        self._digits = _digits(scope, key)
        self.ref = f"{ROOT}@done/{self._digits[0]}"

    def key_tree(self, repository: Repository, oid: str, timeout: float) -> KeyTree:
        """The trees and the blob on the way to the key, as the commit `oid` has them."""
        if not oid:
            return KeyTree(self, [{}], b"")
        key_tree = self._key_tree(repository, oid)
        if key_tree is None:  # an object of this commit is no longer on the disk
            repository.fetch([self.ref], timeout=timeout)
            key_tree = self._key_tree(repository, oid)
        if key_tree is None:
            # Treating a missing object as an empty one would drop the keys that are in it.
            raise repository.unreachable(f"bad object below {oid}")
        return key_tree

    def _key_tree(self, repository: Repository, oid: str) -> KeyTree | None:
        paths = ["/".join(self._digits[1 : 1 + depth]) for depth in range(1, _DEPTH + 1)]
        trees: list[dict[str, tuple[bytes, str]]] = []
        for found in repository.read(f"{oid}^{{tree}}", *(f"{oid}:{path}" for path in paths)):
            if found is None:
                return None
            if found[1] == "blob":
                return KeyTree(self, trees, found[2])
            trees.append(read_tree(found[2]))
            if self.entry_name(len(trees) - 1) not in trees[-1]:
                break
        return KeyTree(self, trees, b"")

    def entry_name(self, depth: int) -> str:
        """The name of the entry that leads to the key, in the tree at this depth."""
        return self._digits[1 + depth]


class KeyTree:
    """The trees and the blob on the way to one key."""

    def __init__(self, place: KeyPlace, trees: list[dict[str, tuple[bytes, str]]], blob: bytes) -> None:
        self._place = place
        self._trees = trees
        self._lines = blob.decode().split("\n")[:-1]

    def find(self) -> Done | None:
        wanted = f"{escape(self._place.scope)}\t{escape(self._place.key)}\t"
        return next((_read(line) for line in self._lines if line.startswith(wanted)), None)

    def add(self, done: Done, new_objects: NewObjects) -> str:
        """Add this key: put the changed objects into `new_objects`; returns the new tree's id."""
        depth = len(self._trees)
        entry = _add_lines([*self._lines, _line(done)], depth, new_objects)
        for tree in reversed(self._trees):
            depth -= 1
            entry = TREE, new_objects.add("tree", tree_bytes({**tree, self._place.entry_name(depth): entry}))
        return entry[1]


def _add_lines(lines: Sequence[str], depth: int, new_objects: NewObjects) -> tuple[bytes, str]:
    """Add a blob with these lines or, if that is too big, a tree of such blobs; returns its (mode, id)."""
    content = "".join(f"{line}\n" for line in sorted(lines)).encode()
    if len(content) <= FULL or len(lines) == 1 or depth >= _DEPTH:
        return BLOB, new_objects.add("blob", content)
    by_digit: dict[str, list[str]] = {}
    for line in lines:
        scope, key = line.split("\t", 2)[:2]
        by_digit.setdefault(_digits(unescape(scope), unescape(key))[1 + depth], []).append(line)
    entries = {digit: _add_lines(some, depth + 1, new_objects) for digit, some in by_digit.items()}
    return TREE, new_objects.add("tree", tree_bytes(entries))


def _digits(scope: str, key: str) -> str:
    return hashlib.sha256(f"{escape(scope)}\t{escape(key)}".encode()).hexdigest()


def _line(done: Done) -> str:
    fields = (done.scope, done.key, done.input, str(done.token), f"{done.at:.3f}", done.value)
    return "\t".join(map(escape, fields))


def _read(line: str) -> Done:
    scope, key, input, token, at, value = map(unescape, line.split("\t"))
    return Done(scope=scope, key=key, value=value, input=input, token=int(token), at=float(at))
