"""Help, laid out for the terminal's width: at least 80 columns, at most 120."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterable

_ENTRY = re.compile(r"(\S+(?: \S+)*  +)(\S.*)")  # a list entry: its words, a gap of two spaces or more, a meaning
_WIDEST_LABEL = 26  # characters in the left column; after a longer word, the meaning begins on the next line


def width() -> int:
    return min(120, max(80, shutil.get_terminal_size((80, 24)).columns))


def prose(text: str) -> list[str]:
    """Paragraphs and lists, wrapped to the width."""
    lines: list[str] = []
    for block in text.split("\n\n"):
        lines += ["", *_block(block.splitlines())] if lines else _block(block.splitlines())
    return lines


def _block(lines: list[str]) -> list[str]:
    entries: list[tuple[str, str]] = []  # (the word with its gap, or "" for a paragraph; the text)
    for line in lines:
        entry = _ENTRY.fullmatch(line)
        # A block has at most one list, perhaps with a text before it.
        if entry and (not entries or entries[-1][0] or len(entries) == 1):
            entries.append((entry[1], entry[2]))
        elif entries and (line.startswith(" ") or not entries[-1][0]):
            entries[-1] = (entries[-1][0], f"{entries[-1][1]} {line.strip()}")
        else:
            entries.append(("", line.strip()))
    return [filled for label, text in entries for filled in _fill(label, len(label), text)]


def _fill(label: str, indent: int, text: str) -> list[str]:
    return textwrap.wrap(
        text, width(), initial_indent=label, subsequent_indent=" " * indent, break_long_words=False,
        break_on_hyphens=False,
    ) or [label.rstrip()]  # fmt: skip


def table(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Words in the left column, their meanings in the right one."""
    found = list(rows)
    room = min(_WIDEST_LABEL, max((len(word) for word, _ in found), default=0)) + 4
    lines = []
    for word, meaning in found:
        if len(word) + 4 > room:
            lines += [f"  {word}", *_fill(" " * room, room, meaning)]
        else:
            lines += _fill(f"  {word:<{room - 2}}", room, meaning)
    return lines


def usage(text: str) -> list[str]:
    first, *others = text.splitlines()
    lines = _fill("usage: ", 11, first)
    for other in others:
        lines += _fill("       ", 11, other.strip())
    return lines


def examples(text: str) -> list[str]:
    """Commands. One that is too long is continued after a backslash, and its remark moves to the line before it."""
    lines: list[str] = []
    for line in text.splitlines():
        command, gap, remark = line.partition("  #")
        if len(line) <= width():
            lines.append(line)
            continue
        lines += [f"  #{remark}"] if gap else []
        lines += _folded(command.rstrip())
    return lines


def _folded(command: str) -> list[str]:
    lines, rest = [], command
    while len(rest) > width():
        at = _last_break(rest)
        if not at:
            break
        lines.append(f"{rest[:at].rstrip()} \\")
        rest = f"      {rest[at:].strip()}"
    return [*lines, rest]


def _last_break(line: str) -> int:
    """The last space outside quotes at which the line can be broken to fit; 0: there is none."""
    quote, found = "", 0
    for at, letter in enumerate(line[: width() - 2]):
        if letter in "'\"" and quote in ("", letter):
            quote = "" if quote else letter
        elif letter == " " and not quote and line[:at].strip():
            found = at
    return found
