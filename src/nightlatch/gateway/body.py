"""A request's body: JSON whose top level is read and changed in place, since a body of megabytes is slow to rewrite."""

from __future__ import annotations

import json
from functools import cached_property
from json.decoder import JSONDecoder, scanstring  # type: ignore[attr-defined]
from typing import Any

_NAME = 32  # characters of the longest name that is looked for
_SPACE = " \t\n\r"


class BadBody(ValueError):
    """It is not a JSON object, or has a name twice."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object without repeated names: of two values a vendor may take the one that was not counted."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"it has {next(name for name in names if names.count(name) > 1)!r} twice")
    return found


_scan = JSONDecoder(object_pairs_hook=_once).scan_once  # type: ignore[attr-defined]


class Body:
    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self._data: bytes | None = data
        try:
            self._text = data.decode()
            self.fields, self._spans = self._members()
        except (ValueError, StopIteration, IndexError, RecursionError) as error:
            raise BadBody(f"the body cannot be read as one JSON object: {error}") from None

    def _members(self) -> tuple[dict[str, Any], dict[str, tuple[int, int]]]:
        text, fields, spans = self._text, {}, {}
        at = self._skip(0)
        if text[at] != "{":
            raise ValueError("it does not begin with {")
        at = self._skip(at + 1)
        if text[at] == "}":
            return {}, {}
        while True:
            if text[at] != '"':
                raise ValueError(f"a name is expected at {at}")
            name, at = scanstring(text, at + 1, True)
            at = self._skip(at)
            if text[at] != ":":
                raise ValueError(f"a colon is expected at {at}")
            start = self._skip(at + 1)
            found, end = _scan(text, start)
            if name in fields:
                raise ValueError(f"it has {name!r} twice")
            fields[name], spans[name] = found, (start, end)
            at = self._skip(end)
            if text[at] == "}":
                if self._skip(at + 1, end=True) != len(text):
                    raise ValueError("something follows it")
                return fields, spans
            if text[at] != ",":
                raise ValueError(f"a comma is expected at {at}")
            at = self._skip(at + 1)

    def _skip(self, at: int, *, end: bool = False) -> int:
        text = self._text
        while at < len(text) and text[at] in _SPACE:
            at += 1
        if at >= len(text) and not end:
            raise ValueError("it ends too early")
        return at

    def set(self, name: str, found: object) -> None:
        """Change a field of the top level, or add it."""
        self._data = None
        written = json.dumps(found, separators=(",", ":"))
        if name in self._spans:
            start, end = self._spans[name]
            self._text = self._text[:start] + written + self._text[end:]
        else:
            start = self._text.index("{") + 1
            comma = "," if self.fields else ""
            self._text = f"{self._text[:start]}{json.dumps(name)}:{written}{comma}{self._text[start:]}"
        self.fields, self._spans = self._members()

    def mentions(self, *words: str) -> bool:
        """Is any of these a name or a whole string in it, at any depth, however it is escaped?"""
        return not self._names.isdisjoint(words)

    @cached_property
    def _names(self) -> frozenset[str]:
        found = {""}
        left: list[Any] = [self.fields]
        while left:
            one = left.pop()
            if type(one) is dict:
                found.update(one)
                one = one.values()
            for inner in one:
                kind = type(inner)
                if kind is str:
                    if len(inner) <= _NAME:
                        found.add(inner)
                elif kind is dict or kind is list:
                    left.append(inner)
        return frozenset(found)

    @property
    def data(self) -> bytes:
        """As it came, where nothing was changed."""
        return self._data if self._data is not None else self._text.encode()
