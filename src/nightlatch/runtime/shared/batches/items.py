"""The items of a batch: read one at a time, and identified by their key.

They are never all in memory: there may be a million. A line that cannot be read is reported by its number.
"""

from __future__ import annotations

import csv
import json
import os
import unicodedata
from collections.abc import Callable, Iterator
from hashlib import blake2b
from operator import itemgetter
from typing import Any, BinaryIO

from ....core.value import value
from ....errors import UsageError
from .template import BadItem, Template

_ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "csv"}
# Exit code of a command that does not know whether it acted. The next start runs it again, and the command checks.
IN_DOUBT_ITSELF = 76
_LONGEST_KEY = 1000
_NAMED_FIELDS = 50  # fields that a message names
_HEAD = 8192  # bytes at the beginning of a file, which show what it is
_BOM = b"\xef\xbb\xbf"  # the byte order mark that Windows puts before UTF-8
_UTF16 = (b"\xff\xfe", b"\xfe\xff")  # byte order marks of UTF-16
_COMPARED_FIELDS = 1000  # fields that a misspelt one is compared with

_decoder: Any = json.JSONDecoder()

DONE, DOUBT, SEEN, ASIDE = 1, 2, 4, 8  # bits: what is known of a digest

Found = tuple[int, Any, bytes]  # line, content, digest; a tuple, because it is made fast and a million may be skipped


@value(frozen=True, kw_only=True)
class BatchItem:
    line: int
    key: str
    digest: bytes  # 16 bytes, made from the key's parts, so that (a/b, c) and (a, b/c) are two items
    content: Any  # a dict for an object or a row; text for a plain line

    @property
    def text(self) -> str:
        """As the command gets it, on its standard input and in NIGHTLATCH_ITEM."""
        return json.dumps(self.content, ensure_ascii=False, default=str)


