"""The items of a batch: read one at a time, named by their key, and put into a command's words.

A million of them are never in memory. What cannot be read is named by its line, and the rest goes on.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import unicodedata
from collections.abc import Callable, Iterator
from hashlib import blake2b
from operator import itemgetter
from typing import Any, BinaryIO

from ..core.value import value
from ..errors import UsageError

FORMATS = ("jsonl", "csv", "lines")

_ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv"}
_PLACE = re.compile(r"\{\{|\}\}|\{([A-Za-z_][\w.\-]*)?\}")
_LONGEST_KEY = 1000
_NAMED = 10

Found = tuple[int, Any, bytes]  # line, content, digest: as little as it takes to skip a million of them


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

    def __iter__(self) -> Iterator[Found | BadItem]:
        self._file.seek(0)
        digest_of = Digest(self._template)
        for line, content in self._rows() if self.format == "csv" else self._texts():
            if isinstance(content, BadItem):
                yield content
                continue
            try:
                yield line, content, digest_of(content)
            except BadItem as bad:
                yield self.bad(line, bad)

    def item(self, found: Found) -> Item:
        """What was found, as an item to be done."""
        line, content, digest = found
        key = self._template.fill(self._template.values(content))
        if not key or len(key) > _LONGEST_KEY:
            raise self.bad(line, f"its key has {len(key)} characters: 1 to {_LONGEST_KEY} can be kept")
        if not key.isprintable():
            raise self.bad(line, f"its key {key!r} holds what cannot be printed")
        return Item(line=line, key=key, digest=digest, content=content)

    def bad(self, line: int, what: object) -> BadItem:
        return BadItem(f"{self._path}, line {line}: {what}")

    def _texts(self) -> Iterator[tuple[int, Any]]:
        decode = _json if self.format == "jsonl" else _plain
        for number, raw in enumerate(self._file, 1):
            if raw.isspace():
                continue
            try:
                yield number, decode(raw.decode())
            except UnicodeDecodeError:
                yield number, self.bad(number, "not UTF-8")
            except ValueError as error:
                yield number, self.bad(number, f"not JSON ({error})")
            except RecursionError:
                yield number, self.bad(number, "nested too deeply")

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
                yield rows.line_num, self.bad(rows.line_num, error)
                continue
            if not row:
                continue
            if len(row) != len(names):
                what = f"{len(row)} fields where the first line names {len(names)}"
                yield rows.line_num, self.bad(rows.line_num, what)
                continue
            yield rows.line_num, dict(zip(names, row, strict=True))

    def _guess(self) -> str:
        self._file.seek(0)  # standard input's place is shared with whoever looked at it before
        first = self._file.read(4096).lstrip()[:1]
        return "jsonl" if first in (b"{", b"[") else "lines"


class Selection:
    """The items that are to be done, and counts of those that are not: done, in doubt, doubled, unreadable.

    `known` maps digests to DONE, DOUBT or ASIDE; it is used up as memory of what was seen.
    """

    DONE, DOUBT, SEEN, ASIDE = 1, 2, 4, 8

    def __init__(self, reader: Reader, known: dict[bytes, int]) -> None:
        self._reader, self._found, self._known = reader, iter(reader), known
        self.skipped = self.doubled = 0
        self.in_doubt: list[str] = []
        self.aside: list[str] = []
        self.bad: list[BadItem] = []
        self.doubles: list[Item] = []  # the first of them, to be named

    def next(self) -> Item | None:
        """The next one to do; None when there is none, or when a line could not be read: look at `bad` first."""
        known = self._known
        for found in self._found:
            if isinstance(found, BadItem):
                self.bad.append(found)
                return None
            digest = found[2]
            state = known.get(digest, 0)
            if state == self.DONE:
                known[digest] = self.DONE | self.SEEN
                self.skipped += 1
                continue
            try:
                item = self._reader.item(found)
            except BadItem as bad:
                self.bad.append(bad)
                return None
            if state & self.SEEN:
                self.doubled += 1
                if len(self.doubles) < _NAMED:
                    self.doubles.append(item)
                continue
            known[digest] = state | self.SEEN
            if not state:
                return item
            (self.in_doubt if state == self.DOUBT else self.aside).append(item.key)
        self.over = True
        return None

    over = False  # has everything been read?


class Digest:
    """Of a template and what fills it: 16 bytes. The values stand apart by NUL, which no key may hold, so
    (a/b, c) and (a, b/c) differ. Frozen: a changed byte here would make every finished item look unfinished."""

    def __init__(self, template: Template) -> None:
        self._template = template
        self._plain = itemgetter(*template.fields) if len(template.fields) > 1 else None
        self._nuls = len(template.fields)

    def __call__(self, content: Any) -> bytes:
        try:
            # The plain case, of which there may be a million: an object's own fields, all of them text.
            whole = "\0".join((self._template.text, *self._plain(content)))  # type: ignore[misc]
        except (KeyError, TypeError):
            whole = "\0".join((self._template.text, *self._template.values(content)))
        if not whole.isascii():
            whole = unicodedata.normalize("NFC", whole)  # an "é" typed on macOS and one typed on Linux are the same
        if whole.count("\0") != self._nuls:
            raise BadItem("a NUL character cannot be part of a key")
        try:
            return blake2b(whole.encode(), digest_size=16).digest()
        except UnicodeEncodeError:
            raise BadItem("it holds half a character, or is not UTF-8") from None


_decoder = json.JSONDecoder()


def _json(line: str, raw_decode: Callable[[str], tuple[Any, int]] = _decoder.raw_decode) -> Any:
    """One JSON value. The plain line, with nothing before it and one line end behind it, takes the short way."""
    if line[0] not in " \t\r\n":
        content, end = raw_decode(line)
        if line[end:] in ("\n", ""):
            return content
    return _decoder.decode(line)


def _plain(line: str) -> str:
    return line.rstrip("\r\n")


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
