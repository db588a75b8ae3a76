"""The items of a batch: read one at a time, named by their key, and put into a command's words.

A million of them are never in memory. What cannot be read is named by its line, and the rest goes on.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import shlex
from collections.abc import Iterator
from typing import Any, BinaryIO

from ..core.value import value
from ..errors import UsageError

FORMATS = ("jsonl", "csv", "lines")

_ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv"}
_PLACE = re.compile(r"\{\{|\}\}|\{([A-Za-z_][\w.\-]*)?\}")
_LONGEST_KEY = 1000


class BadItem(Exception):
    """An item that cannot be done as it stands; says where it was read and what is wrong with it."""


@value(frozen=True, kw_only=True)
class Item:
    line: int
    key: str
    digest: bytes  # 16 bytes: of the key's parts, so that (a/b, c) and (a, b/c) are two items
    content: Any  # a dict for an object or a row; text for a plain line

    @property
    def text(self) -> str:
        """As the command gets it, on its standard input and in NIGHTLATCH_ITEM."""
        return json.dumps(self.content, ensure_ascii=False, default=str)


class Template:
    """Text with {field} and {} in it; {{ and }} are plain braces. Other braces stay as they are."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._parts: list[tuple[str, str | None]] = []  # (plain text, field behind it or None)
        plain, at = "", 0
        for found in _PLACE.finditer(text):
            plain += text[at : found.start()]
            at = found.end()
            if found[0] in ("{{", "}}"):
                plain += found[0][0]
            else:
                self._parts.append((plain, found[1] or ""))
                plain = ""
        self._parts.append((plain + text[at:], None))
        self.fields = [field for _, field in self._parts if field is not None]

    def values(self, content: Any) -> list[str]:
        return [_field(content, field) for field in self.fields]

    def fill(self, values: list[str]) -> str:
        given = iter(values)
        return "".join(plain if field is None else plain + next(given) for plain, field in self._parts)


class Command:
    """A command with placeholders. Each word stays one word, whatever an item holds; with `shell` the one line is
    given to `sh`, every value quoted."""

    def __init__(self, words: list[str], *, shell: bool) -> None:
        self._shell = shell
        self._words = [Template(" ".join(words))] if shell else [Template(word) for word in words]

    def argv(self, content: Any) -> list[str]:
        if self._shell:
            line = self._words[0]
            return ["/bin/sh", "-c", line.fill([shlex.quote(text) for text in line.values(content)])]
        argv = [word.fill(word.values(content)) for word in self._words]
        if any("\0" in word for word in argv):
            raise BadItem("a NUL character cannot be part of a command")
        return argv


