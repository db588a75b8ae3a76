"""A git store's remote, on this disk or over HTTP, with its faults; and holders on other machines."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from nightlatch.core.model import Begun, Granted, Holder, Takeover
from nightlatch.store.git.store import GitStore, connect
from nightlatch.system import identity
from tests.support.servers.git import GitHttp

ELSEWHERE = Holder(incarnation="i" * 32, user="ann", host="gone", pid=7, machine="another", boot="another")


class Remote:
    """One repository, reached over file:// or over smart HTTP."""

    def __init__(self, path: Path, server: GitHttp | None) -> None:
        self.path, self.server = path, server
        self.store_url = f"git+{server.url(path.name)}" if server else f"git+file://{path}"

    def connect(self) -> GitStore:
        return connect(self.store_url)

    def git(self, *words: str) -> str:
        return subprocess.run(["git", "-C", self.path, *words], check=True, capture_output=True, text=True).stdout

    def hook(self, name: str, script: str) -> None:
        (self.path / "hooks" / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.path / "hooks" / name).chmod(0o755)

    def go_away(self) -> Callable[[], None]:
        """Not reachable until the returned function is called."""
        if (server := self.server) is not None:
            server.down = True
            return lambda: setattr(server, "down", False)
        shutil.move(self.path, f"{self.path}.away")
        return lambda: (shutil.move(f"{self.path}.away", self.path), None)[1]


def take(
    store: GitStore, name: str, ttl: float = 60.0, over: Takeover | None = None, begin: Begun | None = None
) -> tuple[str, Granted]:
    grant = identity.new_id()
    return grant, store.acquire(name, grant, ELSEWHERE, ttl, over, begin)


def overtake(remote: Remote, name: str) -> str:
    """Another machine takes the lease, having watched it stand still."""
    other = remote.connect()
    record = other.read(name)
    assert record
    return take(other, name, over=Takeover(grant=record.grant, version=record.version, proven=True))[0]


def act(store: GitStore, verb: str, grant: str) -> None:
    """As a holder does."""
    if verb == "renew":
        store.renew("job", grant, 60.0)
    elif verb == "settle":
        store.settle("job", grant, "scope", "key")
    else:
        store.release("job", grant)
