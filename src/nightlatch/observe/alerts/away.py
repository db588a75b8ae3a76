"""The alert that the store does not answer: the outbox is in the store, so it is kept in a file on this machine."""

from __future__ import annotations

import json
import os

from ...core.value import value
from ...system import clock, durable
from .message import Outgoing, ShownAlert, quiet
from .rules import RECOVERED, RULES, STORE_AWAY
from .settings import AlertSettings
from .transports import TRANSPORTS, Refused, SendFailed

APART = 60.0  # seconds that it has to be away before the alert is sent


@value(frozen=True, kw_only=True)
class _Spool:
    since: float = 0.0  # 0: it answers
    id: str = ""
    sent: tuple[str, ...] = ()  # transports by which the alert was sent
    recovered: tuple[str, ...] = ()  # and by which the recovery was sent


class StoreWatch:
    """Watches the store from one machine. Call `seen` after each look, with why the store did not answer, and when that
    look began: it may have waited for half a minute."""

    def __init__(self, folder: str, host: str, settings: AlertSettings) -> None:
        self._path = os.path.join(durable.private_folder(folder), "store-away.json")
        self._host, self._settings = host, settings
        self._unwritten: _Spool | None = None  # while the folder is away, together with the store

    def seen(self, why: str, began: float = 0.0) -> None:
        spool = self._read()
        now = clock.wall()
        if why and not spool.since:
            since = began or now
            self._write(_Spool(since=since, id=f"store-away:{self._host}:{int(since)}"))
        elif why and now - spool.since >= APART:
            sent = [*spool.sent, *self._send(spool, STORE_AWAY, f"the store does not answer: {why}", spool.sent)]
            self._write(_Spool(since=spool.since, id=spool.id, sent=tuple(sent)))
        elif not why and spool.since:
            back = self._send(spool, RECOVERED, "the store answers again", spool.recovered, only=spool.sent)
            done = (*spool.recovered, *back)
            left = set(spool.sent) - set(done)
            self._write(_Spool(since=spool.since, id=spool.id, sent=spool.sent, recovered=done) if left else _Spool())

    def _send(
        self, spool: _Spool, rule: str, sentence: str, done: tuple[str, ...], only: tuple[str, ...] | None = None
    ) -> list[str]:
        """Send by every transport that is not `done`; returns those that worked. The others are tried again."""
        sent = []
        for name, own in self._settings.transports.items():
            if name in done or (only is not None and name not in only) or rule in self._settings.defaults.mute:
                continue
            id_ = f"{spool.id}:{rule}"
            text = f"{quiet(sentence)} (on {self._host})"
            shown = ShownAlert(id=id_, rule=rule, job="", run="", at=clock.wall(), sentence=text)
            title = RULES[rule].title if rule == STORE_AWAY else "store answers again"
            message = Outgoing(
                id=id_, subject=f"Nightlatch: {title}", text=text, worst=RULES[rule].worst, alerts=(shown,)
            )
            try:
                TRANSPORTS[own["kind"]].send(own, message)
            except Refused:
                pass  # it never will be sent: do not try again
            except SendFailed:
                continue
            sent.append(name)
        return sent

    def _read(self) -> _Spool:
        if self._unwritten:
            return self._unwritten
        try:
            with open(self._path, encoding="utf-8") as file:
                facts = json.load(file)
            return _Spool(
                since=float(facts["since"]), id=str(facts["id"]), sent=tuple(facts["sent"]),
                recovered=tuple(facts["recovered"]),
            )  # fmt: skip
        except (OSError, ValueError, KeyError, TypeError):
            return _Spool()

    def _write(self, spool: _Spool) -> None:
        try:
            durable.replace(self._path, json.dumps(spool.__dict__).encode(), mode=0o600)
            self._unwritten = None
        except FileNotFoundError:
            self._unwritten = spool
