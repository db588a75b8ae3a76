"""May this write land? The token is verified at the write target itself, atomically with the write.

A gate keeps marks by the rule of `core.fence`. It knows nothing about runs; it imports `core`, `system`,
`database` and `store`.
"""

from __future__ import annotations

import os

from ..core import checks
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


class GateKind:
    """A kind of gate: its URL schemes, and the module and name of its class, whose `from_url` opens a gate by URL."""

    def __init__(
        self, *schemes: str, module: str, name: str, on_disk: bool = False, published_to: bool = False
    ) -> None:
        """`on_disk`: the URL names the machine whose disk the target is on. `published_to`: a target of
        `nightlatch publish`; the class then has `publish`, `release`, `takes_folders` and `keeps_releases`."""
        self.schemes, self.module, self.name = schemes, module, name
        self.on_disk, self.published_to = on_disk, published_to

    def load(self) -> Any:
        from importlib import import_module

        return getattr(import_module(f".{self.module}", __name__), self.name)


KINDS = (
    GateKind("file", module="file", name="File", on_disk=True, published_to=True),
    GateKind("folder", module="folder", name="Folder", on_disk=True, published_to=True),
    GateKind("s3", "gs", "az", module="objects", name="Object", published_to=True),
    GateKind("git", module="git", name="Git"),  # git+https, git+ssh and so on
    GateKind("postgresql", "postgres", module="sql", name="Sql"),
    GateKind("sqlite", module="sql", name="Sql", on_disk=True),
)

__all__ = ["File", "Folder", "Git", "Object", "Sql", "at", "open"]


def kind_of(url: str) -> GateKind | None:
    """The kind of gate that a URL names; None for anything else, such as a path."""
    before_plus, plus, _ = url.partition("+")  # git+origin#main has no colon
    before_colon, colon, _ = url.partition(":")
    scheme = before_plus if plus and len(before_plus) < len(before_colon) else before_colon if colon else ""
    return next((kind for kind in KINDS if scheme in kind.schemes), None)


def open(url: str) -> Gate:
    """The gate that was registered as `url`."""
    kind = kind_of(checks.text(url, "a gate's URL"))
    if kind is None:
        raise UsageError(f"{url!r} is not a gate that this version knows: upgrade Nightlatch, or check the URL")
    gate: Gate = kind.load().from_url(url)
    return gate


def at(target: str | PathLike[str]) -> Gate:
    """The gate of a target as a person names it: a URL, or a path on this machine."""
    target = checks.path(target, "a gate's target")
    if target.startswith("file://"):
        gate: Gate = __getattr__("File").from_url(target, follow=True)  # links are followed, as in a path
        return gate
    if "://" in target or target.startswith("git+"):  # git+origin#main
        return open(target)
    gate = __getattr__("Folder" if target.endswith("/") or os.path.isdir(target) else "File")(target)
    return gate


def __getattr__(name: str) -> Any:
    for kind in KINDS:
        if name == kind.name:
            return kind.load()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
