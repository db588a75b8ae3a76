"""The one way to the screen: whatever Nightlatch prints is printable, wherever it comes from.

A store, a ledger, a gate, another machine's user name, a command's words: all of it may be made to play with a
terminal. Each command makes one line of what it shows (`core.printable`); this is what no command can forget.
"""

from __future__ import annotations

import os
import sys

from ..core.printable import printable, written_out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# What our own colours begin with. Nobody else can know it, so no text from elsewhere becomes an escape.
ESCAPE = f"\x1b{os.urandom(8).hex()}"


def install() -> None:
    """From now on all that this process prints goes through it. For a process that is ours from its start."""
    sys.stdout, sys.stderr = printing(sys.stdout), printing(sys.stderr)


def printing(stream: Any) -> Any:
    if isinstance(stream, Printing):
        return stream
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")  # what the terminal's encoding lacks is no reason to fail
    return Printing(stream)


def verbatim(text: str) -> None:
    """For a program that reads our standard output, byte for byte; a person at a terminal sees it as all else."""
    if sys.stdout.isatty():
        sys.stdout.write(text)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode(errors="surrogateescape"))
    sys.stdout.buffer.flush()


class Printing:
    """A text stream that writes out what is not simply shown; lines and tabs stay. A sentence of ours is one line."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        if text.startswith("nightlatch: "):
            text = printable(text)
        elif not text.isprintable() and text != "\n":
            text = "\x1b".join(map(_lines, text.split(ESCAPE)))
        self._stream.write(text)
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _lines(text: str) -> str:
    return "".join(letter if letter.isprintable() or letter in "\n\t" else written_out(letter) for letter in text)
