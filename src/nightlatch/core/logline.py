"""One line a finished run, for people and for grep: logfmt."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@+,#%")


def logfmt(facts: Mapping[str, object]) -> str:
    """`name=value` separated by spaces; values with other characters in double quotes; always one line."""
    return " ".join(f"{name}={_shown(fact)}" for name, fact in facts.items() if fact not in (None, ""))


def _shown(fact: object) -> str:
    text = f"{fact:.6f}".rstrip("0").rstrip(".") if isinstance(fact, float) else str(fact)
    if text and all(letter in _PLAIN for letter in text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"' + "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in escaped) + '"'
