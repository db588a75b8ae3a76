"""The process that sends alerts: until none is left, or for as long as `serve` runs."""

from __future__ import annotations

import select
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from ...errors import StoreUnreachable
from ...ledger import open_for
from ...ledger.ledger import Ledger
from ...runtime.shared.senders import SenderLock
from ...store import url as store_url
from ...system import clock, identity, zone
from .. import nightly
from ..overview import overview
from ..reader import NoStore, StoreReader
from . import absences, collect
from .away import StoreWatch
from .message import without_markup
from .rules import DIGEST
from .send import Sender
from .settings import AlertSettings

_STEP = 1.0  # seconds between two rounds
_ABSENCES = 20.0  # seconds between two looks for what did not happen: lapsed runs, overdue tries
_AWAY = 5.0  # seconds between two rounds while the store does not answer
_NEVER = float("-inf")
_LONGEST = 900.0  # seconds that a process left behind by a run keeps trying; the next run's process continues


def until_idle(url: str, file: str, settings: AlertSettings, in_force: Callable[[], bool] = lambda: True) -> bool:
    """Send until nothing is left, for a quarter of an hour at most, while the settings are `in_force`. False if another
    process sends already."""
    lock, sender = _lock(url, file), _sender(url, settings)
    began, looked_at = clock.now(), _NEVER

    def may_go_on() -> bool:
        return clock.now() - began < _LONGEST and in_force()

    while may_go_on():
        if not lock.take():
            return False
        try:
            while may_go_on():
                if clock.now() - looked_at > _ABSENCES:
                    _look_at_store(url, settings)
                    looked_at = clock.now()
                sender.round()
                if sender.is_idle():
                    break
                clock.sleep(_STEP)
        finally:
            lock.release()
        if sender.is_idle():  # asked after the unlock: until then, a process that queued an alert left it to us
            break
    return True


def forever(url: str, folder: str, file: str, load: Callable[[], AlertSettings | None], stop: int) -> None:
    """Beside `serve`, until the other end of `stop` is closed and nothing is left to send."""
    settings = load()
    lock, watch, answered_at, sender = None, None, _NEVER, None
    while True:
        fresh, pause = load(), _STEP
        if fresh != settings or watch is None:
            settings, sender = fresh, None
            watch = StoreWatch(folder, identity.host(), settings) if settings else None
        if settings and watch:
            began = clock.wall()
            try:
                sender = sender or _sender(url, settings)
                sender.round()
                if clock.now() - answered_at > _ABSENCES:
                    _look_at_store(url, settings)
                    answered_at = clock.now()
                    watch.record("")  # only now: a round alone may need just the ledger, not the store
                lock = lock or _lock(url, file)
                lock.take()  # runs that end now leave their alerts to us
            except (StoreUnreachable, NoStore) as error:
                if lock:
                    lock.release()  # a run that reaches the store sends by itself
                sender, answered_at, pause = None, _NEVER, _AWAY
                watch.record(str(error), began)
        if select.select([stop], [], [], pause)[0]:
            break
    if lock:
        lock.release()
    if settings and sender:
        with suppress(StoreUnreachable, NoStore):  # the outbox has what is left: the next sender continues
            until_idle(url, file, settings, lambda: load() == settings)


def _look_at_store(url: str, settings: AlertSettings) -> None:
    ledger, reader = open_for(url), StoreReader(url)
    try:
        absences.look(ledger, reader, settings)
        collect.remind(ledger, settings)
        digest(url, settings)
        _expect_writable(ledger, reader)
    finally:
        ledger.close()
        reader.store.close()


def _expect_writable(ledger: Ledger, reader: StoreReader) -> None:
    """Raise `StoreUnreachable` if the database can be read but refuses writes, as SQLite does while another program's
    transaction is open. Both writes change nothing."""
    ledger.outbox.put([])
    if not reader.ledger_is_per_machine:
        reader.store.unregister("", "")


def digest(url: str, settings: AlertSettings) -> None:
    """Queue the morning report of the last day, at its time in the ledger's zone or up to an hour later: a machine that
    wakes at noon sends none."""
    if not settings.digest:
        return
    ledger, reader = open_for(url), StoreReader(url)
    now = datetime.fromtimestamp(clock.wall(), zone.find(ledger.history.zone))
    hours, minutes = map(int, settings.digest.split(":"))
    late = (now - now.replace(hour=hours, minute=minutes, second=0, microsecond=0)).total_seconds()
    if not 0 <= late < 3600:
        return
    id_ = f"{DIGEST}:{now.date().isoformat()}"
    text = nightly.markdown(reader, overview(reader, clock.wall() - 86400), plain=without_markup)
    ledger.outbox.put(collect.alerts(settings, id_, DIGEST, "", clock.wall(), detail=text))


def _lock(url: str, file: str) -> SenderLock:
    return SenderLock("alerts", store_url.folder_of(url), file)


def _sender(url: str, settings: AlertSettings) -> Sender:
    return Sender(open_for(url), StoreReader(url), settings)