class ItemReader:
    """Items from a file, in order. Iterating yields `Found`, or a `BadItem` in its place."""

    def __init__(self, path: str, format: str, key: str) -> None:
        self.format = format or _ENDINGS.get(os.path.splitext(path)[1].lower(), "")
        self._path = "standard input" if path == "-" else path
        try:
            # Standard input was copied to a file before, so that it can be read twice too.
            self._file: BinaryIO = open(0 if path == "-" else path, "rb", closefd=path != "-")  # noqa: SIM115
        except OSError as error:
            raise UsageError(f"the items in {self._path} cannot be read: {error.strerror}") from error
        first = self._first()
        if b"\0" in first or first.startswith(_UTF16):
            raise UsageError(f"the items in {self._path} are not UTF-8 text, but {_kind(first)}. Nothing was done")
        self._offset = len(_BOM) if first.startswith(_BOM) else 0
        first = first[self._offset :]
        self.format = self.format or ("jsonl" if first.lstrip()[:1] in (b"{", b"[") else "lines")
        if not key and self.format != "lines":
            raise UsageError("--key is missing: name the fields that say what an item is, as in --key '{site}/{slug}'")
        self._template, self._names, self._comma = Template(key or "{}"), list[str](), ","
        if not self._template.fields:
            raise UsageError(f"--key {key!r} is the same for every item: name fields, as in --key '{{site}}/{{slug}}'")
        if self.format == "csv":
            self._check_names()
        self.check(self._template.fields, f"--key {key}")

    @property
    def lines(self) -> int:
        """About how many items there are."""
        self._file.seek(self._offset)
        if self.format != "csv":
            total, last = 0, b"\n"
            while chunk := self._file.read(1 << 20):
                total, last = total + chunk.count(b"\n"), chunk
            return total + (not last.endswith(b"\n"))
        quotes = rows = 0
        for raw in self._file:
            quotes += raw.count(b'"')
            rows += quotes % 2 == 0 and not raw.isspace()  # a quoted field may contain newlines
        return max(rows - 1, 0)

    def check(self, fields: list[str], where: str) -> None:
        """Refuse a field that no item has. (A field that only some items lack is reported when they are read.)"""
        known = dict.fromkeys(self._names)  # in their order
        if self.format == "jsonl":
            known = self._fields_of_lines({field.partition(".")[0] for field in fields if field})
        for field in fields:
            if field and field not in known and (self.format != "jsonl" or field.partition(".")[0] not in known):
                import difflib

                near = difflib.get_close_matches(field, list(known)[:_COMPARED_FIELDS], n=1)
                hint = f"; did you mean {{{near[0]}}}?" if near else "."
                names = ", ".join(list(known)[:_NAMED_FIELDS]) + (", …" if len(known) > _NAMED_FIELDS else "")
                has = f"has {names}" if known else "has plain lines, and {} is the whole line"
                raise UsageError(
                    f"{where} names a field {field!r}: {self._path} {has}{hint} "
                    f"(Plain braces are written {{{{ and }}}})"
                )

    def _fields_of_lines(self, wanted: set[str]) -> dict[str, None]:
        """The fields of the JSON lines, in order, until all `wanted` are found. `wanted` itself if no line is JSON."""
        self._file.seek(self._offset)
        found: dict[str, None] = {}
        any_json = False
        for raw in self._file:
            if wanted <= found.keys():
                break
            try:
                content = json.loads(raw)
            except (ValueError, RecursionError):
                continue  # reported as a bad item, with its line
            any_json = True
            if isinstance(content, dict):
                found |= dict.fromkeys(content)
        return found if any_json else dict.fromkeys(wanted)

    def __iter__(self) -> Iterator[Found | BadItem]:
        return self.unfinished({}, lambda _: None)

    def unfinished(self, known: dict[bytes, int], done: Callable[[int], None]) -> Iterator[Found | BadItem]:
        """All items except those that are DONE in `known`: they are marked there as seen, and `done` gets their number.

        There may be a million of them, so the common line (an object whose fields are ASCII text) takes the shortest
        path, and every other line the careful one.
        """
        self._file.seek(self._offset)
        digest_of = Digest(self._template)
        if self.format == "jsonl" and digest_of.plain:
            yield from self._fast_lines(known, done, digest_of)
            return
        for line, content in self._rows() if self.format == "csv" else self._texts():
            found = self._found(line, content, digest_of)
            if isinstance(found, BadItem) or known.get(found[2]) != DONE:
                yield found
            else:
                known[found[2]] = DONE | SEEN
                done(1)

    def _fast_lines(
        self, known: dict[bytes, int], done: Callable[[int], None], digest_of: Digest
    ) -> Iterator[Found | BadItem]:
        plain, several, nuls, copy = digest_of.plain, digest_of.nuls > 1, digest_of.nuls - 1, digest_of.prefix.copy
        scan, look, seen, count = _decoder.scan_once, known.get, DONE | SEEN, 0
        for number, raw in enumerate(self._file, 1):
            try:
                line = raw.decode()
                content, end = scan(line, 0)
                whole = "\0".join(plain(content)) if several else plain(content)
                if line[end:] != "\n" or not whole.isascii() or whole.count("\0") != nuls:
                    raise TypeError
            except (ValueError, StopIteration, LookupError, TypeError, AttributeError, RecursionError):
                found = self._any_line(number, raw, digest_of)
                if found is None:
                    continue
            else:
                hashing = copy()
                hashing.update(whole.encode())
                found = number, content, hashing.digest()
            if not isinstance(found, BadItem) and look(found[2]) == DONE:
                known[found[2]] = seen
                count += 1
                continue
            done(count)
            count = 0
            yield found
        done(count)

    def _any_line(self, number: int, raw: bytes, digest_of: Digest) -> Found | BadItem | None:
        """What is in a line of any kind; None for a blank one."""
        content = self._text(number, raw)
        return None if content is None else self._found(number, content[0], digest_of)

    def _found(self, line: int, content: Any, digest_of: Digest) -> Found | BadItem:
        if isinstance(content, BadItem):
            return content
        try:
            return line, content, digest_of(content)
        except BadItem as bad:
            return self.bad(line, bad)

    def item(self, found: Found) -> BatchItem:
        """The item to do; raises `BadItem` if its key cannot be kept."""
        line, content, digest = found
        key = self._template.fill(self._template.values(content))
        if not key or len(key) > _LONGEST_KEY:
            raise self.bad(line, f"its key has {len(key)} characters: 1 to {_LONGEST_KEY} can be kept")
        if not key.isprintable():
            raise self.bad(line, f"its key {key!r} has characters that cannot be printed")
        return BatchItem(line=line, key=key, digest=digest, content=content)

    def bad(self, line: int, what: object) -> BadItem:
        found = BadItem(f"{self._path}, line {line}: {what}")
        found.line, found.what = line, str(what)
        return found

    def _texts(self) -> Iterator[tuple[int, Any]]:
        for number, raw in enumerate(self._file, 1):
            content = self._text(number, raw)
            if content is not None:
                yield number, content[0]

    def _text(self, number: int, raw: bytes) -> tuple[Any] | None:
        """A tuple with the line's content (JSON's null too), or with a `BadItem`; None for a blank line."""
        if raw.isspace():
            return None
        try:
            text = raw.decode()
            return (json.loads(text) if self.format == "jsonl" else text.rstrip("\r\n"),)
        except UnicodeDecodeError:
            return (self.bad(number, "not UTF-8"),)
        except ValueError as error:
            why = f"{error.msg}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else error
            return (self.bad(number, f"not JSON ({why})"),)
        except RecursionError:
            return (self.bad(number, "nested too deeply"),)

    def _check_names(self) -> None:
        """Read the first line, which names the fields."""
        self._file.seek(self._offset)
        first = next((raw for raw in self._file if not raw.isspace()), b"")
        # Spreadsheets write semicolons where the comma is the decimal separator.
        self._comma = next((comma for comma in ",;\t" if comma.encode() in first), ",")
        self._file.seek(self._offset)
        try:
            self._names = next(filter(None, self._csv()), [])
        except csv.Error as error:
            raise UsageError(f"the first line of {self._path} names no fields: it is not CSV ({error})") from None
        seen: set[str] = set()
        for name in self._names:
            if name in seen:
                raise UsageError(f"the first line of {self._path} names the field {name!r} more than once")
            seen.add(name)

    def _csv(self) -> Any:
        lines = (raw.decode("utf-8", "surrogateescape") for raw in self._file)
        return csv.reader(lines, strict=True, delimiter=self._comma)

    def _rows(self) -> Iterator[tuple[int, Any]]:
        rows = self._csv()
        names: list[str] = next(filter(None, rows), [])
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
                what = f"{len(row)} field{'s' if len(row) > 1 else ''} where the first line names {len(names)}"
                yield rows.line_num, self.bad(rows.line_num, what)
                continue
            yield rows.line_num, dict(zip(names, row, strict=True))

    def _first(self) -> bytes:
        self._file.seek(0)  # the position in standard input is shared with every process that read from it
        return self._file.read(_HEAD)


