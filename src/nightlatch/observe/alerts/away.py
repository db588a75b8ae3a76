"""The alert that the store does not answer. The outbox is in the store, so this alert is kept in a local file."""

from __future__ import annotations

import json
import os

from ...core.value import value
from ...system import clock, durable
from .message import Outgoing, ShownAlert, without_markup
from .rules import RECOVERED, RULES, STORE_AWAY
from .settings import AlertSettings
from .transports import TRANSPORTS, Refused, SendFailed

APART = 60.0  # seconds without an answer before the alert is sent


@value(frozen=True, kw_only=True)
class _Outage:
    since: float = 0.0  # 0: the store answers
    id: str = ""
    sent: tuple[str, ...] = ()  # transports by which the alert was sent
    recovered: tuple[str, ...] = ()  # transports by which the recovery was sent


class StoreWatch:
    """Watches the store from one machine. Call `record` after each look at the store. `why`: why it did not answer, or
    "" if it did. `began`: when the look began, since it may have waited for half a minute."""

    def __init__(self, folder: str, host: str, settings: AlertSettings) -> None:
        self._path = os.path.join(durable.private_folder(folder), "store-away.json")
        self._host, self._settings = host, settings
        self._unwritten: _Outage | None = None  # kept here while the folder is unreachable, together with the store

    def record(self, why: str, began: float = 0.0) -> None:
        outage = self._read()
        now = clock.wall()
        if why and not outage.since:
            since = began or now
            self._write(_Outage(since=since, id=f"store-away:{self._host}:{int(since)}"))
        elif why and now - outage.since >= APART:
            sent = [*outage.sent, *self._send(outage, STORE_AWAY, f"the store does not answer: {why}", outage.sent)]
            self._write(_Outage(since=outage.since, id=outage.id, sent=tuple(sent)))
        elif not why and outage.since:
            back = self._send(outage, RECOVERED, "the store answers again", outage.recovered, only=outage.sent)
            done = (*outage.recovered, *back)
            left = set(outage.sent) - set(done)
            self._write(
                _Outage(since=outage.since, id=outage.id, sent=outage.sent, recovered=done) if left else _Outage()
            )

    def _send(
        self, outage: _Outage, rule: str, sentence: str, done: tuple[str, ...], only: tuple[str, ...] | None = None
    ) -> list[str]:
        """Send by each transport that is not in `done` (and is in `only`, if given); returns those now done with."""
        sent = []
        for name, own in self._settings.transports.items():
            if name in done or (only is not None and name not in only) or rule in self._settings.defaults.mute:
                continue
            id_ = f"{outage.id}:{rule}"
            text = f"{without_markup(sentence)} (on {self._host})"
            shown = ShownAlert(id=id_, rule=rule, job="", run="", at=clock.wall(), sentence=text)
            title = RULES[rule].title if rule == STORE_AWAY else "store answers again"
            message = Outgoing(
                id=id_, subject=f"Nightlatch: {title}", text=text, rank=RULES[rule].rank, alerts=(shown,)
            )
            try:
                TRANSPORTS[own["kind"]].send(own, message)
            except Refused:
                pass  # permanent: counts as sent, so that it is not tried again
            except SendFailed:
                continue
            sent.append(name)
        return sent

    def _read(self) -> _Outage:
        if self._unwritten:
            return self._unwritten
        try:
            with open(self._path, encoding="utf-8") as file:
                facts = json.load(file)
            return _Outage(
                since=float(facts["since"]), id=str(facts["id"]), sent=tuple(facts["sent"]),
                recovered=tuple(facts["recovered"]),
            )  # fmt: skip
        except (OSError, ValueError, KeyError, TypeError):
            return _Outage()

    def _write(self, outage: _Outage) -> None:
        try:
            durable.replace(self._path, json.dumps(outage.__dict__).encode(), mode=0o600)
            self._unwritten = None
        except FileNotFoundError:
            self._unwritten = outage