class Reader:
    """Items from a file, in the order they stand there. Iterating yields an `Item`, or a `BadItem` in its place."""

    def __init__(self, path: str, format: str, key: str) -> None:
        self.format = format or _ENDINGS.get(os.path.splitext(path)[1].lower(), "")
        self._path, self._key = path, key
        try:
            # What stands on standard input was put into a file before: it can be read twice as well.
            self._file: BinaryIO = open(0 if path == "-" else path, "rb", closefd=path != "-")  # noqa: SIM115
        except OSError as error:
            raise UsageError(f"the items in {path} cannot be read: {error.strerror}") from error
        self.format = self.format or self._guess()
        if not key and self.format != "lines":
            raise UsageError("--key is missing: name the fields that say what an item is, as in --key '{site}/{slug}'")
        self._template = Template(key or "{}")
        if not self._template.fields:
            raise UsageError(f"--key {key!r} is the same for every item: name fields, as in --key '{{site}}/{{slug}}'")

    @property
    def lines(self) -> int:
        """How many lines there are, as a measure of how many items."""
        self._file.seek(0)
        total = sum(chunk.count(b"\n") for chunk in iter(lambda: self._file.read(1 << 20), b""))
        return total - (self.format == "csv")

    def __iter__(self) -> Iterator[Item | BadItem]:
        self._file.seek(0)
        for line, content in self._rows() if self.format == "csv" else self._texts():
            if isinstance(content, BadItem):
                yield content
                continue
            try:
                yield self._item(line, content)
            except BadItem as bad:
                yield BadItem(f"{self._path}, line {line}: {bad}")

    def _item(self, line: int, content: Any) -> Item:
        values = self._template.values(content)
        key = self._template.fill(values)
        if not key or len(key) > _LONGEST_KEY:
            raise BadItem(f"its key has {len(key)} characters: 1 to {_LONGEST_KEY} can be told apart and kept")
        if not key.isprintable():
            raise BadItem(f"its key {key!r} holds what cannot be printed")
        return Item(line=line, key=key, digest=digest(self._key or "{}", values), content=content)

    def _texts(self) -> Iterator[tuple[int, Any]]:
        decode = json.JSONDecoder().decode if self.format == "jsonl" else str
        for number, raw in enumerate(self._file, 1):
            try:
                text = raw.decode().rstrip("\r\n")
                if not text.strip():
                    continue
                yield number, decode(text)
            except UnicodeDecodeError:
                yield number, BadItem(f"{self._path}, line {number}: not UTF-8")
            except ValueError as error:
                yield number, BadItem(f"{self._path}, line {number}: not JSON ({error})")
            except RecursionError:
                yield number, BadItem(f"{self._path}, line {number}: nested too deeply")

    def _rows(self) -> Iterator[tuple[int, Any]]:
        lines = (raw.decode("utf-8-sig" if not n else "utf-8", "surrogateescape") for n, raw in enumerate(self._file))
        rows = csv.reader(lines, strict=True)
        names = next(rows, [])
        while True:
            try:
                row = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                yield rows.line_num, BadItem(f"{self._path}, line {rows.line_num}: {error}")
                continue
            if not row:
                continue
            if len(row) != len(names):
                what = f"{len(row)} fields where the first line names {len(names)}"
                yield rows.line_num, BadItem(f"{self._path}, line {rows.line_num}: {what}")
                continue
            yield rows.line_num, dict(zip(names, row, strict=True))

    def _guess(self) -> str:
        self._file.seek(0)  # standard input's place is shared with whoever looked at it before
        first = self._file.read(4096).lstrip()[:1]
        return "jsonl" if first in (b"{", b"[") else "lines"


class Selection:
    """The items that are to be done, and counts of those that are not: done, in doubt, doubled, unreadable.

    `known` maps digests to DONE or DOUBT; it is used up as memory of what was seen.
    """

    DONE, DOUBT, SEEN = 1, 2, 4

    def __init__(self, reader: Reader, known: dict[bytes, int]) -> None:
        self._items, self._known = iter(reader), known
        self.skipped = self.doubled = 0
        self.in_doubt: list[str] = []
        self.bad: list[BadItem] = []
        self.doubles: list[Item] = []  # the first of them, to be named

    def next(self) -> Item | None:
        """The next one to do; None when there is none."""
        known = self._known
        for item in self._items:
            if isinstance(item, BadItem):
                self.bad.append(item)
                continue
            state = known.get(item.digest, 0)
            if state & self.SEEN:
                self.doubled += 1
                if len(self.doubles) < 10:
                    self.doubles.append(item)
                continue
            known[item.digest] = state | self.SEEN
            if not state:
                return item
            if state == self.DONE:
                self.skipped += 1
            else:
                self.in_doubt.append(item.key)
        return None


def digest(template: str, values: list[str]) -> bytes:
    """Of the template and what fills it, each with its length: no two different lists give the same bytes."""
    framed = "".join([f"{len(text)}:{text}" for text in (template, *values)])
    if not framed.isascii():
        import unicodedata

        framed = "".join(
            f"{len(text)}:{text}" for text in (unicodedata.normalize("NFC", t) for t in (template, *values))
        )
    try:
        return hashlib.sha256(framed.encode()).digest()[:16]
    except UnicodeEncodeError:
        raise BadItem("it holds half a character, or is not UTF-8") from None


def _field(content: Any, name: str) -> str:
    """The text of a field; dots go into objects. "" is the item as a whole."""
    found = content
    if name:
        if isinstance(content, dict) and name in content:
            found = content[name]
        else:
            for part in name.split("."):
                if not isinstance(found, dict) or part not in found:
                    raise BadItem(f"there is no field {name!r} (plain braces are written {{{{ and }}}})")
                found = found[part]
    if isinstance(found, str):
        return found
    if found is None:
        raise BadItem(f"the field {name!r} is empty (null)")
    return json.dumps(found, ensure_ascii=False, sort_keys=True)
