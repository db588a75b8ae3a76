"""A holder that writes once through a gate, and stops itself at a given point.

python writer.py GATE STORE NAME TOKEN GRANT CONTENT POINT

POINT: inside   after the check, before the write
       unsigned the lock is taken, and nobody can read yet by whom
       slow     inside too, but it continues when it reads a line
       never    it does not stop
exit code: 0 acknowledged, 73 refused
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nightlatch import gates
from nightlatch.core.model import Mark
from nightlatch.errors import StaleToken
from nightlatch.system import filelock


def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def until_told() -> None:
    sys.stdin.readline()


def pause_at(point: str, gate: Any) -> None:
    if point in ("inside", "slow"):
        pause = stop if point == "inside" else until_told
        if isinstance(gate, gates.Object):
            hook(gate._bucket, "swap", before=pause)
        else:
            hook(gate._marks, "admit", after=pause)
    if point == "unsigned":
        hook(filelock, "_kernel_names_holder", before=stop)


def hook(
    owner: Any, name: str, *, before: Callable[[], None] | None = None, after: Callable[[], None] | None = None
) -> None:
    """Do something before or after the next call of a function, once."""
    function = getattr(owner, name)

    def hooked(*given: Any) -> Any:
        setattr(owner, name, function)
        if before:
            before()
        result = function(*given)
        if after:
            after()
        return result

    setattr(owner, name, hooked)


def write(gate: Any, mark: Mark, content: bytes) -> None:
    if not isinstance(gate, gates.Folder):
        gate.write(mark, content)
        return
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "page").write_bytes(content)
        gate.publish(mark, folder)


def main() -> int:
    url, store, name, token, grant, content, point = sys.argv[1:]
    gate = gates.open(url)
    mark = Mark(store=store, name=name, token=int(token), grant=grant)
    pause_at(point, gate)
    try:
        write(gate, mark, content.encode())
    except StaleToken:
        return 73
    return 0


if __name__ == "__main__":
    sys.exit(main())
