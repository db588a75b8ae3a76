"""What a push has to know of its repository, read from the files themselves: a git process costs a tenth of a push.

Only where they are plain: a tip that is still a file of its own, refs in files, objects named by SHA-1. Whatever else
there is (a packed tip, reftable, a subfolder, settings that say how to write) is not known here, and git is asked.
"""

from __future__ import annotations

import os

from ..store.git import objects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_STEPS = 64  # ancestors that are looked at

_HEX = frozenset("0123456789abcdef")


class Memory:
    """What the last push of a gate learned, so that the next one need not ask git again."""

    def __init__(self) -> None:
        self.settings: tuple[object, ...] = ()  # which settings were looked at
        self.usual = False  # and that they change nothing of how commits are written
        self.line = ""  # a commit of our own ...
        self.apart: frozenset[str] = frozenset()  # ... and what others' refs pointed at, none of which contains it


class Plain:
    """The repository of a work tree. "" and None mean: ask git."""

    def __init__(self, folder: str) -> None:
        self._home, self._common = _places(folder)
        self.objects = os.path.join(self._common, "objects")
        self._commits: dict[str, bytes] = {}

    def tip(self) -> str:
        """The commit in HEAD."""
        said = _line(os.path.join(self._home, "HEAD")) if self._home else ""
        name = said.removeprefix("ref: ")
        if name != said:
            if not name.startswith("refs/heads/"):
                return ""
            said = _line(os.path.join(self._common, name))
        return said if _is_name(said) and self.commit(said) is not None else ""

    def commit(self, oid: str) -> bytes | None:
        if oid not in self._commits:
            content = objects.read(self.objects, oid, "commit") if self._home else None
            if content is None:
                return None
            self._commits[oid] = content
        return self._commits[oid]

    def behind(self, tip: str) -> Iterator[str]:
        """The nearest ancestors of `tip`, without itself."""
        waiting, met = [tip], {tip}
        for step in range(_STEPS):
            if step >= len(waiting):
                return
            for parent in _parents(self.commit(waiting[step]) or b""):
                if parent not in met:
                    met.add(parent)
                    waiting.append(parent)
                    yield parent

    def others(self) -> frozenset[str] | None:
        """What every remote branch and tag points at."""
        found: set[str] = set()
        try:
            for kind in ("remotes", "tags") if self._home else ():
                for place, _, names in os.walk(os.path.join(self._common, "refs", kind), onerror=_unless_absent):
                    found.update(_line(os.path.join(place, name)) for name in names)
            with open(os.path.join(self._common, "packed-refs")) as file:
                found.update(line[:40] for line in file if line.startswith((" refs/remotes/", " refs/tags/"), 40))
        except FileNotFoundError:
            pass
        except (OSError, ValueError):
            return None
        found = {said for said in found if not said.startswith("ref: ")}  # another of these refs
        return frozenset(found) if self._home and all(map(_is_name, found)) else None

    def has_hook(self, name: str) -> bool:
        return os.path.exists(os.path.join(self._common, "hooks", name))

    def settings(self) -> tuple[object, ...]:
        """Another value when the repository's settings have changed; () if they are out of sight."""
        try:
            seen = os.stat(os.path.join(self._common, "config"))
        except OSError:
            return ()
        return self._common, seen.st_ino, seen.st_mtime_ns, seen.st_size


def _places(folder: str) -> tuple[str, str]:
    """The git folder of a work tree, and the one that it shares with others; "" if they are not in sight."""
    home = os.path.join(folder, ".git")
    if os.path.isdir(home):
        return home, home
    said = _line(home)
    if not said.startswith("gitdir: "):
        return "", ""
    home = os.path.join(folder, said.removeprefix("gitdir: "))
    shared = _line(os.path.join(home, "commondir"))
    return home, os.path.join(home, shared) if shared else home


def _line(path: str) -> str:
    """A file that is one line; "" if it is none."""
    try:
        with open(path, errors="surrogateescape") as file:
            said = file.read(4096)
    except OSError:
        return ""
    return said.rstrip("\n")


def _is_name(said: str) -> bool:
    return len(said) == 40 and _HEX.issuperset(said)


def _parents(content: bytes) -> list[str]:
    head = content.partition(b"\n\n")[0].decode(errors="replace")
    return [line.removeprefix("parent ") for line in head.split("\n") if line.startswith("parent ")]


def _unless_absent(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
