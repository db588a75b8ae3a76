"""The journal's text and its hashes.

An entry's hash covers the hash before it, its chain, its place, its time, its kind and its body, so an
entry that is changed, removed or moved breaks the chain there. The encoding is frozen: a changed byte
here would make every kept head worthless. Golden vectors in the tests check it.
"""

from __future__ import annotations

from ..system.light import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_LONGEST = 65536  # characters of one fact
_RENAMED = {"state": "status"}  # facts that older entries, which stay as they were hashed, have under another name


def pack(facts: Mapping[str, object]) -> str:
    """One `name=text` a line. What is None is left out."""
    texts = [(name, clean(value)) for name, value in facts.items() if value is not None]
    return "\n".join([f"{name}={text if text.isalnum() else line(text)}" for name, text in texts])


def unpack(body: str) -> dict[str, str]:
    parts = (line.partition("=") for line in body.split("\n") if line)
    return {_RENAMED.get(name, name): _plain(text) for name, _, text in parts}


def clean(value: object) -> str:
    """A value as text that every database keeps: no NUL, no half character, no endless length."""
    if type(value) is str:
        text = value
    elif value is True or value is False:
        return "true" if value else "false"
    else:
        text = str(value)
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}… ({len(text)} characters)"
    return kept(text)


def was_cut(text: str) -> bool:
    """Was it too long to be kept whole?"""
    return len(text) > _LONGEST


def kept(text: str) -> str:
    """A text of any length as every database keeps it."""
    if text.isascii():
        return text.replace("\0", "\\0") if "\0" in text else text
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


def link(before: str, chain: str, seq: int, at: int, kind: str, body: str) -> str:
    """The hash of an entry. Only the body, which comes last, may hold a line's end: no two entries look alike."""
    return sha256(f"{before}\n{chain}\n{seq}\n{at}\n{kind}\n{body}".encode()).hexdigest()


def job_chain(job: str) -> str:
    return f"job:{job}"


def head_text(chain: str, seq: int, hash_: str) -> str:
    """A head as it goes out with log lines and alerts, to be kept elsewhere."""
    return f"{chain}:{seq}:{hash_}"


def line(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _plain(text: str) -> str:
    return "\\".join(part.replace("\\n", "\n") for part in text.split("\\\\")) if "\\" in text else text