def _kind(first: bytes) -> str:
    """What the file is instead of UTF-8 text, and what to do."""
    if first.startswith(_UTF16) or first[1::2].count(0) == len(first) // 2 or first[::2].count(0) == len(first) // 2:
        return "in UTF-16: iconv -f UTF-16 -t UTF-8 converts it"
    if first.count(b"\0") > 1 and b"\n" not in first:
        return "lines that end with NUL: tr '\\0' '\\n' converts it"
    return "binary (there are NUL characters in it)"


class Digest:
    """16 bytes that identify a template with its values. NUL, which no key may contain, separates the values, so that
    (a/b, c) and (a, b/c) differ. Never change this: every finished item would look unfinished."""

    def __init__(self, template: Template) -> None:
        self._template = template
        # Gets the values in the common case, an ASCII template of an object's own fields; None in other cases.
        self.plain: Any = itemgetter(*template.fields) if template.text.isascii() and all(template.fields) else None
        self.nuls = len(template.fields)
        self.prefix = blake2b(f"{template.text}\0".encode(errors="replace"), digest_size=16)

    def __call__(self, content: Any) -> bytes:
        whole = "\0".join((self._template.text, *self._template.values(content)))
        if not whole.isascii():
            whole = unicodedata.normalize("NFC", whole)  # an "é" typed on macOS and one typed on Linux are the same
        if whole.count("\0") != self.nuls:
            raise BadItem("a NUL character cannot be part of a key")
        try:
            return blake2b(whole.encode(), digest_size=16).digest()
        except UnicodeEncodeError:
            raise BadItem("it contains half a character, or is not UTF-8") from None
