"""The process that sends alerts: until none is left, or for as long as `serve` works. One for each machine and store is
enough; several are safe."""

from __future__ import annotations

import fcntl
import os
import select
from datetime import datetime

from ...errors import StoreUnreachable
from ...ledger import open_for
from ...system import clock, durable, identity, zone
from .. import nightly
from ..overview import overview
from ..reader import StoreReader
from . import absences, collect
from .away import StoreWatch
from .message import quiet
from .rules import DIGEST
from .send import Sender

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .settings import AlertSettings

_STEP = 1.0  # seconds between two looks
_ABSENCES = 20.0  # seconds between two looks for what did not happen: lapsed runs, overdue tries
_LONGEST = 900.0  # seconds that a process of a finished run tries; the next one goes on
_LOCK = "alerts.lock"


def until_idle(url: str, folder: str, settings: AlertSettings) -> None:
    """For a process that a finished run or a `tick` leaves behind. Returns at once if another one is at work."""
    began, sender = clock.now(), _sender(url, settings)
    _look(url, settings)
    while clock.now() - began < _LONGEST:
        lock = os.open(
            os.path.join(durable.private_folder(folder), _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            while clock.now() - began < _LONGEST:
                sender.round()
                if sender.is_idle():
                    break
                _pause(_STEP)
        except BlockingIOError:
            return
        finally:
            os.close(lock)
        if sender.is_idle():  # after the unlock: whatever was queued before it found the lock taken
            return


def forever(url: str, folder: str, load: Callable[[], AlertSettings | None], stop: int) -> None:
    """Beside `serve`, until the other end of `stop` is closed."""
    settings = load()
    watch, last_look, sender = None, 0.0, None
    while True:
        fresh = load()
        if fresh != settings or watch is None:
            settings, sender = fresh, None
            watch = StoreWatch(folder, identity.host(), settings) if settings else None
        if settings and watch:
            try:
                sender = sender or _sender(url, settings)
                sender.round()
                if clock.now() - last_look > _ABSENCES:
                    last_look = clock.now()
                    _look(url, settings)
                watch.seen("")
            except StoreUnreachable as error:
                sender = None
                watch.seen(str(error))
        if select.select([stop], [], [], _STEP)[0]:
            return


def _look(url: str, settings: AlertSettings) -> None:
    ledger, reader = open_for(url), StoreReader(url)
    try:
        absences.look(ledger, reader, settings)
        collect.remind(ledger, settings)
        digest(url, settings)
    finally:
        ledger.close()


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
    text = nightly.markdown(reader, overview(reader, clock.wall() - 86400), plain=quiet)
    ledger.outbox.put(collect.alerts(settings, id_, DIGEST, "", clock.wall(), detail=text))


def _sender(url: str, settings: AlertSettings) -> Sender:
    return Sender(open_for(url), StoreReader(url), settings)


def _pause(seconds: float) -> None:
    select.select([], [], [], seconds)
