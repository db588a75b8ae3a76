"""A request's body: JSON whose top level is changed in place, since a body of megabytes is slow to rewrite."""

from __future__ import annotations

import json
from json.decoder import JSONDecoder, scanstring  # type: ignore[attr-defined]
from typing import Any

from .json_text import reader

_LONGEST_NAME = 32  # characters; nobody looks for a longer name


class BadBody(ValueError):
    """The body is not a JSON object, or a vendor may read it differently than we do."""


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object; raises if it repeats a name: of the two values a vendor may take the one that was not counted."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"it has {next(name for name in names if names.count(name) > 1)!r} twice")
    return found


_decoder = JSONDecoder(object_pairs_hook=_without_repeats)
_read = reader(_decoder)


def _skip_space(text: str, at: int) -> int:
    while text[at] in " \t\n\r":
        at += 1
    return at


class Body:
    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self._data: bytes | None = data
        try:
            self._text = data.decode()
            found = _read(self._text)
        except (ValueError, RecursionError) as error:
            raise BadBody(f"the body cannot be read as one JSON object: {error}") from None
        if type(found) is not dict:
            raise BadBody("the body cannot be read as one JSON object: it does not begin with {")
        self.fields: dict[str, Any] = found
        self._names: frozenset[str] | None = None

    def set(self, name: str, value: object) -> None:
        """Change a field of the top level, or add it."""
        self._data = None
        text, written = self._text, json.dumps(value, separators=(",", ":"))
        if name in self.fields:
            start, end = self._span(name)
        else:
            start = end = text.index("{") + 1
            written = f"{json.dumps(name)}:{written}{',' if self.fields else ''}"
        self._text = text[:start] + written + text[end:]
        self.fields[name] = value

    def _span(self, name: str) -> tuple[int, int]:
        """(start, end) of the value of a top-level field, which must exist."""
        text = self._text
        at = text.index("{") + 1
        while True:
            found, at = scanstring(text, _skip_space(text, at) + 1, True)
            start = _skip_space(text, _skip_space(text, at) + 1)  # after the colon
            _, end = _decoder.raw_decode(text, start)
            if found == name:
                return start, end
            at = _skip_space(text, end) + 1  # after the comma

    def mentions(self, *words: str) -> bool:
        """Is any of these words a name or a whole string in the body, at any depth, however it is escaped?"""
        return not self.names.isdisjoint(words)

    @property
    def names(self) -> frozenset[str]:
        """All names and short strings in the body, at any depth."""
        if self._names is None:
            self._names = self._all_names()
        return self._names

    def _all_names(self) -> frozenset[str]:
        found = {""}
        left: list[Any] = [self.fields]
        while left:
            node = left.pop()
            if type(node) is dict:
                found.update(node)
                node = node.values()
            for child in node:
                kind = type(child)
                if kind is str:
                    if len(child) <= _LONGEST_NAME:
                        found.add(child)
                elif kind is dict or kind is list:
                    left.append(child)
        return frozenset(found)

    @property
    def data(self) -> bytes:
        """The body as it came, or with the fields that were set."""
        return self._data if self._data is not None else self._text.encode()
