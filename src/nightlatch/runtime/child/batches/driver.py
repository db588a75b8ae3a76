"""The driver of a batch: starts items, ends them at their timeout, reports each to the supervisor.

    python -m nightlatch.runtime.child.batches.driver NAME -- CMD …       inside a run only

One thread, one loop. No item starts before the supervisor has recorded on disk that it is begun; if the
supervisor cannot write, nothing more is started. Each item has its own process group, so that Ctrl-C at the
terminal reaches only this program, which can then finish the items in flight.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from itertools import repeat
from operator import itemgetter
from struct import iter_unpack
from typing import Any

from ....core import advice
from ....core.effects import DONE, IN_DOUBT, SET_ASIDE, idempotency_key
from ....core.printable import printable
from ....errors import Error
from ....system import clock, printing
from ....system.warden_messages import END_SIGNALS
from ...shared import trace
from ...shared.batches.items import BatchItem, ItemReader
from ...shared.batches.selection import Selection
from ...shared.batches.template import BadItem, CommandTemplate
from .driver_client import DriverClient, NotRecorded
from .item_process import ItemProcess
from .item_workspaces import ItemWorkspaces
from .judge import Judge
from .summary import LISTED, Summary

_GRACE = 5.0  # seconds between SIGTERM and SIGKILL for an item
_REPORT_EVERY = 10.0  # seconds between two lines of progress
_PATIENCE = 5.0  # seconds for which a report is retried if the supervisor cannot record it
_MOST_RECORDS = 100  # in one request
_LOOK_EVERY = 0.25  # seconds between two looks at what the items have spent


class BatchDriver:
    def __init__(self, client: DriverClient) -> None:
        reply = client.ask(do="plan")
        self.plan: dict[str, Any] = reply["plan"]
        self.client = client
        self.command = CommandTemplate(self.plan["command"], shell=self.plan["shell"])
        self.reader = ItemReader(self.plan["items"], self.plan["format"], self.plan["key"])
        self.total = self.reader.lines
        self.selection = Selection(self.reader, _known(reply["known"]))
        self.workspaces = ItemWorkspaces(self.plan["publish"], reply["home"]) if reply["home"] else None
        self.bar = reply["bar"]  # does the supervisor show the progress as a bar?
        self.as_data = reply["as_data"]  # does a file or another program read our standard output?
        self.exhausted = False  # have all items been read?
        self.running: list[ItemProcess] = []
        self.judging: list[ItemProcess] = []  # ended, and not recorded yet
        self.starting: list[ItemProcess] = []  # chosen, and not recorded as begun yet
        advice.choose(self.plan["store"])
        self.summary = Summary(self.plan["name"], self.plan["continued_by"], piped=self.plan["items"] == "-")
        self.judge = Judge(self.plan, client, self.workspaces, self.summary, self.total)
        self.signal = 0
        self.second_signal = self.announced = False
        self.reported_at = self.looked_at = clock.now()
        self.wake = self._listen()

    def go(self) -> int:
        try:
            while True:
                self.judging = ended = [child for child in self.running if child.has_ended()]
                self.running = [child for child in self.running if child not in ended]
                verdicts = self.judge.verdicts(ended)
                self.starting = starting = self._choose()
                self._record(verdicts, starting)
                self.starting = []
                for child in ended:
                    child.show(all_on_stderr=self.plan["json"], as_data=self.as_data)
                self.running += [child for child in starting if child.start()]
                self.judging = ended_at_once = [child for child in starting if child not in self.running]
                self._record(self.judge.verdicts(ended_at_once), [])
                self.judging = []
                if not self.running and not self.judge.waiting and (self.judge.stopping or self.exhausted):
                    break
                self._report_progress()
                self._wait(may_sleep=not ended_at_once)
        except NotRecorded as refused:
            self.judge.stopping = f"nothing more can be recorded: {refused}"
            for child in self.running:
                child.kill()
            unknown = [child.item.key for child in (*self.judging, *self.running)]
            self.summary.unrecorded = list(dict.fromkeys([*self.summary.unrecorded, *unknown]))
            self._not_started(*(child.item for child in self.starting))
        return self._finish()

    # ── choose ──

    def _choose(self) -> list[ItemProcess]:
        chosen: list[ItemProcess] = []
        while not self.judge.stopping and len(self.running) + len(chosen) < self.plan["jobs"] and self._may_start():
            item, tries = self._due_retry() or (self._next_item(), 0)
            if item is None:
                break
            try:
                chosen.append(self._child(item, tries + 1))
            except BadItem as bad:
                self.selection.bad.append(self.reader.bad(item.line, bad))
                self._report_bad_lines()
            except OSError as error:  # the item was not begun: the next start does it
                self._not_started(item)
                self.judge.stop(f"{item.key} cannot be started, since its output cannot be kept: {error.strerror}")
        return chosen

    def _not_started(self, *items: BatchItem) -> None:
        """Count items that were taken from the file and could not be started: if they were its last ones, nothing else
        would show that they are not done."""
        self.summary.failed += [(item.key, "not started") for item in items]

    def _child(self, item: BatchItem, tries: int) -> ItemProcess:
        argv, workspace = self.command.argv(item.content), ""
        env = {
            "NIGHTLATCH_KEY": item.key,
            "NIGHTLATCH_STEP": item.digest.hex(),
            "NIGHTLATCH_IDEMPOTENCY_KEY": idempotency_key(item.key, self.plan["name"]),
            **trace.for_item(os.environ, item.key),
        }
        if self.workspaces:
            self.workspaces.targets(item.content)  # an item that cannot be published is not begun
            env["NIGHTLATCH_WORKSPACE"] = workspace = self.workspaces.make(item, tries)
            if "/" in argv[0]:
                argv[0] = os.path.abspath(argv[0])
        return ItemProcess(item, argv, env, tries, timeout=self.plan["timeout"], grace=_GRACE, workspace=workspace)

    def _may_start(self) -> bool:
        return clock.now() >= self.judge.not_before

    def _due_retry(self) -> tuple[BatchItem, int] | None:
        for entry in self.judge.waiting:
            if entry[0] <= clock.now():
                self.judge.waiting.remove(entry)
                return entry[1], entry[2]
        return None

    def _next_item(self) -> BatchItem | None:
        if self.exhausted:
            return None
        item = None
        while item is None and not self.selection.exhausted and not self.judge.stopping:
            item = self.selection.next()
            self._report_bad_lines()  # may have stopped the batch
        self.exhausted = self.selection.exhausted
        return item

    def _report_bad_lines(self) -> None:
        """Report lines that could not be read; each counts as failed."""
        for bad in self.selection.bad:
            print(f"nightlatch: {printable(str(bad))}", file=sys.stderr)
            self.judge.unreadable(bad)
        self.selection.bad.clear()

    # ── record ──

    def _record(self, ended: list[list[Any]], starting: list[ItemProcess]) -> None:
        """Nothing starts before its beginning is on disk. Ends and beginnings share a request, and so a commit."""
        begun = [[child.item.digest.hex(), child.item.key, child.tries] for child in starting]
        while ended or begun:
            self._report(ended[:_MOST_RECORDS], begun[: max(_MOST_RECORDS - len(ended), 0)])
            begun = begun[max(_MOST_RECORDS - len(ended), 0) :]
            ended = ended[_MOST_RECORDS:]

    def _report(self, ended: list[list[Any]], begun: list[list[Any]]) -> None:
        """If items have ended, retry for a while: only we know how they ended, and a full disk may get room again."""
        until = clock.now() + (_PATIENCE if ended else 0.0)
        while True:
            try:
                self.client.ask(
                    do="steps", ended=ended, begun=begun, **({"counts": self._counts()} if self.bar else {})
                )
                return
            except NotRecorded as refused:
                if clock.now() >= until or self.signal:
                    self.summary.unrecorded += [record[1] for record in ended]
                    raise
                print(f"nightlatch: {refused}; trying again", file=sys.stderr)
                time.sleep(1.0)

    # ── wait ──

    def _listen(self) -> int:
        """Install the signal handlers; returns the pipe's end that every signal makes readable."""
        reads, writes = os.pipe()
        os.set_blocking(reads, False)
        os.set_blocking(writes, False)
        signal.set_wakeup_fd(writes, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for signum in END_SIGNALS:
            if signal.getsignal(signum) != signal.SIG_IGN:  # one that was ignored, as under nohup, stays ignored
                signal.signal(signum, self._note_signal)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, END_SIGNALS)  # delivers what arrived since this program was started
        return reads

    def _note_signal(self, signum: int, _frame: object) -> None:
        """Only note that a signal asks us to end: an item may have started and not be in `running` yet."""
        self.second_signal = bool(self.signal)
        self.signal = self.signal or signum
        self.judge.stopping = self.judge.stopping or "interrupted"

    def _obey_signals(self) -> None:
        """After one signal finish the items in flight; after a second one end them too."""
        if self.second_signal:
            for child in self.running:
                child.end(f"ended by signal {self.signal} to the batch")
        elif self.signal == signal.SIGINT and self.running and not self.announced:
            self.announced = True
            print("nightlatch: finishing active items; Ctrl-C again kills them", file=sys.stderr)

    def _wait(self, *, may_sleep: bool) -> None:
        self._obey_signals()
        if self.judge.stopping and self.judge.waiting:
            self.judge.stop(self.judge.stopping)
        now = clock.now()
        moments = [child.next_at for child in self.running] + [
            max(when, self.judge.not_before) for when, *_ in self.judge.waiting
        ]
        if now < self.judge.not_before:
            moments.append(self.judge.not_before)
        longest = min(clock.SLICE, _LOOK_EVERY) if self.plan["caps"] else clock.SLICE
        pause = min([longest, *(max(moment - now, 0.0) for moment in moments)]) if may_sleep else 0.0
        poll = select.poll()
        poll.register(self.wake, select.POLLIN)
        if poll.poll(pause * 1000 + (1 if pause else 0)):
            os.read(self.wake, 4096)
        now = clock.now()
        for child in self.running:
            child.end_if_due(now)
        if self.plan["caps"] and self.running and now >= self.looked_at + _LOOK_EVERY:
            self.looked_at = now
            exceeded = self.client.ask(do="spent")["over"]
            for child in self.running:
                if child.item.digest.hex() in exceeded:
                    child.end_over_budget(exceeded[child.item.digest.hex()])

    # ── report ──

    def _report_progress(self, last: bool = False) -> None:
        if not last and clock.now() < self.reported_at + _REPORT_EVERY:
            return
        self.reported_at = clock.now()
        self.summary.skipped = self.selection.skipped
        finished = self.summary.done + self.summary.skipped
        short = self.summary.short()
        total = max(self.total, finished)
        waiting = self.client.ask(do="progress", done=finished, total=total, message=short)["waiting"]
        if not last and not self.bar:
            also = f", {waiting} waiting for a probe" if waiting else ""
            print(f"nightlatch: {self.plan['name']}: {finished} of {self.total}, {short}{also}", file=sys.stderr)

    def _counts(self) -> dict[str, int]:
        summary = self.summary
        return {
            "done": summary.done,
            "failed": len(summary.failed) + len(summary.set_aside),
            "doubt": len(summary.doubts) + len(summary.killed) + len(self.selection.in_doubt),
            "skipped": self.selection.skipped,
            "total": self.total,
        }

    def _finish(self) -> int:
        summary, selection = self.summary, self.selection
        summary.skipped, summary.doubled = selection.skipped, selection.doubled
        summary.duplicates = [f"{item.key} (line {item.line})" for item in selection.duplicates]
        summary.waiting = [*summary.killed, *self._with_reasons(selection.in_doubt)]
        summary.aside_before = self._with_reasons(selection.set_aside)
        more = not self.exhausted and (self.selection.next() or not self.selection.exhausted)
        unfinished = more or self.judge.waiting or summary.unfinished
        # A signal that came when nothing was left to do has stopped nothing.
        summary.stopped = self.judge.stopping if unfinished else ""
        code = summary.exit_code(self.signal if unfinished else 0)
        if self.workspaces:
            self.workspaces.close()
        try:
            self._report_progress(last=True)
            if code:
                self.client.ask(
                    do="fail", reason=summary.short() + (f" ({summary.stopped})" if summary.stopped else "")
                )
            self.client.ask(do="over", **summary.facts(code))
        except NotRecorded as refused:
            print(f"nightlatch: {refused}", file=sys.stderr)
        for line in summary.text().split("\n"):
            print(line, file=sys.stderr)
        return code

    def _with_reasons(self, found: list[tuple[str, bytes]]) -> list[tuple[str, str]]:
        """The keys of items that earlier starts left; the first `LISTED` get the reason that is recorded for them."""
        reasons = {}
        try:
            if found:
                digests = [digest.hex() for _, digest in found[:LISTED]]
                reasons = self.client.ask(do="reasons", digests=digests)["reasons"]
        except NotRecorded:
            pass
        return [(key, reasons.get(digest.hex(), "")) for key, digest in found]


def _known(files: dict[str, str]) -> dict[bytes, int]:
    """Digest → status of the recorded items, from the supervisor's files of 16-byte digests. A million take about
    110 MB of memory."""
    known: dict[bytes, int] = {}
    for name, status in ((DONE, Selection.DONE), (IN_DOUBT, Selection.DOUBT), (SET_ASIDE, Selection.ASIDE)):
        with open(files[name], "rb") as file:
            while chunk := file.read(16 << 12):
                known.update(zip(map(itemgetter(0), iter_unpack("16s", chunk)), repeat(status)))
    return known


def main() -> int:
    printing.install()
    try:
        return BatchDriver(DriverClient()).go()
    except (Error, NotRecorded) as error:
        print(f"nightlatch: {error}", file=sys.stderr)
        return getattr(error, "exit_code", 125)


if __name__ == "__main__":
    sys.exit(main())
