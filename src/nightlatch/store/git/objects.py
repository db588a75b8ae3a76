"""git's objects as bytes, made and written without git, because starting git takes a tenth of the time of a push."""

from __future__ import annotations

import hashlib
import os
import zlib

from ...core.value import value

TREE, BLOB = b"40000", b"100644"  # modes of a tree's entries


@value(frozen=True, kw_only=True)
class Commit:
    oid: str
    tree: str
    chained: bool  # it has a parent, because the server accepts only fast-forward pushes
    message: str


class NewObjects:
    """New objects, collected to be written together, each as a loose file."""

    def __init__(self) -> None:
        self._objects: dict[str, tuple[str, bytes]] = {}

    def add(self, kind: str, content: bytes) -> str:
        """Add an object; returns its id."""
        oid = name_of(kind, content)
        self._objects[oid] = kind, content
        return oid

    def commit(self, message: str, *, tree: str = "", parent: str = "", at: float) -> Commit:
        """Add a commit, and return it. `tree` "": the empty tree."""
        author = f"Nightlatch <nightlatch@localhost> {int(at)} +0000"
        lines = [f"tree {tree or self.add('tree', b'')}", *([f"parent {parent}"] if parent else [])]
        content = "\n".join([*lines, f"author {author}", f"committer {author}", "", message, ""]).encode()
        return read_commit(self.add("commit", content), content)

    def write(self, folder: str) -> None:
        for oid, (kind, content) in self._objects.items():
            write(folder, oid, kind, content)


def name_of(kind: str, content: bytes) -> str:
    # git names objects by SHA-1; nothing relies on it for security.
    return hashlib.sha1(b"%s %d\0" % (kind.encode(), len(content)) + content, usedforsecurity=False).hexdigest()


def write(folder: str, oid: str, kind: str, content: bytes) -> None:
    """Write one object as a loose file among the objects in `folder`, unless it is there."""
    subfolder = os.path.join(folder, oid[:2])
    path = os.path.join(subfolder, oid[2:])
    try:
        os.utime(path)  # as git does: the file counts as new again, so `git gc` keeps it
        return
    except FileNotFoundError:
        os.makedirs(subfolder, exist_ok=True)
    temporary = os.path.join(subfolder, f"tmp_obj_{os.urandom(8).hex()}")  # `git gc` removes those that a kill left
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444)
    try:
        with open(fd, "wb", buffering=0) as file:
            unwritten = memoryview(zlib.compress(b"%s %d\0" % (kind.encode(), len(content)) + content, 1))
            while unwritten:
                unwritten = unwritten[file.write(unwritten) :]
        os.rename(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def read(folder: str, oid: str, kind: str) -> bytes | None:
    """The content of an object that is a loose file in `folder`; None for any other."""
    try:
        with open(os.path.join(folder, oid[:2], oid[2:]), "rb") as file:
            head, _, content = zlib.decompress(file.read()).partition(b"\0")
    except (OSError, zlib.error):
        return None
    return content if head.startswith(kind.encode() + b" ") and name_of(kind, content) == oid else None


def read_commit(oid: str, content: bytes) -> Commit:
    head, _, message = content.decode().partition("\n\n")
    lines = head.split("\n")
    chained = any(line.startswith("parent ") for line in lines)
    return Commit(oid=oid, tree=lines[0].removeprefix("tree "), chained=chained, message=message)


def read_tree(content: bytes) -> dict[str, tuple[bytes, str]]:
    """name → (mode, object id)"""
    found = {}
    while content:
        head, _, rest = content.partition(b"\0")
        mode, _, name = head.partition(b" ")
        found[name.decode()] = mode, rest[:20].hex()
        content = rest[20:]
    return found


def tree_bytes(entries: dict[str, tuple[bytes, str]]) -> bytes:
    """The content of a tree. Only for names of equal length: git sorts others differently."""
    return b"".join(
        b"%s %s\0%s" % (mode, name.encode(), bytes.fromhex(oid)) for name, (mode, oid) in sorted(entries.items())
    )
