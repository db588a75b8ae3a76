"""A push through the git gate against a bare `git push` of the same kind of commit, in turns, in one run.

The second row is what no gate can be cheaper than: the same push with a second ref in it, all or nothing. On this disk
and on loopback the gate's local git commands show; a remote that is 20 ms away is what people push to.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.servers.git import git_http, git_repository
from tests.support.servers.slow_proxy import slow_proxy

from nightlatch import gates
from nightlatch.core.model import Mark

from . import timing

ROUNDS = 25
ROUND_TRIP = 0.020
MARK = Mark(store="bench", name="bench", token=1, grant="bench")


def run() -> None:
    with tempfile.TemporaryDirectory(prefix="nightlatch-bench-") as name:
        root = Path(name)
        os.environ["XDG_STATE_HOME"] = str(root / "state")
        with git_http(root) as server:
            _pushes("file", root / "f", lambda name: f"file://{root}/f-{name}.git")
            _pushes("smart HTTP", root / "h", lambda name: server.url(f"h-{name}.git"))
            with slow_proxy(server.port, ROUND_TRIP) as port:
                far = f"smart HTTP, {ROUND_TRIP * 1000:.0f} ms a round trip (goal: through the gate at most 1.3 ×)"
                _pushes(far, root / "s", lambda name: f"http://127.0.0.1:{port}/s-{name}.git")


def _pushes(about: str, root: Path, url: Callable[[str], str]) -> None:
    bare, two, gated, fresh, blank = (
        _Work(Path(f"{root}-{name}"), url(name)) for name in ("bare", "two", "gated", "fresh", "blank")
    )
    gate = gates.Git(gated.url, "main")
    for one in (gate, gates.Git(fresh.url, "main"), gates.Git(blank.url, "main")):
        one.seal(MARK, "bench")

    def bare_push() -> float:
        bare.commit()
        return _timed(lambda: bare.git("push", "--quiet", "origin", "HEAD:main"))

    def two_refs() -> float:
        two.commit()
        old, two.second = two.second, two.git("commit-tree", "-m", str(two.number), two.git("mktree"))
        words = ("push", "--quiet", "--atomic", f"--force-with-lease=refs/bench/second:{old}", "origin")
        return _timed(lambda: two.git(*words, "HEAD:main", f"{two.second}:refs/bench/second"))

    def through_the_gate() -> float:
        gated.commit()
        return _timed(lambda: gate.push(MARK, folder=str(gated.folder)))

    def in_a_new_process() -> float:
        fresh.commit()
        newcomer = gates.Git(fresh.url, "main")
        return _timed(lambda: newcomer.push(MARK, folder=str(fresh.folder)))

    def nothing_remembered() -> float:
        blank.commit()
        newcomer = gates.Git(blank.url, "main")
        os.unlink(newcomer._fence._seen)
        return _timed(lambda: newcomer.push(MARK, folder=str(blank.folder)))

    rows = timing.in_turns(
        {
            "git push": bare_push,
            "git push --atomic of two refs": two_refs,
            "through the gate": through_the_gate,
            "through the gate, the first push of a process": in_a_new_process,
            "through the gate, nothing remembered": nothing_remembered,
        },
        ROUNDS,
    )
    timing.show(f"Pushing a commit over {about}", rows, "git push")


class _Work:
    """A clone with one commit pushed, and its bare remote."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url, self.number, self.second = folder, url, 0, ""
        git_repository(folder.with_name(f"{folder.name}.git"))
        subprocess.run(["git", "clone", "--quiet", url, folder], check=True, stderr=subprocess.DEVNULL)
        self.commit()
        self.git("push", "--quiet", "origin", "HEAD:main")

    def commit(self) -> None:
        self.number += 1
        (self.folder / "page").write_text(f"{self.number}\n")
        self.git("add", "page")
        self.git("commit", "--quiet", "-m", f"page {self.number}")

    def git(self, *words: str) -> str:
        author = ("-c", "user.name=bench", "-c", "user.email=bench@example.org")
        done = subprocess.run(["git", "-C", self.folder, *author, *words], check=True, stdin=-3, stdout=-1, text=True)
        return done.stdout.strip()


def _timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started
