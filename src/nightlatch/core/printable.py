"""Text from elsewhere, made safe to show: it may hold escape sequences that control a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """`text` in one line, with unprintable characters written out: an escape becomes \\x1b."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else " " if letter in "\n\t\r" else written_out(letter) for letter in text
    )


def written_out(letter: str) -> str:
    number = ord(letter)
    return f"\\x{number:02x}" if number < 128 else f"\\u{number:04x}" if number < 65536 else f"\\U{number:08x}"
