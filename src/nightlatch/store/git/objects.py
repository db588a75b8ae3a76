"""git's objects as bytes: what is written goes through one `git unpack-objects`, however many there are."""

from __future__ import annotations

import hashlib
import zlib

from ...core.value import value

_KINDS = {"commit": 1, "tree": 2, "blob": 3}

TREE, BLOB = b"40000", b"100644"  # modes of a tree's entries


@value(frozen=True, kw_only=True)
class Commit:
    oid: str
    tree: str
    chained: bool  # it has a parent: the server refuses to let a ref go anywhere but forward
    message: str


class Pack:
    """Objects to be written together."""

    def __init__(self) -> None:
        self._objects: dict[str, tuple[str, bytes]] = {}

    def add(self, kind: str, content: bytes) -> str:
        """Returns the object's id."""
        # Not a matter of security: it is how git names objects.
        oid = hashlib.sha1(b"%s %d\0" % (kind.encode(), len(content)) + content, usedforsecurity=False).hexdigest()
        self._objects[oid] = kind, content
        return oid

    def commit(self, message: str, *, tree: str = "", parent: str = "", at: float) -> Commit:
        """`tree` "": the empty one."""
        who = f"Nightlatch <nightlatch@localhost> {int(at)} +0000"
        lines = [f"tree {tree or self.add('tree', b'')}", *([f"parent {parent}"] if parent else [])]
        content = "\n".join([*lines, f"author {who}", f"committer {who}", "", message, ""]).encode()
        return read_commit(self.add("commit", content), content)

    def bytes(self) -> bytes:
        parts = [b"PACK" + (2).to_bytes(4, "big") + len(self._objects).to_bytes(4, "big")]
        for kind, content in self._objects.values():
            parts += [_header(_KINDS[kind], len(content)), zlib.compress(content, 1)]
        whole = b"".join(parts)
        return whole + hashlib.sha1(whole, usedforsecurity=False).digest()


def _header(kind: int, size: int) -> bytes:
    """Kind and size: four bits of the size in the first byte, seven in each one after it."""
    byte, size = kind << 4 | size & 15, size >> 4
    out = bytearray()
    while size:
        out.append(byte | 128)
        byte, size = size & 127, size >> 7
    out.append(byte)
    return bytes(out)


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
    """Names of equal length only: with others git's order is not that of the names."""
    return b"".join(
        b"%s %s\0%s" % (mode, name.encode(), bytes.fromhex(oid)) for name, (mode, oid) in sorted(entries.items())
    )
