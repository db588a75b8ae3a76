"""All mistakes in a nightlatch.toml, reported at once, each with its line."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ..core.printable import printable
from ..errors import BadConfig

Path = tuple[str, ...]  # of a key: ("jobs", "articles", "timeout")


class Mistakes:
    def __init__(self, file: str, lines: dict[Path, int]) -> None:
        self._file, self._lines = shown(file), lines
        self._found: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._found)

    def add(self, path: Path, what: str) -> None:
        """`what` is wrong with the key at `path`. If the file does not have that key, the table around it is named."""
        while path and path not in self._lines:
            path = path[:-1]
        self._found.append((self._lines.get(path, 1), what))

    def unknown(self, path: Path, known: Iterable[str], kind: str = "key") -> None:
        import difflib

        near = difflib.get_close_matches(path[-1], list(known), n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        self.add(path, f"{'.'.join(path)} is not a {kind}: {hint}")

    def raise_any(self) -> None:
        if self._found:
            lines = tuple(f"{self._file}:{line}: {what}" for line, what in sorted(self._found))
            raise BadConfig(lines[0]) if len(lines) == 1 else BadConfig(f"{len(lines)} mistakes:", lines)


def shown(path: str) -> str:
    """A path for a message: relative if it is below the current folder."""
    try:
        short = os.path.relpath(path)
    except OSError:  # the current folder was removed
        short = path
    return printable(path if short.startswith("..") else short)
