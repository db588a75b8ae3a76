"""The process that sends traces of finished runs, once their end is in the journal. At least once: spans that are sent
twice have the same ids."""

from __future__ import annotations

import select
from contextlib import suppress

from ...core import statuses
from ...errors import StoreUnreachable
from ...ledger import kinds, open_for
from ...ledger.ledger import Ledger
from ...runtime.shared.senders import SenderLock
from ...store import url as store_url
from . import spans
from .export import Exporter, NotSent

READER = "traces"
_STEP = 2.0  # seconds between two rounds
_TRIES = 5  # that a process left behind by a run makes; the next run's process continues
_ENDS = (kinds.ENDED, kinds.LOST, kinds.RESOLVED, kinds.CANCELLED)


def send_new(ledger: Ledger, exporter: Exporter) -> int:
    """Send the runs whose end is new in the journal; returns the number of spans. Raises `NotSent`."""
    reader, sent = ledger.journal.reader(READER), 0
    reader.begin()
    for job in reader.news():
        while entries := reader.unread(job):
            ended = {entry.facts.get("run", "") for entry in entries if entry.kind in _ENDS}
            sent += sum(send_run(ledger, exporter, run) for run in sorted(ended))
            reader.move(job, entries[-1].seq)
    return sent


def send_run(ledger: Ledger, exporter: Exporter, run_id: str) -> int:
    """Send a finished run; returns the number of spans. A run that is tried again is sent after its last try; a nested
    run is sent with the run around it."""
    run = ledger.run(run_id) if run_id else None
    if run is None or run.status in statuses.OPEN or run.parent:
        return 0
    return exporter.send(spans.of_run(ledger, run))


def until_sent(url: str) -> None:
    """For a process that a finished run leaves behind. Returns at once if another one sends."""
    lock, ledger, exporter, failures = _lock(url), open_for(url), Exporter(), 0
    while lock.take():
        try:
            send_new(ledger, exporter)
            has_failed = False
        except NotSent:
            has_failed, failures = True, failures + 1
            if failures == _TRIES:
                raise
        finally:
            lock.release()
        if has_failed:
            select.select([], [], [], _STEP * 2 ** (failures - 1))
        elif not ledger.journal.reader(READER).news():
            return  # asked after the unlock: until then, a run that ended left its spans to us


def forever(url: str, stop: int) -> None:
    """Beside `serve`, until the other end of `stop` is closed and nothing is left to send."""
    lock, ledger, exporter = _lock(url), None, Exporter()
    while not select.select([stop], [], [], _STEP)[0]:
        try:
            ledger = ledger or open_for(url)
            send_new(ledger, exporter)
            lock.take()  # runs that end now leave their traces to us
        except (StoreUnreachable, NotSent):
            ledger = None  # the exporter has reported it; the next round tries again
            lock.release()
    lock.release()
    with suppress(StoreUnreachable, NotSent):  # the next sender continues
        until_sent(url)


def _lock(url: str) -> SenderLock:
    return SenderLock("traces", store_url.folder_of(url))
