"""Runs, effects, batches and publishing from two machines with the same keys, while their supervisors are hit.

Four callers, two on each machine (a state folder and a wall clock of its own), start the command line in a loop, with
keys that the others use at the same time. What the command did is in a file that only it writes.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from nightlatch.core import statuses
from nightlatch.errors import StoreUnreachable
from nightlatch.ledger import open_for
from nightlatch.system import clock, identity
from tests.soak.found import Found, crashes
from tests.soak.hung import TRACEBACKS, where
from tests.soak.places import TTL, Place
from tests.support.clones import begun, git
from tests.support.programs import NIGHTLATCH, carrying, children, environment, until
from tests.support.servers.git import git_repository
from tests.support.workloads.fault_log import FaultLog
from tests.support.workloads.wall_clock import WallClock

KINDS = ("runs", "once", "batch", "publish")
CALLERS = 4
BATCH = 5  # items
HANGS_AFTER = 300.0  # seconds that no call takes, whatever is done to it: the longest is a batch on git, some 60 s
MARK = "SOAK_CALLERS"

# $1 the course's folder, $2 what nobody else may work on at the same time, $3 seconds, $4 the key.
ACT = """
exec 9>> "$1/at-work.$2"
flock -n 9 || echo "overlap $2 $NIGHTLATCH_GRANT" >> "$1/acts"
sleep "$3"
echo "acted $4" >> "$1/acts"
sleep "$3"
"""
# The same, and an article for the key; the page is the last one's.
PUBLISH = f"""{ACT}
echo "$4 $NIGHTLATCH_ATTEMPT $NIGHTLATCH_TOKEN" > page
mkdir -p articles && cp page "articles/$4"
git add --all && git commit -qm "Article $4"
"""


def _asked(question: Callable[..., Any], *words: str) -> list[Any]:
    """The answer; nothing while the server is away."""
    try:
        return [question(*words)]
    except StoreUnreachable:
        return []


class Course:
    def __init__(self, kind: str, store: str, place: Place, seed: str, *, forgetful: bool = False) -> None:
        """`forgetful`: the store, a git one, loses the done keys again and again, so that there is something to find."""
        self.kind, self.url, self.folder, self.found = kind, place.store(store), place.folder, Found()
        self._ttl, self._homes, self._chance = TTL[store], place.homes, random.Random(seed)
        self._mark = f"{MARK}={identity.new_id()}"
        self._seed = seed
        self._running: dict[int, subprocess.Popen[bytes]] = {}  # caller → its supervisor
        self._acknowledged: set[str] = set()
        self._calls = 0
        self._over = threading.Event()
        self._faults = FaultLog(self.folder)
        self._stopped: list[tuple[float, int]] = []  # (when it may go on, pid)
        self._place, self._forgetful = place, forgetful
        self._stack = ExitStack()
        self.clocks = []
        for home in self._homes:
            Path(home).mkdir()
            self.clocks.append(self._stack.enter_context(WallClock(Path(home))))
        (self.folder / "acts").touch()
        if kind == "publish":
            self.remote = git_repository(self.folder / "articles.git")
            begun(self.remote, self.folder / "first")

    def run(self, seconds: float) -> Found:
        for home in self._homes:
            until(partial(self._is_there, home), 300)
        deadline = clock.now() + seconds
        with self._stack, ThreadPoolExecutor(CALLERS + 1) as pool:
            threads = [pool.submit(self._watch_page)]
            threads += [pool.submit(self._call, number, f"{self._seed} {number}") for number in range(CALLERS)]
            try:
                while clock.now() < deadline:
                    self._strike()
            finally:
                self._over.set()
                self._go_on(clock.now() + 1000)
            for thread in threads:
                thread.result()
            self._judge()
        return self.found

    def _is_there(self, home: str) -> bool:
        """Make store and ledger before anybody is hit: a machine that is too busy for one call has nothing to verify."""
        env = environment(self.url, XDG_STATE_HOME=home)
        words = ["run", "first", "--wait", "5s", "--new", "--lost", "again", "--", "true"]
        return subprocess.run([*NIGHTLATCH, *words], env=env, capture_output=True).returncode == 0

    # The callers

    def _call(self, number: int, seed: str) -> None:
        chance, machine = random.Random(seed), number % 2
        env = environment(
            self.url, XDG_STATE_HOME=self._homes[machine], NIGHTLATCH_DEBUG="1", **TRACEBACKS, **self.clocks[machine].environment,
            **dict([self._mark.split("=")]), GIT_AUTHOR_NAME="Ann", GIT_AUTHOR_EMAIL="ann@example.org",
            GIT_COMMITTER_NAME="Ann", GIT_COMMITTER_EMAIL="ann@example.org",
        )  # fmt: skip
        while not self._over.is_set():
            key = f"k{self._calls // 6 + chance.randrange(3)}"
            self._calls += 1
            seconds = chance.choice((0.0, 0.05, 0.2, 1.5 * self._ttl if chance.random() < 0.1 else 0.1))
            with open(self.folder / f"said.{number}", "ab") as said:
                said.write(f"--- {clock.now():.3f} {key}\n".encode())
                said.flush()
                process = subprocess.Popen(
                    [*NIGHTLATCH, *self._words(key, f"{seconds:.2f}")], env=env, cwd=self.folder,
                    stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                )  # fmt: skip
                self._running[number] = process
                code = self._end_of(process)
            self.found.notes[str(code)] += 1
            if code == 0:
                self.found.acknowledged += 1
                self._acknowledged.add(key)
            elif code == 73:
                self.found.refused += 1
            else:
                self.found.unknown += 1

    def _end_of(self, process: subprocess.Popen[bytes]) -> int:
        """The call's exit code. One that does not come to its end is a finding, with where it hangs."""
        try:
            return process.wait(HANGS_AFTER)
        except subprocess.TimeoutExpired:
            pids = [process.pid, *children(process.pid)]
            self.found.violations.append(f"not over after {HANGS_AFTER:.0f} s:\n{where(pids)}")
            try:
                return process.wait(10)  # it prints its stacks
            except subprocess.TimeoutExpired:
                process.kill()
                return process.wait()

    def _words(self, key: str, seconds: str) -> list[str]:
        lease = ["--ttl", f"{self._ttl:.0f}s", "--wait", "5s"]
        act = ["--", "sh", "-ec", ACT, "sh", str(self.folder)]
        if self.kind == "runs":
            return ["run", "job", "--key", key, *lease, "--lost", "doubt", *act, "job", seconds, key]
        if self.kind == "once":
            return ["once", key, "--wait", "5s", "--timeout", "60s", *act, key, seconds, key]
        if self.kind == "batch":
            items, new = self.folder / f"items.{key}", self.folder / f"items.{identity.new_id()}"
            new.write_text("".join(f"{key}.{n}\n" for n in range(BATCH)))
            new.rename(items)  # another caller may be reading it
            return ["batch", key, str(items), "-j", "2", *act, "{}", seconds, "{}"]
        publish = ["--publish", f"page={self.folder}/page", "--publish", "git"]
        work = ["--", "sh", "-ec", PUBLISH, "sh", str(self.folder), "site", seconds, key]
        return ["run", "site", "--workspace", f"git:{self.remote}#main", *publish, "--key", key, *lease, *work]

    # The nemesis

    def _strike(self) -> None:
        time.sleep(self._chance.uniform(0.1, 0.8))
        self._go_on(clock.now())
        if self._forgetful:
            self._forget()
        caller, kind, whom = self._chance.randrange(CALLERS), self._chance.random(), self._chance.randrange(3)
        pause = self._ttl * self._chance.choice((0.1, 0.2, 0.5, 1.3, 2.0))
        step, machine = self._chance.choice((-3600, -60, 0, 60, 3600)), self._chance.randrange(2)
        if kind < 0.05:
            self._note("clock", self.clocks[machine].set(step), machine, step)
        elif kind < 0.1:
            self._place.lose_reply()
            self._note("cut", self.url.startswith("git"))
        elif (process := self._running.get(caller)) and process.poll() is None:
            wardens = children(process.pid)[:1]
            signum, what = (signal.SIGKILL, "kill") if kind < 0.25 else (signal.SIGSTOP, "stop")
            pids = ([process.pid], wardens, [process.pid, *wardens])[whom]
            for pid in pids:
                try:
                    os.kill(pid, signum)
                except ProcessLookupError:
                    continue
                self._note(what, True, pid, pause)
                if signum == signal.SIGSTOP:
                    self._stopped.append((clock.now() + pause, pid))

    def _forget(self) -> None:
        for ref in git(
            self.folder / "store.git", "for-each-ref", "--format=%(refname)", "refs/nightlatch/@done"
        ).split():
            git(self.folder / "store.git", "update-ref", "-d", ref)

    def _note(self, kind: str, happened: bool, *words: object) -> None:
        if happened:
            self.found.faults[kind] += 1
            self._faults.note(kind, *words)

    def _go_on(self, now: float) -> None:
        for due in [due for due in self._stopped if due[0] <= now]:
            self._stopped.remove(due)
            try:
                os.kill(due[1], signal.SIGCONT)
            except ProcessLookupError:
                pass

    # The checker

    def _watch_page(self) -> None:
        """What a file that is published to has shown, one after the other; a look may miss one, and never invents one."""
        self.shown: list[str] = []
        while self.kind == "publish" and not self._over.wait(0.01):
            try:
                now = (self.folder / "page").read_text().strip()
            except FileNotFoundError:
                continue
            if not self.shown or now != self.shown[-1]:
                self.shown.append(now)

    def _judge(self) -> None:
        self._alone()
        lines = [line.split() for line in (self.folder / "acts").read_text().splitlines()]
        acted = Counter(line[1] for line in lines if line[0] == "acted")
        found = self.found.violations
        found += crashes(self.folder.glob("said.*"))
        found += [f"worked beside its successor: {line}" for line in lines if line[0] == "overlap"]
        if self.kind == "publish":
            found += self._judge_articles()
            found += [f"shown, replaced, and shown again: {page}" for page, n in Counter(self.shown).items() if n > 1]
        else:
            again = self._may_be_repeated() if self.kind == "runs" else Counter[str]()
            found += [f"done {times} times: {key}" for key, times in acted.items() if times > 1 + again[key]]
            wanted = [f"{key}.{n}" for key in self._acknowledged for n in range(BATCH)]
            for key in wanted if self.kind == "batch" else self._acknowledged:
                if not acted[key]:
                    found.append(f"acknowledged and not done: {key}")
        self._verify()

    def _may_be_repeated(self) -> Counter[str]:
        """How many attempts of each key failed by themselves: the next start tries again. What was lost, with its
        supervisor, its warden or its lease, is not among them: with `--lost doubt` that is in doubt."""
        ended: Counter[str] = Counter()
        for home in self._ledgers():
            os.environ["XDG_STATE_HOME"] = home
            ledger = open_for(self.url)
            for key in [f"k{number}" for number in range(self._calls // 6 + 3)]:
                run = until(partial(_asked, ledger.find, "job", key))[0]
                attempts = until(partial(_asked, ledger.attempts, run.id))[0] if run else []
                ended[key] += sum(attempt.status == statuses.FAILED for attempt in attempts)
        return ended

    def _ledgers(self) -> tuple[str, ...]:
        """The state folders whose ledgers differ: with a git store each machine has its own."""
        return self._homes if self.url.startswith("git") else self._homes[:1]

    def _judge_articles(self) -> list[str]:
        found = []
        for key in [f"k{n}" for n in range(self._calls // 6 + 3)]:
            times = len(git(self.remote, "rev-list", "main", "--", f"articles/{key}").split())
            if times > 1:
                found.append(f"published {times} times: {key}")
            if not times and key in self._acknowledged:
                found.append(f"acknowledged and not published: {key}")
        return found

    def _alone(self) -> None:
        """All that was started is gone: what lost its supervisor and its warden comes to its own end."""
        try:
            until(lambda: not carrying(self._mark), timeout=60)
        except AssertionError:
            self.found.violations.append(f"still at work: {carrying(self._mark)}")

    def _verify(self) -> None:
        """Each machine's journal, as its owner would."""
        for home in self._ledgers():
            env = environment(self.url, XDG_STATE_HOME=home)
            for _ in range(20):  # the server may be away for a moment
                verified = subprocess.run([*NIGHTLATCH, "audit", "verify"], env=env, text=True, capture_output=True)
                if verified.returncode != 69:
                    break
                time.sleep(1)
            if verified.returncode:
                self.found.violations.append(f"audit verify of {Path(home).name}: {verified.stdout}{verified.stderr}")
