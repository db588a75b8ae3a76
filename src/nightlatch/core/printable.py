"""Text from elsewhere, made safe to show in one line: it may hold escape sequences that control a terminal."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@+,#%")


def printable(text: str) -> str:
    """`text` in one line, with unprintable characters written out: an escape becomes \\x1b."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else " " if letter in "\n\t\r" else written_out(letter) for letter in text
    )


def shortened(text: str, longest: int) -> str:
    """`text` in one printable line of at most `longest` characters."""
    line = printable(text).strip()
    return line if len(line) <= longest else line[: longest - 1] + "…"


def written_out(letter: str) -> str:
    """The character as an escape: \\x1b, \\u202e."""
    number = ord(letter)
    return f"\\x{number:02x}" if number < 128 else f"\\u{number:04x}" if number < 65536 else f"\\U{number:08x}"


def logfmt(facts: Mapping[str, object]) -> str:
    """`name=value` separated by spaces, in one line. A value with special characters is put in double quotes."""
    return " ".join(f"{name}={_shown(fact)}" for name, fact in facts.items() if fact not in (None, ""))


def _shown(fact: object) -> str:
    text = f"{fact:.6f}".rstrip("0").rstrip(".") if isinstance(fact, float) else str(fact)
    if text and _PLAIN.issuperset(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"' + "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in escaped) + '"'
