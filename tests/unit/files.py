"""Who may do what with a file."""

from __future__ import annotations

import stat
import tempfile
from pathlib import Path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def open_to_others(folder: Path) -> None:
    while folder != Path(tempfile.gettempdir()):
        folder.chmod(0o755)
        folder = folder.parent
