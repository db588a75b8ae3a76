"""URLs of paths on this machine's disk: `file://MACHINE/path`, so that no other machine mistakes one for its own."""

from __future__ import annotations

import os
from urllib.parse import quote_from_bytes, unquote_to_bytes

from ..errors import GateUnreachable, UsageError
from ..system import identity


def to_url(scheme: str, path: str) -> str:
    return f"{scheme}://{identity.machine()}{quote_from_bytes(os.fsencode(path), safe='/+,=@:~')}"


def unwritable(path: str, error: OSError) -> GateUnreachable:
    return GateUnreachable(
        f"{path} could not be sealed or written: {error.strerror or error}"
        + (f" ({error.filename})" if error.filename else "")
        + ". Check space, owner and permissions there, then try again"
    )


def to_path(url: str) -> str:
    """The path that a URL names. Raises `UsageError` if it is on another machine's disk."""
    machine, slash, path = url.partition("://")[2].partition("/")
    if machine not in ("", identity.machine()):
        raise UsageError(f"{url} is on the disk of another machine ({machine[:8]}): run this there")
    if not slash or not path:
        raise UsageError(f"{url!r} does not name a file: write file:///path/to/file, or just the path")
    return os.fsdecode(unquote_to_bytes(slash + path))
