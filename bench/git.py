"""A lease in a git remote against what it cannot be faster than: two bare `git push`, in turns, in one run."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.servers.git import git_http

from nightlatch.core.model import Done
from nightlatch.store.git import done
from nightlatch.store.git.done import KeyPlace
from nightlatch.store.git.objects import NewObjects, tree_bytes
from nightlatch.store.git.repository import RefMove
from nightlatch.store.git.store import connect
from nightlatch.system import identity

ROUNDS = 25
KEYS = 10_000


def run() -> None:
    with tempfile.TemporaryDirectory(prefix="nightlatch-bench-") as name:
        root = Path(name)
        os.environ["XDG_STATE_HOME"] = str(root / "state")
        subprocess.run(["git", "init", "--quiet", "--bare", root / "store.git"], check=True)
        subprocess.run(["git", "-C", root / "store.git", "config", "http.receivepack", "true"], check=True)
        with git_http(root) as server:
            _cycle("file", f"file://{root}/store.git", root)
            _cycle("smart HTTP", server.url("store.git"), root)
        _keys(root)


def _cycle(about: str, remote: str, root: Path) -> None:
    """acquire (with the look before it, as every acquire has) + release, against two pushes of ready commits."""
    store, bare = connect(f"git+{remote}"), _Bare(remote, root / f"bare-{about[0]}")
    holder = identity.holder(pid=os.getpid())

    def leased() -> None:
        grant = identity.new_id()
        store.read("bench")
        store.acquire("bench", grant, holder, 60.0)
        store.release("bench", grant)

    leased()
    ours, theirs = [], []
    for _ in range(ROUNDS):
        bare.prepare(2)
        theirs.append(_timed(bare.push) + _timed(bare.push))
        ours.append(_timed(leased))
    a, b = statistics.median(ours), statistics.median(theirs)
    print(
        f"git store over {about}: acquire + release {a * 1000:.1f} ms, two bare pushes {b * 1000:.1f} ms: {a / b:.2f}"
    )


def _keys(root: Path) -> None:
    """Settling and looking up a key among 10 and among 10,000, in turns."""
    few, many = (_Keys(root / f"{count}.git", count) for count in (10, KEYS))
    for verb in ("settle", "look"):
        times: list[tuple[float, float]] = [(getattr(many, verb)(), getattr(few, verb)()) for _ in range(ROUNDS)]
        a, b = (statistics.median(column) for column in zip(*times, strict=True))
        print(f"git store, {verb} among {KEYS} keys {a * 1000:.1f} ms, among 10 {b * 1000:.1f} ms: {a / b:.2f}")


class _Keys:
    def __init__(self, path: Path, count: int) -> None:
        subprocess.run(["git", "init", "--quiet", "--bare", path], check=True)
        self.store = connect(f"git+file://{path}")
        self.grant = identity.new_id()
        self._fill(count)
        self.store.acquire("keys", self.grant, identity.holder(pid=os.getpid()), 600.0)
        self._settled = self._looked = 0
        for number in range(16):
            self.store.look("bench", str(number))

    def settle(self) -> float:
        self._settled += 1
        return _timed(lambda: self.store.settle("keys", self.grant, "bench", f"new-{self._settled}"))

    def look(self) -> float:
        self._looked += 1
        return _timed(lambda: self.store.look("bench", f"key-{self._looked}"))

    def _fill(self, count: int) -> None:
        """All at once, in the very trees that settling one after another makes."""
        new_objects, repository = NewObjects(), self.store.repository
        parts: dict[str, dict[str, list[str]]] = {}
        for number in range(count):
            key = Done(scope="bench", key=f"key-{number}", value="", input="", token=1, at=0.0)
            place = KeyPlace(key.scope, key.key)
            parts.setdefault(place.ref, {}).setdefault(place.entry_name(0), []).append(done._line(key))
        moves = []
        for ref, blobs in parts.items():
            tree = tree_bytes({digit: done._add_lines(lines, 1, new_objects) for digit, lines in blobs.items()})
            commit = new_objects.commit(ref, tree=new_objects.add("tree", tree), at=time.time())
            moves.append(RefMove(ref=ref, old="", new=commit.oid))
        repository.write(new_objects)
        repository.swap(moves, timeout=60)


class _Bare:
    """Compare-and-swap pushes by hand."""

    def __init__(self, remote: str, folder: Path) -> None:
        self._remote = remote
        self._env = {**os.environ, "GIT_DIR": str(folder), "GIT_COMMITTER_NAME": "b", "GIT_COMMITTER_EMAIL": "b@b"}
        self._env |= {"GIT_AUTHOR_NAME": "b", "GIT_AUTHOR_EMAIL": "b@b"}
        self._git("init", "--quiet", "--bare", str(folder))
        self._tree = self._git("mktree")
        self._ref = f"refs/nightlatch/{folder.name}"
        self._old = ""
        self._ready: list[str] = []

    def prepare(self, count: int) -> None:
        self._ready = [self._git("commit-tree", "-m", identity.new_id(), self._tree) for _ in range(count)]

    def push(self) -> None:
        new = self._ready.pop()
        self._git("push", "--quiet", f"--force-with-lease={self._ref}:{self._old}", self._remote, f"{new}:{self._ref}")
        self._old = new

    def _git(self, *words: str) -> str:
        done = subprocess.run(["git", *words], env=self._env, check=True, capture_output=True, text=True, input="")
        return done.stdout.strip()


def _timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


if __name__ == "__main__":
    run()
