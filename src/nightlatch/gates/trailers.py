"""Trailers at the end of a commit's message, by git's own rules where the message is an everyday one."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-")
_ODD = ("---", "#", "Conflicts:", "(cherry picked")  # a patch, a comment, and what git writes itself


def add(message: bytes, trailers: Mapping[str, str]) -> bytes | None:
    """The message with the trailers; None if only `git interpret-trailers` can tell where they go.

    An everyday message is a title, or ends with a paragraph that is all trailers or has no colon at all.
    """
    lines = message.decode(errors="surrogateescape").rstrip().split("\n")
    if not lines[0] or any(line.startswith(_ODD) or not _everyday(line) for line in lines):
        return None
    if not all(_is_name(name) and text and _everyday(text) for name, text in trailers.items()):
        return None
    added = [f"{name}: {text}" for name, text in trailers.items()]
    last = lines[len(lines) - lines[::-1].index("") :] if "" in lines else []  # a title is never taken for trailers
    names = [_trailer(line) for line in last]
    if not last or not any(":" in line for line in last):
        added.insert(0, "")
    elif not all(names) or {name.lower() for name in names} & {name.lower() for name in trailers}:
        return None
    return "\n".join([*lines, *added, ""]).encode(errors="surrogateescape")


def _everyday(line: str) -> bool:
    """Without blanks at its ends, and without characters that mean something to whoever reads lines."""
    return line == line.strip() and not any(character < " " for character in line)


def _is_name(said: str) -> bool:
    return bool(said) and _LETTERS.issuperset(said)


def _trailer(line: str) -> str:
    """The name of a trailer; "" if the line is none."""
    name, _, text = line.partition(": ")
    return name if text and _is_name(name) else ""
