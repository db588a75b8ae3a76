"""A branch behind a git gate, its holders, and another user that pushes to it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from nightlatch import gates
from nightlatch.core.model import Mark
from nightlatch.system import identity
from tests.support import programs
from tests.support.clones import begun, clone, commit, git
from tests.support.servers.git import GitHttp, git_repository

STORE = identity.new_id()


class Site:
    """A remote with a first commit, a clone to work in, and one of somebody else."""

    def __init__(self, root: Path, url: str, server: GitHttp | None) -> None:
        self.root, self.url, self.server = root, url, server
        self.remote = git_repository(root / "site.git")
        begun(self.remote, root / "seed", "index")
        self.work, self.theirs = clone(url, root / "work"), clone(url, root / "theirs")
        self.gate = gates.Git(url, "main")

    def main(self) -> str:
        return git(self.remote, "rev-parse", "main")

    def files(self) -> set[str]:
        return set(git(self.remote, "ls-tree", "--name-only", "main").split())

    def honest_push(self, name: str, content: bytes = b"theirs\n") -> None:
        """Another user, without the gate."""
        git(self.theirs, "fetch", "--quiet", "origin")
        git(self.theirs, "reset", "--quiet", "--hard", "origin/main")
        commit(self.theirs, name, content)
        git(self.theirs, "push", "--quiet", "origin", "main")

    def hook(self, script: str) -> None:
        """Runs in the push of the worker, between the server's advertisement and the sending."""
        path = self.work / ".git" / "hooks" / "pre-push"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def pause(self, push: Callable[[], object], meanwhile: Callable[[], object]) -> list[object]:
        """Do something while a push is paused after it has seen the server's refs; returns how the push ended."""
        here = self.root
        (here / "pause").touch()
        self.hook(f"touch {here}/paused; while [ -e {here}/pause ]; do sleep 0.02; done")
        outcome: list[object] = []

        def run() -> None:
            try:
                outcome.append(push())
            except BaseException as error:  # noqa: BLE001 - looked at by the test
                outcome.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            programs.until((here / "paused").exists)
            meanwhile()
        finally:
            (here / "pause").unlink()
            thread.join()
        return outcome


def mark(token: int, name: str = "articles") -> Mark:
    return Mark(store=STORE, name=name, token=token, grant=identity.new_id())


def sealed(site: Site, token: int, name: str = "articles") -> Mark:
    made = mark(token, name)
    site.gate.seal(made, "ann@here")
    return made
