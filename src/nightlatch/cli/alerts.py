"""nightlatch alerts"""

from __future__ import annotations

import sys

from ..config import place
from ..config.load import alerts_of
from ..core.passwords import hide_password
from ..core.printable import printable
from ..errors import UsageError
from ..ledger import open_for
from ..ledger.outbox import UNDELIVERED, WAITS, Alert, Message
from ..observe.alerts import follow
from ..observe.alerts.rules import RULES, TEST
from ..observe.alerts.send import send
from ..observe.alerts.settings import AlertSettings
from ..observe.alerts.transports import Refused, SendFailed
from ..store import url
from ..system import clock, identity, storage
from . import screen
from .arguments import Parser
from .json_out import print_json
from .reading import existing_url, open_reader, since_of

_PURPOSE = """\
List the alerts that were sent or are waiting to be sent, the newest first. [alerts] and [jobs.NAME.alerts] in
nightlatch.toml say which alerts are sent, and where.

`alerts test` sends a test message by every transport, or by the one you name, and reports the result.
`alerts send` sends the waiting alerts and exits; `serve`, `tick` and finished runs do that automatically."""

_EXAMPLES = """\
  nightlatch alerts
  nightlatch alerts --since 7d --json
  nightlatch alerts test webhook"""


def main(argv: list[str]) -> int:
    parser = Parser("alerts", _PURPOSE, _EXAMPLES)
    parser.usage = "nightlatch alerts [test [TRANSPORT] | send] [options]"
    parser.add_argument("what", metavar="WHAT", nargs="?", help="test or send; omit it to list the alerts")
    parser.add_argument("transport", metavar="TRANSPORT", nargs="?", help="test only this one")
    parser.add_argument("--since", metavar="TIME", default="7d", help="how far to look back (default 7d)")
    parser.add_argument("--limit", metavar="N", type=int, default=50, help="at most N alerts (default 50)")
    parser.add_flag("--follow", "send: keep sending until standard input is closed and nothing is left")
    parser.add_flag("--json", "one JSON object per alert")
    args = parser.parse_args(argv)
    if args.what == "test":
        return _test(args.transport)
    if args.what == "send":
        return _send(args.store, keep_sending=args.follow)
    if args.what:
        raise UsageError(f"alerts {args.what!r}: use test, send, or nothing")
    reader = open_reader(args.store, listing=True)
    found = reader.ledger.outbox.recent(since_of(args.since) or 0.0, 100_000 if args.json else args.limit)
    if args.json:
        for alert, message in found:
            print_json(_facts(alert, message))
        return 0
    cells = [_cells(alert, message) for alert, message in found]
    colours = [screen.RED if row[0] == UNDELIVERED else screen.DIM if row[0] == "sent" else "" for row in cells]
    print("\n".join(screen.columns(cells, elastic=(4, 5), colours=colours)) or "no alert was sent, and none is waiting")
    return 0


def _settings() -> AlertSettings:
    found: AlertSettings | None = alerts_of(place.find()) if place.find() else None
    if not found or not found.transports:
        raise UsageError("nightlatch.toml has no transport for alerts: add one, as in [alerts.desktop]")
    return found


def _test(only: str | None) -> int:
    settings = _settings()
    if only and only not in settings.transports:
        raise UsageError(f"there is no transport {only!r}: use {', '.join(settings.transports)}")
    failed = 0
    for name in [only] if only else settings.transports:
        id_ = f"{TEST}:{identity.new_id()[:12]}"
        text = f"This is a test from {identity.host()}. Nothing is wrong."
        try:
            alert = Alert(id=id_, transport=name, rule=TEST, job="", at=clock.wall(), detail=text)
            send(None, settings, name, id_, [alert])
            print(f"{name}: sent")
        except (SendFailed, Refused, UsageError) as error:
            failed = 1
            permanent = "" if isinstance(error, SendFailed) else " (it would not be tried again)"
            print(f"{name}: not sent: {printable(str(error))}{permanent}", file=sys.stderr)
    return failed


def _send(store: str | None, *, keep_sending: bool) -> int:
    where = existing_url(store) if not keep_sending else url.resolve(store)
    if keep_sending:
        # Not the store's own folder: alerts about an unreachable store must work when that folder is unreachable too.
        folder = storage.folder_for(hide_password(where))
        load = lambda: alerts_of(place.find()) if place.find() else None  # noqa: E731
        follow.forever(where, folder, place.find(), load, stop=0)
    elif place.find() and (settings := alerts_of(place.find())):
        open_for(where)
        if not follow.until_idle(where, place.find(), settings):
            print("nightlatch: another process of this machine sends them", file=sys.stderr)
    return 0


def _cells(alert: Alert, message: Message | None) -> list[str]:
    status = message.status if message else WAITS
    when = screen.ago(alert.at)
    why = message.reason if message and status != "sent" else ""
    title = RULES[alert.rule].title if alert.rule in RULES else alert.rule
    return [status, alert.transport, when, alert.job, f"{title}{': ' + alert.detail if alert.detail else ''}", why]


def _facts(alert: Alert, message: Message | None) -> dict[str, object]:
    facts: dict[str, object] = {"version": 1, **alert.__dict__, "status": message.status if message else WAITS}
    if message:
        facts |= {"tries": message.tries, "changed": message.changed, "reason": message.reason}
    return facts
