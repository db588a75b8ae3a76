"""Rounds that kill everything with SIGKILL at a random point between a command's end and the end of `approve`.

Courses run side by side, each with a store and a target. After each kill the world is looked at: nothing has landed
before the approval, exactly once after it, or the run needs attention.
"""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from nightlatch.core import statuses
from nightlatch.gates import at
from nightlatch.gates.folder import Folder
from nightlatch.ledger import kinds, open_for
from nightlatch.ledger.records import RunRow
from nightlatch.system import fingerprint
from tests.support.clones import begun, clone, git
from tests.support.programs import NIGHTLATCH, environment, kill_all
from tests.support.servers.git import git_repository
from tests.support.staged import Staged

KINDS = ["file", "folder", "object", "git", "git store"]  # the last: a branch, in the repository that is the store
MARK = "APPROVE_KILLS"  # in the environment of all that a course starts
DECIDED = (*statuses.NEEDS_PERSON, statuses.SUCCEEDED, statuses.CANCELLED)
PATIENCE = 240.0  # seconds for what never comes, on a machine that is busy


class Target:
    """A place that articles land at, each with its key."""

    def __init__(self, kind: str, folder: Path, endpoint: str = "") -> None:
        self.kind, self.folder = kind, folder
        site, ended = folder / "site", folder / "ended"
        self.store, env = f"sqlite:///{folder}/store.db", {MARK: f"{folder}/"}
        if kind.startswith("git"):
            self.remote = git_repository(folder / "remote.git")
            begun(self.remote, folder / "first")
            clone(self.remote, site)
            if kind == "git store":
                self.store = f"git+{self.remote.as_uri()}"
            command = f"echo x > article-$NIGHTLATCH_KEY; git add .; git commit -qm article; touch {ended}"
            keys = {"command": command, "workspace": "git", "publish": ["git"]}
        else:
            site.mkdir()
            url = {
                "file": f"{folder}/out",
                "folder": f"{folder}/out/",
                "object": f"s3://bucket/{folder.name}/page?endpoint={endpoint}",
            }[kind]
            self.gate: Any = Folder(str(folder / "out")) if kind == "folder" else at(url)
            made = "mkdir made; echo $NIGHTLATCH_KEY > made/page" if kind == "folder" else "echo $NIGHTLATCH_KEY > made"
            source = "made/" if kind == "folder" else "made"
            keys = {"command": f"{made}; touch {ended}", "workspace": "scratch", "publish": [f"{source}={url}"]}
        self.job = Staged(self.store, site, env, ttl="20s", **keys)

    def remove_locks(self) -> None:
        """As the error says: what a git that was killed has left at the remote, which would block every push."""
        if self.kind.startswith("git"):
            for lock in self.remote.rglob("*.lock"):
                lock.unlink()

    def landed(self, key: str) -> int:
        """How often what was made for this key has landed."""
        if self.kind.startswith("git"):
            return git(self.remote, "log", "--format=", "--name-only", "main").split().count(f"article-{key}")
        return sum(landing.digest == self._digest(key) for landing in self.gate.landings())

    def _digest(self, key: str) -> str:
        made = self.folder / "digest"
        page = made / "page" if self.kind == "folder" else made
        page.parent.mkdir(exist_ok=True)
        page.write_text(f"{key}\n")
        return fingerprint.of(str(made))


