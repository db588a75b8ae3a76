"""The one way to the screen: everything that Nightlatch prints is made printable, wherever it comes from.

Texts from a store, a ledger, a gate, another machine's user name or a command line may hold escape sequences that
control a terminal. Commands make their texts printable themselves (`core.printable`); this catches those they forget.
"""

from __future__ import annotations

import os
import sys

from ..core.printable import printable, written_out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Begins each of our own colour codes. It is random, so no text from elsewhere can contain it and become an escape.
ESCAPE = f"\x1b{os.urandom(8).hex()}"


def install() -> None:
    """From now on make everything printable that this process prints. Only for Nightlatch's own programs."""
    sys.stdout, sys.stderr = printing(sys.stdout), printing(sys.stderr)


def printing(stream: Any) -> Any:
    if isinstance(stream, Printing):
        return stream
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")  # do not fail on characters that the terminal's encoding lacks
    return Printing(stream)


def verbatim(text: str) -> None:
    """Print `text` byte for byte, for a program that reads our standard output; at a terminal make it printable."""
    if sys.stdout.isatty():
        sys.stdout.write(text)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode(errors="surrogateescape"))
    sys.stdout.buffer.flush()


class Printing:
    """A text stream that escapes unprintable characters; newlines and tabs stay. Our own messages become one line."""

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
