"""`nightlatch doctor --prove`: test the promises on the user's store and targets, with real processes.

A holder is frozen just before its writes, another takes over and writes, the first one thaws and writes too. Then a
holder is killed, and its processes must be gone before the next one gets the lease.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from typing import Any

from ..core.protocols import Store
from ..core.value import value
from ..errors import Error, StoreUnreachable
from ..store import url
from ..store.git import names
from ..store.git.store import GitStore
from ..store.sql import SqlStore
from ..system import clock, identity, lifetime, process, proofs
from .prove_places import PREFIX, TrialPlace, places
from .prove_worker import DONE_KEY, LANDED, REFUSED, RENEWAL

_PATIENCE = 180.0  # seconds to wait for a worker's next line
_TTL = {"sqlite": 2.0, "postgresql": 3.0, "postgres": 3.0}  # seconds, by the store's scheme
_TTL_ELSEWHERE = 5.0  # git, where a renewal is a push
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Prints its pid and that of a child in another session (0 without setsid); both then sleep.
_ORPHANS = 'echo $$; (setsid sh -c "echo \\$\\$; exec sleep 3600" 2>/dev/null || echo 0) & sleep 3600'


@value(frozen=True, kw_only=True)
class Promise:
    about: str
    held: bool
    found: str


class Proof:
    """The findings.

    `kinds_of_proof`: how this machine can prove that processes are gone. `seconds`: how long each takeover took, by
    what had been done to the holder ("frozen", "killed").
    """

    def __init__(self, store: str) -> None:
        self.store = store
        self.promises: list[Promise] = []
        self.kinds_of_proof = proofs.kinds()
        self.seconds: dict[str, float] = {}
        self.left: list[str] = []  # what could not be cleaned up

    @property
    def held(self) -> bool:
        return all(promise.held for promise in self.promises)

    def add(self, about: str, held: bool, found: str) -> None:
        self.promises.append(Promise(about=about, held=held, found=found))

    def facts(self) -> dict[str, object]:
        return {
            "version": 1,
            "store": self.store,
            "held": self.held,
            "promises": [dict(vars(promise)) for promise in self.promises],
            "proofs": [{"proof": name, "has": has, "found": found} for name, has, found in self.kinds_of_proof],
            "takeover": {after: round(seconds, 3) for after, seconds in self.seconds.items()},
            "left": self.left,
        }


def prove(where: str, targets: list[str]) -> Proof:
    """Test the promises. Raises if the store or a target cannot be reached; cleans up in any case."""
    trial = _Trial(where, targets)
    before = {signum: signal.signal(signum, _interrupted) for signum in _SIGNALS}
    try:
        try:
            trial.freeze_holder()
            trial.kill_holder()
        finally:
            for signum in _SIGNALS:
                signal.signal(signum, signal.SIG_IGN)  # the clean-up must not be interrupted
            trial.end()
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
    return trial.proof


class _Trial:
    def __init__(self, where: str, targets: list[str]) -> None:
        self.number = identity.new_id()[:8]
        self.name = f"doctor-{PREFIX}{self.number}"
        self.store: Store = url.connect(where)
        self.proof = Proof(self.store.url)
        self.places = places(targets, self.number)
        self.made_places: list[TrialPlace] = []
        self.ttl = _TTL.get(where.partition(":")[0], _TTL_ELSEWHERE)
        outer = {name: text for name, text in os.environ.items() if not name.startswith("NIGHTLATCH_")}
        self.env = {**outer, url.ENV: where}  # without the variables of a run around us
        self.workers: list[_Worker] = []
        self.lifetimes: set[str] = set()  # lifetime files, which killed holders leave behind

    # ── a holder is frozen ──

    def freeze_holder(self) -> None:
        """Freeze a holder before its writes: after another has taken over, they must be refused."""
        for place in self.places:
            self.made_places.append(place)
            place.make()
        ann = self._holder("Ann")
        token = ann.receive()["token"]
        self._note_lifetime()
        ann.freeze()
        began = clock.now()
        ben = self._holder("Ben")
        newer = ben.receive()["token"]
        self._note_lifetime()
        self.proof.seconds["frozen"] = clock.now() - began
        self.proof.add("token", newer > token, f"{newer} after {token}: tokens only rise")
        ben.go_on()
        new_report = ben.receive()
        ann.thaw()
        ann.go_on()
        stale_report = ann.receive()
        for place, (stale, why), (new, error) in zip(
            self.places, stale_report["targets"], new_report["targets"], strict=True
        ):
            last = place.read()
            held = new == LANDED and stale == REFUSED and last == "Ben"
            self.proof.add(place.target, held, _finding(stale, why, new, error, last))
        for what in (RENEWAL, DONE_KEY):
            stale, why = stale_report["store"][what]
            new, error = new_report["store"][what]
            self.proof.add(
                f"store, {what}", stale == REFUSED and new == LANDED, _finding(stale, why, new, error, "Ben")
            )
        for worker in (ann, ben):
            worker.go_on()
            worker.finish()

    def _holder(self, worker: str) -> _Worker:
        arguments = {
            "worker": worker,
            "name": self.name,
            "number": self.number,
            "ttl": self.ttl,
            "targets": [place.target for place in self.places],
        }
        return self._start("nightlatch.cli.prove_worker", json.dumps(arguments))

    # ── a holder is killed ──

    def kill_holder(self) -> None:
        """Kill a holder with a minute left on its lease: its processes must be gone before the next one gets it."""
        holder = self._lock("--ttl", "60s", "--", "sh", "-c", _ORPHANS)
        pids = [int(holder.line()), int(holder.line())]
        self._note_lifetime()
        began = [(pid, process.start_of(pid) or 0) for pid in pids if pid]
        holder.kill()
        at = clock.now()
        self._lock("--wait", "60s", "--", "true").finish()
        self.proof.seconds["killed"] = clock.now() - at
        alive = [pid for pid, start in began if process.state_of(pid, start) in (process.ALIVE, process.STOPPED)]
        found = f"STILL ALIVE: pid {', '.join(map(str, alive))}" if alive else "gone before the next one was let in"
        self.proof.add(
            "processes", not alive, f"kill -9 of a holder; {len(began)} processes of its command are {found}"
        )

    def _lock(self, *words: str) -> _Worker:
        return self._start("nightlatch", "lock", self.name, *words)

    def _start(self, module: str, *words: str) -> _Worker:
        worker = _Worker([sys.executable, "-P", "-m", module, *words], self.env)
        self.workers.append(worker)
        return worker

    def _note_lifetime(self) -> None:
        record = self.store.read(self.name)
        if record and record.holder.lifetime:
            self.lifetimes.add(record.holder.lifetime)

    # ── clean up ──

    def end(self) -> None:
        for worker in self.workers:
            worker.kill()
        for place in self.made_places:
            self._clean_up(place.target, place.remove)
        self._clean_up(self.store.url, self._forget)

    def _clean_up(self, what: str, remove: Any) -> None:
        try:
            remove()
        except Exception as error:  # noqa: BLE001 - the rest is still cleaned up
            self.proof.left.append(f"{what}: {error}")

    def _forget(self) -> None:
        """Remove the trial's lease, whose name is never used again.

        Any other lease stays in the store for ever, so that its tokens only grow.
        """
        self._note_lifetime()
        for path in self.lifetimes:
            lifetime.forget(path)
        if isinstance(self.store, GitStore):
            self.store.repository.delete([names.lease(self.name)])
        elif isinstance(self.store, SqlStore):
            self.store.forget(self.name)
        for folder, _, files in os.walk(self.store.folder):
            for name in files:
                if self.name in name:
                    os.unlink(os.path.join(folder, name))


class _Worker:
    """A holder's process, in a separate session.

    The kernel sends SIGHUP to a whole process group that becomes orphaned while one of its processes is stopped: in our
    group, a frozen holder could end us.
    """

    def __init__(self, program: list[str], env: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            program, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
        self._unread = b""

    def line(self) -> str:
        assert self._process.stdout
        out = self._process.stdout.fileno()
        while b"\n" not in self._unread:  # a buffered line is used first: select would not see it
            if not select.select([out], [], [], _PATIENCE)[0]:
                raise StoreUnreachable(f"no response from a holder for {_PATIENCE:.0f} s: is the store very slow?")
            more = os.read(out, 65536)
            if not more:
                errors = self._process.communicate()[1].strip().splitlines()
                raise Error(f"a holder ended too early: {errors[-1] if errors else self._process.returncode}")
            self._unread += more
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode()

    def receive(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.line())
        return found

    def go_on(self) -> None:
        assert self._process.stdin
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)
        start = process.start_of(self._process.pid) or 0
        while process.state_of(self._process.pid, start) == process.ALIVE:
            clock.sleep(0.01)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def finish(self) -> None:
        errors = self._process.communicate(timeout=_PATIENCE)[1].strip().splitlines()
        if self._process.returncode:
            raise Error(f"a holder failed: {errors[-1] if errors else self._process.returncode}")

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate() if self._process.poll() is None else None


def _interrupted(_signum: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _finding(stale: str, why: str, new: str, error: str, last: str) -> str:
    """`stale`, `new`: the outcome of the stale holder's write and of the new one's. `last`: whose write is there."""
    if new != LANDED:
        return f"the new holder's own write {new}: {error}"
    if stale == REFUSED:
        return f"the stale write was refused: {why}" if last == "Ben" else f"refused, but it holds {last or 'nothing'}"
    return "THE STALE WRITE LANDED" if stale == LANDED else f"the stale write failed for another reason: {why}"
