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
    from collections.abc import Callable
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
    raw(text.encode(errors="surrogateescape"))


def raw(data: bytes) -> None:
    """Print bytes on standard output as they are."""
    stream = printing(sys.stdout)
    stream.flush()
    stream.attempt(stream.buffer.write, data)
    stream.attempt(stream.buffer.flush)


class Printing:
    """A text stream that escapes unprintable characters; newlines and tabs stay. Our own messages become one line.

    A stream that takes nothing, as on a full disk, sets `failed` and raises nothing: no message is worth the death of a
    scheduler, or of a supervisor in the middle of its run. Only a closed standard output ends us (SIGPIPE).
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.failed = False

    def write(self, text: str) -> int:
        if text.startswith("nightlatch: "):
            text = printable(text)
        elif not text.isprintable() and text != "\n":
            text = "\x1b".join(map(_escape_unprintable, text.split(ESCAPE)))
        self.attempt(self._stream.write, text)
        return len(text)

    def flush(self) -> None:
        self.attempt(self._stream.flush)

    def attempt(self, do: Callable[..., object], *args: object) -> None:
        try:
            do(*args)
        except OSError as error:
            if isinstance(error, BrokenPipeError) and self is sys.stdout:
                raise
            self.failed = True

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _escape_unprintable(text: str) -> str:
    return "".join(letter if letter.isprintable() or letter in "\n\t" else written_out(letter) for letter in text)
