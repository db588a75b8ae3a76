"""The journal's text and its hashes.

An entry's hash covers the hash of the entry before it, its chain, number, time, kind and body, so an
entry that is changed, removed or moved breaks the chain there. The encoding is frozen: a changed byte
here would make every kept head worthless. Golden vectors in the tests check it.
"""

from __future__ import annotations

from ..system.light import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_LONGEST = 65536  # characters that are kept of one fact
_CLEAN_TYPES = (int, float)  # the text of such values needs no cleaning, nor does text of letters and digits
_RENAMED = {"state": "status"}  # old name of a fact → new name; old entries stay as they were hashed


def pack(facts: Mapping[str, object]) -> str:
    """One `name=text` a line. Facts that are None are left out."""
    lines = []
    for name, value in facts.items():
        if type(value) in _CLEAN_TYPES or (type(value) is str and value.isalnum() and len(value) <= _LONGEST):
            lines.append(f"{name}={value}")
        elif value is not None:
            lines.append(f"{name}={line(clean(value))}")
    return "\n".join(lines)


def unpack(body: str) -> dict[str, str]:
    parts = (line.partition("=") for line in body.split("\n") if line)
    return {_RENAMED.get(name, name): _unescaped(text) for name, _, text in parts}


def clean(value: object) -> str:
    """A value as text that every database accepts: no NUL, no lone surrogate, cut at `_LONGEST` characters."""
    if type(value) is str:
        text = value
    elif value is True or value is False:
        return "true" if value else "false"
    else:
        text = str(value)
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}… ({len(text)} characters)"
    return storable(text)


def was_cut(text: str) -> bool:
    """Did `clean` shorten it?"""
    return len(text) > _LONGEST


def storable(text: str) -> str:
    """The text without NUL and lone surrogates, in full length."""
    if text.isascii():
        return text.replace("\0", "\\0") if "\0" in text else text
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


def link(before: str, chain: str, seq: int, at: int, kind: str, body: str) -> str:
    """The hash of an entry. Only the body, which comes last, has line breaks: no two entries give the same text."""
    return sha256(f"{before}\n{chain}\n{seq}\n{at}\n{kind}\n{body}".encode()).hexdigest()


def job_chain(job: str) -> str:
    return f"job:{job}"


def head_text(chain: str, seq: int, hash_: str) -> str:
    """A head as it goes out with log lines and alerts, to be kept elsewhere."""
    return f"{chain}:{seq}:{hash_}"


def line(text: str) -> str:
    """The text in one line, with escapes."""
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _unescaped(text: str) -> str:
    return "\\".join(part.replace("\\n", "\n") for part in text.split("\\\\")) if "\\" in text else text
