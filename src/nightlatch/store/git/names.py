"""Lease and job names as parts of a ref name. The encoding is reversible, and no two names share a file.

Lower-case letters, digits, `_` and `-` stay as they are; everything else is written `%xx`. So a slash does not make a
folder (`a` and `a/b` cannot both be refs), `x.lock` is not a lock file, and `Job` and `job` stay two leases on a server
whose disk ignores case. A ref name that begins with `@` is therefore never a lease.
"""

from __future__ import annotations

from ...errors import UsageError

ROOT = "refs/nightlatch/"
STORE = f"{ROOT}@store"
ROWS = f"{ROOT}@job/"
FLOOR = f"{ROOT}@floor"  # no token up to the floor is handed out for a name that has no ref

_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-")
_LONGEST = 200  # characters of one part: a file name has at most 255, and git appends `.lock`


def encode(name: str) -> str:
    text = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02x}" for byte in name.encode())
    parts = [text[at : at + _LONGEST] for at in range(0, len(text), _LONGEST)]
    # A part that is continued is marked with +, so that it is never also the whole of another name.
    return "/".join([*(f"+{part}" for part in parts[:-1]), parts[-1]])


def decode(part: str) -> str:
    from urllib.parse import unquote

    return unquote(part.replace("/", "").replace("+", ""))


def branch(text: str) -> str:
    """The branch that `text` names, as git resolves it: `refs/heads/x` and `heads/x` are x. Raises `UsageError` if git
    would not accept it as a branch, by the rules of `git check-ref-format`."""
    name = text.removeprefix("refs/").removeprefix("heads/") if text.startswith(("refs/heads/", "heads/")) else text
    if ":" in text or text.startswith("+"):
        raise UsageError(
            f"{text!r} is a refspec, but only HEAD is pushed, and never by force. Name the branch alone, as in "
            f"nightlatch push origin main"
        )
    parts = name.split("/")
    bad = (
        not text
        or name in ("HEAD", "@")
        or text.startswith("refs/") > text.startswith("refs/heads/")
        or name.startswith("-")
        or name.endswith(".")
        or ".." in name
        or "@{" in name
        or any(sign <= " " or sign in "~^?*[\\\x7f" for sign in name)
        or any(not part or part.startswith(".") or part.endswith(".lock") for part in parts)
    )
    if bad:
        raise UsageError(f"{text!r} is not a valid branch name: see git help check-ref-format")
    return name


def lease(name: str) -> str:
    return ROOT + encode(name)


def row(job: str) -> str:
    return f"{ROWS}{encode(job)}"


def fence(branch: str) -> str:
    """The ref that keeps a branch's marks."""
    return f"{ROOT}@fence/{encode(branch)}"


def lease_name(ref: str) -> str:
    """The name of the lease that a ref keeps; "" if it is not a lease's ref."""
    part = ref.removeprefix(ROOT)
    return "" if part == ref or part.startswith("@") else decode(part)
