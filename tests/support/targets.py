"""One of each kind of target, with its gate, written and read the same way."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from nightlatch import gates
from nightlatch.core.model import Mark
from nightlatch.core.protocols import Bearer
from tests.support import sql_target
from tests.support.clones import clone, commit

KINDS = ("file", "folder", "object", "sqlite", "postgres", "git", "git-http")


class Target:
    def __init__(self, kind: str, url: str, place: Path | None = None) -> None:
        """`place`: where it is on this disk, if it is."""
        self.kind, self.url, self.place = kind, url, place

    def gate(self) -> Any:
        return gates.open(self.url)

    def read(self) -> str | None:
        """The target's content now."""
        if self.kind in ("sqlite", "postgres"):
            with closing(sql_target.connect(self.gate())) as connection:
                rows = connection.execute("SELECT body FROM article").fetchall()
                return str(rows[0][0]) if rows else None
        if self.kind == "object":
            gate = self.gate()
            return str(gate.read(), "utf-8") if gate.key() else None
        assert self.place
        if self.kind.startswith("git"):
            shown = subprocess.run(["git", "-C", self.place, "show", "main:page"], capture_output=True, text=True)
            return shown.stdout if shown.returncode == 0 else None
        page = self.place / "page" if self.kind == "folder" else self.place
        return page.read_text() if page.exists() else None


def write(gate: Any, bearer: Bearer | Mark, content: str) -> None:
    """Begun here and now, so that only the gate can know that somebody is late."""
    if isinstance(gate, gates.Sql):
        mark = bearer if isinstance(bearer, Mark) else bearer.mark
        with closing(sql_target.connect(gate)) as connection, gate.transaction(connection, bearer):
            sql_target.replace(connection, mark, content)
    elif isinstance(gate, gates.File | gates.Object):
        gate.write(bearer, content.encode())
    else:
        aside = Path(tempfile.mkdtemp(prefix="nightlatch-"))
        try:
            if isinstance(gate, gates.Folder):
                (aside / "page").write_text(content)
                gate.publish(bearer, aside)
            else:
                folder = clone(gate.url.removeprefix("git+").partition("#")[0], aside / "clone")
                commit(folder, "page", content.encode())
                gate.push(bearer, folder=str(folder))
        finally:
            shutil.rmtree(aside)


def write_past_the_gate(target: Target, content: str) -> None:
    """As a program does that has no gate: for tests that must see something break."""
    assert target.kind == "file" and target.place, "only a file is written so"
    new = target.place.with_suffix(f".{os.getpid()}")
    new.write_text(content)
    os.replace(new, target.place)
