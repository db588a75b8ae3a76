"""The driver of a batch: starts items, ends them on time, tells the supervisor of each.

    python -m nightlatch.runtime.worker NAME -- CMD …       inside a run only

One thread, one loop. Nothing is started before the supervisor has it on the disk that it is begun; if the
supervisor cannot write, nothing more is started. Items run in process groups of their own, so that Ctrl-C
at the terminal reaches this program alone and it can finish what is in flight.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import socket
import sys
import time
from typing import Any

from ..core import breaker, duration, retry
from ..core.effects import DONE, FAILED, IN_DOUBT, idempotency_key
from ..system import clock
from .batch import IN_DOUBT_ITSELF
from .item_process import Child
from .items import BadItem, Command, Item, Reader, Selection
from .summary import Summary

_GRACE = 5.0  # seconds between asking an item to end and ending it
_SAY_EVERY = 10.0
_PATIENCE = 5.0  # seconds that a supervisor which cannot write is asked again
_MOST = 100  # records in one message


class Refused(Exception):
    """The supervisor does not record any more: nothing may be started."""


class Line:
    """The way to the supervisor."""

    def __init__(self) -> None:
        self._grant = os.environ["NIGHTLATCH_GRANT"]
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(os.environ["NIGHTLATCH_SOCKET"])
        self._answers = self._socket.makefile("rb")

    def ask(self, **request: Any) -> dict[str, Any]:
        try:
            self._socket.sendall(json.dumps({"grant": self._grant, **request}).encode() + b"\n")
            answer = json.loads(self._answers.readline() or b'{"error": "the supervisor hung up"}')
        except OSError as error:
            raise Refused(f"the supervisor does not answer: {error.strerror}") from error
        if not answer.get("ok"):
            raise Refused(answer.get("error", "refused"))
        return dict(answer)


class Worker:
    def __init__(self, line: Line) -> None:
        told = line.ask(do="plan")
        self.plan: dict[str, Any] = told["plan"]
        self.line = line
        self.command = Command(self.plan["command"], shell=self.plan["shell"])
        self.reader = Reader(self.plan["items"], self.plan["format"], self.plan["key"])
        self.limit = breaker.Limit(self.plan["max_failures"]) if self.plan["max_failures"] else None
        self.breaker = breaker.Breaker()
        self.total = self.reader.lines
        self.selection = Selection(self.reader, _known(told["done"], told["in_doubt"]))
        self.exhausted = False
        self.running: list[Child] = []
        self.waiting: list[tuple[float, Item, int]] = []  # (when, item, tries so far)
        self.summary = Summary(self.plan["name"], self.plan["again"])
        self.not_before = 0.0  # a server has asked for patience: nothing is started sooner
        self.stopping = ""  # why nothing more is started
        self.signal = 0
        self.said_at = clock.now()
        self.wake = self._listen()

    def go(self) -> int:
        try:
            while True:
                ended = [child for child in self.running if child.over()]
                self.running = [child for child in self.running if child not in ended]
                verdicts = [self._judge(child) for child in ended]
                starting = self._choose()
                self._record(verdicts, starting)
                for child in ended:
                    child.show()
                self.running += [child for child in starting if child.start()]
                ended_at_once = [child for child in starting if child not in self.running]
                self._record([self._judge(child) for child in ended_at_once], [])
                if not self.running and not self.waiting and (self.stopping or self.exhausted):
                    break
                self._say()
                self._wait(not ended_at_once)
        except Refused as refused:
            self.stopping = f"nothing more can be recorded: {refused}"
            for child in self.running:
                child.kill()
                self.summary.unrecorded.append(child.item.key)
        return self._finish()

    # ── choose ──

    def _choose(self) -> list[Child]:
        chosen: list[Child] = []
        while not self.stopping and len(self.running) + len(chosen) < self.plan["jobs"] and self._may_start():
            item, tries = self._due() or (self._next(), 0)
            if item is None:
                break
            try:
                argv = self.command.argv(item.content)
            except BadItem as bad:
                self.selection.bad.append(self.reader.bad(item.line, bad))
                self._bad()
                continue
            env = {
                "NIGHTLATCH_KEY": item.key,
                "NIGHTLATCH_STEP": item.digest.hex(),
                "NIGHTLATCH_IDEMPOTENCY_KEY": idempotency_key(item.key, self.plan["name"]),
            }
            try:
                chosen.append(Child(item, argv, env, tries + 1, self.plan["timeout"], _GRACE))
            except OSError as error:  # nothing is begun: it is done by the next start
                self._stop(f"{item.key} cannot be started, there is no room to keep its output: {error.strerror}")
        return chosen

    def _may_start(self) -> bool:
        return clock.now() >= self.not_before

    def _due(self) -> tuple[Item, int] | None:
        for entry in self.waiting:
            if entry[0] <= clock.now():
                self.waiting.remove(entry)
                return entry[1], entry[2]
        return None

    def _next(self) -> Item | None:
        if self.exhausted:
            return None
        item = None
        while item is None and not self.selection.over and not self.stopping:
            item = self.selection.next()
            self._bad()  # may have ended it
        self.exhausted = self.selection.over
        return item

    def _bad(self) -> None:
        """Lines that could not be read: each is named at once, and counts as failed."""
        for bad in self.selection.bad:
            print(f"nightlatch: {bad}", file=sys.stderr)
            self.summary.failed.append((str(bad).partition(": ")[0], ""))
            self._failed()
        self.selection.bad.clear()

    # ── judge ──

    def _judge(self, child: Child) -> list[Any]:
        """How an item ended, as it is recorded; and what that means for the batch."""
        item, code = child.item, child.exit_code
        reason = child.reason
        if code == 0 and not child.timed_out:
            self.summary.done += 1
            self.breaker.add("")
            return [item.digest.hex(), item.key, DONE, child.tries, code, child.result(), ""]
        if code == IN_DOUBT_ITSELF:
            self.summary.doubts.append((item.key, child.complaint()))
            return [item.digest.hex(), item.key, IN_DOUBT, child.tries, code, "", reason]
        told = self.line.ask(do="told", digest=item.digest.hex())
        reason = told["failure"] or reason
        self.breaker.add(breaker.alike(code, child.complaint().splitlines()))
        if self.breaker.tripped and not self.limit:
            self._stop(
                f"paused: most of the last items failed in the same way ({self.breaker.tripped}). Put that right first"
            )
        if told["retry_after"]:
            self._hold(told["retry_after"], item.key)
        transient = child.timed_out or retry.worth_another(FAILED, code)
        if transient and child.tries <= self.plan["retries"] and not self.stopping:
            chance = random.random()  # noqa: S311 - jitter is no secret
            pause = retry.pause(child.tries, base=self.plan["backoff"], chance=chance, asked=told["retry_after"])
            self.waiting.append((clock.now() + pause, item, child.tries))
        else:
            self.summary.failed.append((item.key, told["failure"] or f"{reason}{_last(child.complaint())}"))
            self._failed()
        return [item.digest.hex(), item.key, FAILED, child.tries, code, "", reason]

    def _hold(self, asked: float, key: str) -> None:
        until = clock.now() + min(asked, retry.LONGEST)
        if until > self.not_before + 1.0:
            wait = duration.show(until - clock.now())
            print(f"nightlatch: nothing is started for {wait}: {key} was asked for that", file=sys.stderr)
        self.not_before = max(self.not_before, until)

    def _failed(self) -> None:
        failed = len(self.summary.failed)
        if self.plan["fail_fast"]:
            self._stop("an item failed, and --fail-fast was given")
        elif self.limit and self.limit.passed(failed, self.total):
            self._stop(f"{failed} items failed, more than --max-failures {self.plan['max_failures']}")

    def _stop(self, why: str) -> None:
        self.stopping = self.stopping or why
        for _, item, _ in self.waiting:
            self.summary.failed.append((item.key, "not tried again"))
        self.waiting.clear()

    # ── record ──

    def _record(self, ended: list[list[Any]], starting: list[Child]) -> None:
        """One message, one commit: nothing starts before it is on the disk that it is begun."""
        begun = [[child.item.digest.hex(), child.item.key, child.tries] for child in starting]
        while ended or begun:
            self._tell(ended[:_MOST], begun[: max(_MOST - len(ended), 0)])
            begun = begun[max(_MOST - len(ended), 0) :]
            ended = ended[_MOST:]

    def _tell(self, ended: list[list[Any]], begun: list[list[Any]]) -> None:
        """What has ended is worth asking again for: it is known nowhere else. (A full disk may have room again.)"""
        until = clock.now() + (_PATIENCE if ended else 0.0)
        while True:
            try:
                self.line.ask(do="steps", ended=ended, begun=begun)
                return
            except Refused as refused:
                if clock.now() >= until or self.signal:
                    self.summary.unrecorded += [record[1] for record in ended]
                    raise
                print(f"nightlatch: {refused}; asking again", file=sys.stderr)
                time.sleep(1.0)

    # ── wait ──

    def _listen(self) -> int:
        reads, writes = os.pipe()
        os.set_blocking(reads, False)
        os.set_blocking(writes, False)
        signal.set_wakeup_fd(writes, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(signum) != signal.SIG_IGN:  # nohup's wish
                signal.signal(signum, self._asked)
        return reads

    def _asked(self, signum: int, _frame: object) -> None:
        """Asked to end: finish what is in flight; asked twice: end that too."""
        if self.signal:
            for child in self.running:
                child.end(f"ended by signal {signum} to the batch")
        elif self.running and signum == signal.SIGINT:
            print("nightlatch: finishing what is in flight; Ctrl-C again ends it", file=sys.stderr)
        self.signal = self.signal or signum
        self.stopping = self.stopping or "interrupted"

    def _wait(self, pausing: bool) -> None:
        if self.stopping and self.waiting:
            self._stop(self.stopping)
        now = clock.now()
        moments = [child.next_at for child in self.running] + [max(when, self.not_before) for when, *_ in self.waiting]
        if now < self.not_before:
            moments.append(self.not_before)
        pause = min([clock.SLICE, *(max(moment - now, 0.0) for moment in moments)]) if pausing else 0.0
        poll = select.poll()
        poll.register(self.wake, select.POLLIN)
        if poll.poll(pause * 1000 + (1 if pause else 0)):
            os.read(self.wake, 4096)
        now = clock.now()
        for child in self.running:
            child.keep_time(now)

    # ── say ──

    def _say(self, last: bool = False) -> None:
        if not last and clock.now() < self.said_at + _SAY_EVERY:
            return
        self.said_at = clock.now()
        self.summary.skipped = self.selection.skipped
        known = self.summary.done + self.summary.skipped
        self.line.ask(do="progress", done=known, total=max(self.total, known), message=self.summary.short())
        if not last:
            print(f"nightlatch: {self.plan['name']}: {known} of {self.total}, {self.summary.short()}", file=sys.stderr)

    def _finish(self) -> int:
        summary, selection = self.summary, self.selection
        summary.skipped, summary.doubled = selection.skipped, selection.doubled
        summary.doubles = [f"{item.key} (line {item.line})" for item in selection.doubles]
        summary.waiting = selection.in_doubt
        summary.stopped = self.stopping
        try:
            self._say(last=True)
        except Refused as refused:
            print(f"nightlatch: {refused}", file=sys.stderr)
        print(summary.text(), file=sys.stderr)
        return summary.exit_code(self.signal)


def _known(done: str, in_doubt: str) -> dict[bytes, int]:
    """Digests of 16 bytes each, as the supervisor has put them into files: a million of them in about 110 MB."""
    known: dict[bytes, int] = {}
    for path, state in ((done, Selection.DONE), (in_doubt, Selection.DOUBT)):
        with open(path, "rb") as file:
            while chunk := file.read(16 << 12):
                known.update(dict.fromkeys([chunk[at : at + 16] for at in range(0, len(chunk), 16)], state))
    return known


def _last(complaint: str) -> str:
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    return f": {lines[-1][:200]}" if lines else ""


def main() -> int:
    from ..errors import Error

    try:
        return Worker(Line()).go()
    except (Error, Refused) as error:
        print(f"nightlatch: {error}", file=sys.stderr)
        return getattr(error, "exit_code", 125)


if __name__ == "__main__":
    sys.exit(main())
