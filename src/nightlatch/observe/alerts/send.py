"""Composing and delivering: alerts within half a minute go into one message; in a storm, each transport sends one
message in five minutes. A message is tried until it is delivered, refused, or three days old."""

from __future__ import annotations

from threading import Thread

from ...errors import Error, UsageError
from ...ledger.ledger import Ledger
from ...ledger.outbox import SENT, UNDELIVERED, WAITS, Alert, Message
from ...system import clock, identity
from ..reader import StoreReader
from . import collect
from .message import build
from .rules import TEST
from .rules import UNDELIVERED as UNDELIVERED_RULE
from .settings import GROUP, AlertSettings
from .transports import TRANSPORTS, Refused, SendFailed

STORM = 300.0  # seconds between two messages of a storm
MANY = 10  # more alerts than this in one message are a storm
_CLAIM = 60.0  # seconds that a message is claimed for one try
_PAUSES = (2.0, 5.0, 10.0, 20.0, 30.0)  # seconds before the second try, the third and so on; then always the last
_GIVE_UP = 3 * 86400.0  # seconds after which a message is given up
_LEAST_TRIES = 20  # before a message is given up, however far the clock was set forward
LONGEST = 45.0  # seconds for a try, whatever the receiver does; less than _CLAIM

_trying: dict[str, Thread] = {}  # transport → the thread of its newest try


class Sender:
    def __init__(self, ledger: Ledger, reader: StoreReader, settings: AlertSettings) -> None:
        self._ledger, self._reader, self.settings = ledger, reader, settings
        self._me = f"{identity.host()}:{identity.new_id()[:12]}"

    def round(self) -> bool:
        """Collect, compose, deliver what is due. Returns whether anything was composed or tried."""
        collect.collect(self._ledger, self._reader, self.settings)
        return self.deliver()

    def deliver(self) -> bool:
        moved = False
        for transport in self.settings.transports:
            moved |= bool(self._ledger.outbox.compose(transport, self._ready))
        for message in self._ledger.outbox.waiting():
            if message.transport in self.settings.transports:  # another machine may have settings for the others
                claimed = self._ledger.outbox.claim(message.id, self._me, _CLAIM)
                if claimed:
                    self._try(claimed)
                    moved = True
        return moved

    def _ready(self, alerts: list[Alert], last: float, count: int, now: float) -> bool:
        return ready(alerts, last, count, now, self.settings.group)

    def is_idle(self) -> bool:
        """Is there nothing left that this machine could send?"""
        pending = {transport for transport, status, _ in self._ledger.outbox.counts() if status == WAITS}
        return not pending & self.settings.transports.keys() and not self._ledger.outbox.reader.news()

    def _try(self, message: Message) -> None:
        alerts = self._ledger.outbox.alerts(message.id)
        try:
            send(self._reader, self.settings, message.transport, message.id, alerts)
        except SendFailed as failed:
            if message.tries < _LEAST_TRIES or clock.wall() - message.made < _GIVE_UP:
                pause = _PAUSES[min(message.tries, len(_PAUSES)) - 1]
                self._ledger.outbox.settle(message, WAITS, pause=pause, reason=str(failed))
            else:
                self._record_undelivered(message, f"given up after three days: {failed}")
        except (Refused, UsageError) as refused:
            self._record_undelivered(message, str(refused))
        else:
            self._ledger.outbox.settle(message, SENT)

    def _record_undelivered(self, message: Message, why: str) -> None:
        """Record it for the first screen, and send an alert about it by the other transports."""
        if not self._ledger.outbox.settle(message, UNDELIVERED, reason=why):
            return
        if all(alert.rule == UNDELIVERED_RULE for alert in self._ledger.outbox.alerts(message.id)):
            return  # otherwise two transports that both refuse would report each other for ever
        others = [name for name in self.settings.transports if name != message.transport]
        id_ = f"{message.id}:{UNDELIVERED_RULE}"
        detail = f"a message by {message.transport} could not be delivered: {why}"
        found = collect.alerts(self.settings, id_, UNDELIVERED_RULE, "", clock.wall(), detail=detail)
        self._ledger.outbox.put([alert for alert in found if alert.transport in others])


def send(reader: StoreReader | None, settings: AlertSettings, transport: str, id_: str, alerts: list[Alert]) -> None:
    """One try. Raises `SendFailed` or `Refused`. `reader`: None if no alert is about a run."""
    own = settings.transports[transport]
    message = build(reader, id_, alerts, settings.page)
    found: list[BaseException] = []

    def work() -> None:
        try:
            TRANSPORTS[own["kind"]].send(own, message)
        except (SendFailed, Refused, Error) as error:
            found.append(error)
        except Exception as error:  # noqa: BLE001 - whatever an optional package raises
            found.append(SendFailed(f"{type(error).__name__}: {error}"))

    # In a thread, for a deadline of the whole try: if a receiver sends a byte now and then, no read ever times out.
    before = _trying.get(transport)
    if before and before.is_alive():
        raise SendFailed("the previous try has not ended")
    _trying[transport] = thread = Thread(target=work, daemon=True)
    thread.start()
    thread.join(LONGEST)
    if thread.is_alive():
        raise SendFailed(f"no answer within {LONGEST:.0f}s")
    if found:
        raise found[0]


def ready(alerts: list[Alert], last: float, count: int, now: float, group: float = GROUP) -> bool:
    """May the waiting alerts go out now?"""
    if any(alert.rule == TEST for alert in alerts):
        return True
    storm = len(alerts) > MANY or count > MANY
    if storm and 0 <= now - last < STORM:  # below 0: the clock was set back
        return False
    return now - alerts[0].at >= group or alerts[0].at > now + group  # or the clock was set back
