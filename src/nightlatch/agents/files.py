"""Files of an agent, under names that the agent chose: they are written below one folder, whatever the names are."""

from __future__ import annotations

from ..system.open_beneath import write_beneath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

_MAX_PART = 200  # bytes of one part of a path


def save(folder: Path, name: str, otherwise: str, content: bytes) -> None:
    """Write a file below `folder`. `otherwise`: the name to use if no part of `name` can be used."""
    write_beneath(str(folder), _parts(name) or _parts(otherwise) or ["file"], content)


def _parts(name: str) -> list[str]:
    found = ["".join(char if char.isprintable() else "_" for char in part) for part in name.split("/")]
    return [part.encode()[:_MAX_PART].decode(errors="ignore") for part in found if part not in ("", ".", "..")]
