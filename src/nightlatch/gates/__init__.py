"""May this write land? The token is verified at the write target itself, atomically with the write.

A gate keeps marks by the rule of `core.fence`. It knows nothing of runs; imports `core`, `system`,
`database` and `store`.
"""

from __future__ import annotations

from ..core import given
from ..errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import PathLike
    from typing import Any

    from ..core.protocols import Gate
    from .file import File
    from .folder import Folder
    from .git import Git
    from .objects import Object
    from .sql import Sql

# scheme of a gate's URL → (module, class); a class is made again from its URL by `from_url`
_KINDS: dict[str, tuple[str, str]] = {
    "file": ("file", "File"),
    "folder": ("folder", "Folder"),
    "s3": ("objects", "Object"),
    "gs": ("objects", "Object"),
    "az": ("objects", "Object"),
    "git": ("git", "Git"),  # git+https, git+ssh and so on
    "postgresql": ("sql", "Sql"),
    "postgres": ("sql", "Sql"),
    "sqlite": ("sql", "Sql"),
}

__all__ = ["File", "Folder", "Git", "Object", "Sql", "at", "open"]


def open(url: str) -> Gate:
    """The gate that was registered as `url`."""
    given.text(url, "a gate's URL")
    kind = _KINDS.get(url.partition(":")[0].partition("+")[0])
    if kind is None:
        raise UsageError(f"{url!r} is no gate this program knows: upgrade it, or install the extra it needs")
    gate: Gate = _load(*kind).from_url(url)
    return gate


def at(target: str | PathLike[str]) -> Gate:
    """The gate of what a person names: a URL, or a path on this machine."""
    target = given.path(target, "a gate's target")
    if "://" in target or target.startswith("git+"):  # git+origin#main
        return open(target)
    from os.path import isdir

    gate: Gate = _load(*_KINDS["folder" if target.endswith("/") or isdir(target) else "file"])(target)
    return gate


def _load(module: str, name: str) -> Any:
    from importlib import import_module

    return getattr(import_module(f".{module}", __name__), name)


def __getattr__(name: str) -> object:
    for module, kind in _KINDS.values():
        if name == kind:
            return _load(module, kind)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
