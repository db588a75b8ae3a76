"""The overnight trial: small batches of effects, the faults of real nights, three ways to run them.

naive      a loop over the items; the first error ends it, and nobody starts it again but a sandbox that restarts
retry-only each request is tried again, Retry-After honoured, and cron starts the script again until it exits 0
Nightlatch `nightlatch batch`, with `nightlatch once` where the API does not dedup; the same cron

All three meet the same faults, drawn from one seed, each when a certain item is asked for: 429 with Retry-After (times
are a hundredth of real ones), connections dropped before and after the effect, the session's end (TERM, then KILL),
kill -9 of the whole tree, and the same with everything begun again (a sandbox that restarts; its state folder stays).
The server is real, on loopback, and counts what it was made to do. Exactly once is judged by its count, nobody's word.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from tests.support.programs import kill_all

from nightlatch.ledger import open_for

from . import overnight_client, timing
from .overnight_server import DEADLY, RATES, Fault, Night, faults

SEED = int(os.environ.get("BENCH_SEED", "20261116"))
BATCHES = int(os.environ.get("BENCH_BATCHES", "500"))
RATE = float(os.environ.get("BENCH_RATE", "1"))  # how many times as bad as a usual night
ITEMS = 10
STARTS = 8  # by cron, in a night
AT_ONCE = 2
GRACE = 0.5  # seconds between TERM and KILL when a session ends

CLIENT = [sys.executable, "-S", "-E", overnight_client.__file__]
NIGHTLATCH = str(Path(sys.executable).with_name("nightlatch"))
CONTESTANTS = ("naive", "retry-only", "Nightlatch")
KINDS = {"dedups by key": 0.4, "with a probe": 0.4, "without a probe": 0.2}  # and their share of the batches


@dataclass
class Result:
    batches: int = 0
    wrong: int = 0  # not each item exactly once when the night is over
    duplicates: int = 0
    lost: int = 0  # never done, and not named as unfinished
    named: int = 0  # in doubt or failed, and said so
    person: int = 0  # batches that did not end with 0

    def add(self, other: Result) -> None:
        for name, value in other.__dict__.items():
            setattr(self, name, getattr(self, name) + value)


class Contestant:
    """One way to run the batches of one kind of API, and what became of them."""

    def __init__(self, name: str, kind: str, plan: list[list[Fault]], folder: Path) -> None:
        self.name, self._kind, self._plan, self._folder = name, kind, plan, folder
        self.night = Night(plan, dedups=kind == "dedups by key", strike=self._strike)
        self._running: dict[int, tuple[subprocess.Popen[bytes], str]] = {}
        self._again: set[int] = set()  # batches whose sandbox restarts
        self._store = f"sqlite:///{folder}/state/nightlatch.db"
        (folder / "state").mkdir(parents=True)

    def go(self) -> Result:
        todo: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        for batch in [*range(len(self._plan)), *[None] * AT_ONCE]:
            todo.put(batch)
        codes: dict[int, int] = {}

        def work() -> None:
            while (batch := todo.get()) is not None:
                codes[batch] = self._run(batch)

        threads = [threading.Thread(target=work) for _ in range(AT_ONCE)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        time.sleep(0.2)  # what killed clients had asked for has been served
        self.night.close()
        total = Result()
        for batch, code in codes.items():
            total.add(self._judge(batch, code))
        return total

    def _run(self, batch: int) -> int:
        words, code = self._words(batch), 1
        for _ in range(STARTS):
            code = self._start(batch, words)
            restarted = batch in self._again
            self._again.discard(batch)
            if code == 0 or (self.name == "naive" and not restarted):
                break
        return code

    def _start(self, batch: int, words: list[str]) -> int:
        mark = f"OVERNIGHT={os.urandom(8).hex()}"
        env = timing.environment() | dict([mark.split("=")]) | {"NIGHTLATCH_STORE": self._store}
        process = subprocess.Popen(
            words, env=env, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        self._running[batch] = process, mark
        return process.wait()

    def _strike(self, batch: int, kind: str) -> None:
        process, mark = self._running[batch]
        if kind == "session timeout":
            process.send_signal(signal.SIGTERM)
            until = time.monotonic() + GRACE
            while process.returncode is None and time.monotonic() < until:
                time.sleep(0.01)
        elif kind == "sandbox restart":
            self._again.add(batch)
        kill_all(mark)

    def _words(self, batch: int) -> list[str]:
        port = self.night.port
        if self.name == "naive":
            return [*CLIENT, "naive", port, str(batch), str(ITEMS)]
        if self.name == "retry-only":
            return [*CLIENT, "retrying", port, str(batch), str(ITEMS)]
        items = self._folder / f"{batch}.jsonl"
        items.write_text("".join(json.dumps({"id": f"{batch}-{number}"}) + "\n" for number in range(ITEMS)))
        post = [*CLIENT, "post", port, "{id}", NIGHTLATCH]
        again = ["--lost", "again", "--retries", "6", "--backoff", "50ms", "-j", "2"]
        words = [NIGHTLATCH, "batch", f"b{batch}", str(items), "--key", "{id}", *again, "--"]
        if self._kind == "dedups by key":
            return [*words, *post]
        once = [NIGHTLATCH, "once", "post/{id}", "--not-done", "75", "--timeout", "2s"]
        if self._kind == "with a probe":
            looking = " ".join([*CLIENT, "probe", port, "{id}"])
            once += ["--settle", "200ms", "--wait", "20s", "--probe", looking]
        return [*words, *once, "--", *post]

    def _judge(self, batch: int, code: int) -> Result:
        names = [f"{batch}-{number}" for number in range(ITEMS)]
        effects = [self.night.effects[name] for name in names]
        missing = {name for name in names if not self.night.effects[name]}
        named = self._unfinished(batch) if self.name == "Nightlatch" else set()
        return Result(
            batches=1,
            wrong=any(count != 1 for count in effects) or bool(named),
            duplicates=sum(max(count - 1, 0) for count in effects),
            lost=len(missing - named),
            named=len(named),
            person=code != 0,
        )

    def _unfinished(self, batch: int) -> set[str]:
        """What Nightlatch itself says is not done: nobody has to guess."""
        steps = open_for(self._store).items
        return {step.key for status in ("in-doubt", "failed", "begun") for step in steps.every(f"b{batch}", status)}


def run() -> None:
    print("\nThe overnight trial: batches of effects, and the faults of real nights")
    rates = ", ".join(f"{kind} {rate * RATE:.1%}" for kind, rate in RATES.items())
    print(f"  seed {SEED}; of the batches: {rates}; {ITEMS} items each; times a hundredth of real ones")
    totals, decidable = {name: Result() for name in CONTESTANTS}, Result()
    for number, (kind, share) in enumerate(KINDS.items()):
        plan = faults(SEED + number, round(BATCHES * share), ITEMS, RATE)
        hit = sum(bool(found) for found in plan)
        killed = sum(fault.kind in DEADLY for found in plan for fault in found)
        print(f"\n  an API that {'dedups by key' if not number else 'does not dedup, ' + kind}")
        print(f"  {len(plan)} batches, {hit} of them ({hit / len(plan):.1%}) meet a fault; {killed} of the faults kill")
        print(f"  {'':12}{'not exactly once':>18}{'duplicates':>12}{'lost':>8}{'in doubt':>10}{'need a person':>16}")
        for name in CONTESTANTS:
            with tempfile.TemporaryDirectory(prefix="nightlatch-night-") as folder:
                started = time.perf_counter()
                contestant = Contestant(name, kind, plan, Path(folder))
                found = contestant.go()
                took = time.perf_counter() - started
                _print(name, found, f"   {took:5.0f} s; slowest effect {contestant.night.slowest:.1f} s")
            totals[name].add(found)
            if kind != "without a probe" and name == "Nightlatch":
                decidable.add(found)
    print("\n  all of them together")
    for name, found in totals.items():
        _print(name, found, "")
    share = decidable.person / decidable.batches
    print(
        f"  goals for Nightlatch: 0 duplicates, 0 lost; where the API dedups or a probe exists at most 0.4 % of the "
        f"batches\n  need a person: {decidable.person} of {decidable.batches}, {share:.1%}"
    )


def _print(name: str, found: Result, more: str) -> None:
    print(
        f"  {name:<12}{found.wrong:>10} {found.wrong / found.batches:>7.1%}{found.duplicates:>12}"
        f"{found.lost:>8}{found.named:>10}{found.person:>9} {found.person / found.batches:>6.1%}{more}",
        flush=True,
    )