class Course:
    """Rounds at one target, one after the other."""

    def __init__(self, kind: str, folder: Path, seed: str, endpoint: str = "") -> None:
        folder.mkdir(parents=True)
        self.target, self.chance, self.mark = Target(kind, folder, endpoint), random.Random(seed), f"{MARK}={folder}/"
        self.job, self.ended = self.target.job, folder / "ended"
        self.points: Counter[str] = Counter()  # where a kill hit, by the run's status and its newest entry
        self.ends: Counter[str] = Counter()
        self._takes: dict[str, float] = {}  # seconds, as far as was seen

    def round(self) -> None:
        self._kill_after_the_command()
        run = self._await(self._held, "a plan waits, whatever was killed")
        assert self.target.landed(run.key) == 0, f"landed before the word: {self._told(run)}"
        words = ["approve", run.id, "--yes"]
        for _ in range(1 + self.chance.choice((0, 0, 1))):
            self._start_and_kill(words, run)
            assert self.target.landed(run.key) <= 1, f"landed twice: {self._told(run)}"
            if self._now(run).held is None:
                words = self.chance.choice((words, ["run", "articles", "--key", run.key]))
        ended = self._await(lambda: self._decided(run), "it goes on")
        expected = int(ended.status == statuses.SUCCEEDED)
        assert ended.status in ("succeeded", "needs-attention"), self._told(run)
        assert self.target.landed(run.key) == expected, self._told(run)
        published = sum(entry.kind == kinds.PUBLISHED for entry in open_for(self.target.store).journal.of_run(run.id))
        assert published <= expected, self._told(run)  # a push that settled its key may be adopted without a word
        self.ends[ended.status] += 1

    def _kill_after_the_command(self) -> None:
        """Have a slot run, and kill everything so long after its command's end; unless a `tick` that went on with the
        last one had it run."""
        if any(run.held is not None for run in self.job.runs):
            return
        self.ended.unlink(missing_ok=True)
        deadline = time.monotonic() + PATIENCE
        process = self._start(["tick"])
        while not self.ended.exists():
            if process.poll() is not None:  # nothing was due yet
                process = self._start(["tick"])
            assert time.monotonic() < deadline, f"no slot was run: {self.job.runs[:1]} {self.job.row}"
            time.sleep(0.005)
        self._kill(process, "hold", lambda: next(iter(self.job.runs)))

    def _start_and_kill(self, words: list[str], run: RunRow) -> None:
        """Mostly after the approval: most of the time passes before it."""
        process, waits = self._start(words), self._now(run).held is not None
        if waits and self.chance.random() < 0.75:
            while process.poll() is None and self._now(run).held is not None:
                time.sleep(0.005)
            waits = False
        self._kill(process, "approve" if waits else "land", lambda: self._now(run))

    def _kill(self, process: subprocess.Popen[bytes], what: str, of: Callable[[], RunRow]) -> None:
        """Kill everything at a random point. The first time nothing is killed: that shows how long it takes."""
        began, takes = time.monotonic(), self._takes.get(what)
        try:
            process.wait(None if takes is None else self.chance.uniform(0.0, takes))
            took = time.monotonic() - began
            self._takes[what] = took if takes is None else (takes + took) / 2
            return
        except subprocess.TimeoutExpired:
            kill_all(self.mark)
            process.wait()
            self.target.remove_locks()
        self._takes[what] = 1.03 * (takes or 0.0)
        found = of()
        kept = [entry.kind for entry in open_for(self.target.store).journal.of_run(found.id)]
        self.points[f"{what}: {found.status}, {kept[-1] if kept else 'nothing'}"] += 1

    def _start(self, words: list[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*NIGHTLATCH, *words], cwd=self.job.folder, env=environment(self.target.store, **self.job.env),
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip

    def _held(self) -> RunRow | None:
        if not any(run.held is not None for run in self.job.runs):
            self.job("tick")
        return next((run for run in self.job.runs if run.held is not None), None)

    def _decided(self, run: RunRow) -> RunRow | None:
        found = self._now(run)
        if found.held is None and found.status in DECIDED:
            return found
        self.job(*(["approve", run.id, "--yes"] if found.held is not None else self._go_on(run)))
        return None

    def _go_on(self, run: RunRow) -> list[str]:
        """Each of these goes on with what was approved."""
        return self.chance.choice((["approve", run.id, "--yes"], ["tick"], ["run", "articles", "--key", run.key]))

    def _now(self, run: RunRow) -> RunRow:
        found = open_for(self.target.store).run(run.id)
        assert found
        return found

    def _await(self, condition: Callable[[], RunRow | None], what: str) -> RunRow:
        deadline = time.monotonic() + PATIENCE
        while not (found := condition()):
            assert time.monotonic() < deadline, f"it did not come: {what}: {self.job.runs[:2]} {self.job.row}"
            time.sleep(0.05)
        return found

    def _told(self, run: RunRow) -> str:
        entries = [f"{one.kind} {one.facts}" for one in open_for(self.target.store).journal.of_run(run.id)]
        return "\n".join([str(self._now(run)), str(self.job.row), *entries])


def kill(
    kind: str, number: int, folder: Path, seed: str, endpoint: str = "", at_once: int = 1
) -> tuple[Counter[str], Counter[str]]:
    """So many kills, in several courses at once; returns where they hit, and how the runs ended."""
    names = [f"{kind.replace(' ', '-')}-{one}" for one in range(at_once)]
    courses = [Course(kind, folder / name, f"{seed} {name}", endpoint) for name in names]

    def work(course: Course) -> None:
        while sum(one.points.total() for one in courses) < number:
            course.round()
        verified = course.job("audit", "verify")
        assert verified.returncode == 0, verified.stderr

    try:
        with ThreadPoolExecutor(at_once) as pool:
            for done in [pool.submit(work, course) for course in courses]:
                done.result()
    finally:
        for course in courses:
            kill_all(course.mark)
    return sum((one.points for one in courses), Counter()), sum((one.ends for one in courses), Counter())
