"""A run's kept output for its page: the last lines, the lines before one, those that a search finds, and new ones.

Output is kept in two files, the older one `output.1`. A place in it is named by the file's inode and the byte: after
the newer file has become the older one, the place is still found.
"""

from __future__ import annotations

import os

from ..core.printable import printable
from ..core.value import value
from ..observe.reader import StoreReader
from ..runtime.supervisor.run import kept_output
from ..system.strip_ansi import AnsiStripper

SHOWN = 400  # lines on a page
FOUND = 200  # lines that a search shows
_CHUNK = 1 << 16
LINE = 4000  # characters of a line that are shown
_NAMES = ("output.1", "output")


@value(frozen=True, kw_only=True)
class OutputLine:
    number: int
    text: str
    ours: bool = False  # printed by Nightlatch, not by the command


@value(frozen=True, kw_only=True)
class OutputPart:
    """Lines, and the place after them."""

    lines: tuple[OutputLine, ...]
    total: int  # how many lines the whole output has, or has up to `until`
    place: str = ""  # where the part ends
    from_start: bool = True  # the part begins at the first line of the output


def folder_of(reader: StoreReader, run: str) -> str:
    return kept_output.folder_of(reader.store.folder, run)


def end(folder: str, most: int = SHOWN, until: int | None = None) -> OutputPart:
    """The last lines; with `until`, the last lines up to the one with that number."""
    total, place = 0, ""
    kept: list[bytes] = []
    rest = b""
    for path, inode in _files(folder):
        with open(path, "rb") as file:
            while data := file.read(_CHUNK):
                *whole, rest = (rest + data).split(b"\n")
                if until is not None and total + len(whole) > until:
                    whole, rest = whole[: until - total], b""
                total += len(whole)
                kept = [*kept, *whole][-most:]
                if until is not None and total >= until:
                    return OutputPart(lines=_lines(kept, total), total=total, from_start=total <= most)
            place = f"{inode}:{file.tell() - len(rest)}"
    if rest and until is None:
        kept, total = [*kept, rest][-most:], total + 1
        place = f"{place.partition(':')[0]}:{int(place.partition(':')[2]) + len(rest)}"
    return OutputPart(lines=_lines(kept, total), total=total, place=place, from_start=total <= most)


def find(folder: str, text: str) -> tuple[list[OutputLine], bool]:
    """Lines with this text, upper and lower case alike, and whether there are more than are shown."""
    wanted, found, number, rest = text.lower().encode(), list[OutputLine](), 0, b""
    for path, _ in _files(folder):
        with open(path, "rb") as file:
            while data := file.read(_CHUNK):
                *whole, rest = (rest + data).split(b"\n")
                for line in whole:
                    number += 1
                    if wanted in line.lower():
                        if len(found) == FOUND:
                            return found, True
                        found.append(_line(number, line))
    if rest and wanted in rest.lower():
        found.append(_line(number + 1, rest))
    return found, False


def added(folder: str, place: str) -> tuple[list[str], str, bool]:
    """(lines that were added after `place`, the place after them, whether output in between is lost). A last line that
    is unfinished has no newline."""
    inode, _, byte = place.partition(":")
    files = _files(folder)
    matching = [index for index, (_, one) in enumerate(files) if one == inode]
    lost = bool(place) and not matching
    begin = matching[0] if matching else 0
    data, where = b"", place
    for index, (path, one) in enumerate(files[begin:]):
        with open(path, "rb") as file:
            if index == 0 and matching:
                file.seek(int(byte) if byte.isdecimal() else 0)
            data += file.read(_CHUNK * 4)
            where = f"{one}:{file.tell()}"
            if file.tell() < os.fstat(file.fileno()).st_size:
                break  # the rest comes with the next look
    shown = AnsiStripper()
    text = (shown.feed(data) + shown.end()).decode(errors="replace")
    return text.splitlines(keepends=True), where, lost


def _files(folder: str) -> list[tuple[str, str]]:
    """(path, inode) of the files that exist, the older one first."""
    found = []
    for name in _NAMES:
        path = os.path.join(folder, name)
        try:
            found.append((path, str(os.stat(path).st_ino)))
        except FileNotFoundError:
            continue
    return found


def _lines(kept: list[bytes], total: int) -> tuple[OutputLine, ...]:
    first = total - len(kept) + 1
    return tuple(_line(first + index, line) for index, line in enumerate(kept))


def _line(number: int, data: bytes) -> OutputLine:
    text = safe(data[: LINE * 4])
    if len(text) > LINE or len(data) > LINE * 4:
        text = f"{text[:LINE]} … ({len(data):,} bytes)"
    return OutputLine(number=number, text=text, ours=text.startswith("nightlatch: "))


def safe(data: bytes) -> str:
    """The text without terminal sequences; other unprintable characters are shown as escapes."""
    shown = AnsiStripper()
    text = (shown.feed(data) + shown.end()).decode(errors="replace").rstrip("\n")
    return "".join(printable(part) if part != "\t" else part for part in text.replace("\n", " ⏎ ").split("\x00"))
