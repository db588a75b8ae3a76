"""The alerts' outbox: how far the journal is read, what is wrong, what is to be sent, and which process sends it.

A job's chain is read in a transaction that locks it: the cursor, what is wrong with the job, and the alerts about it
change together, so no entry is missed and none is reported twice, however many processes read. A message is claimed by
compare-and-set with a deadline, sent outside any transaction, and settled. So it is sent at least once, always with the
same id.
"""

from __future__ import annotations

from ..core.value import value
from ..system.light import sha256
from .chain import clean
from .journal_reader import JournalReader
from .typed_table import TypedTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .records import Entry
    from .tables import ChainTransaction, Tables

READER = "alerts"
WAITS, SENT, UNDELIVERED = "waits", "sent", "undelivered"  # statuses of a message
# ms. No pause or claim is longer. A time further ahead was written before the clock was set back, and is ignored.
_LONGEST_WAIT = 300_000
_MOST = 2000  # alerts in one message


@value(frozen=True, kw_only=True)
class Problem:
    """What is wrong with a job. `subject`: what the problem is about, such as its runs, an effect or an absence."""

    job: str
    subject: str
    rule: str
    run: str = ""
    since: float
    count: int = 1  # how often in a row it was found
    reported: float = 0.0  # when it was last reported; 0: not yet


@value(frozen=True, kw_only=True)
class Alert:
    """Something to be sent by one transport."""

    id: str
    transport: str
    rule: str
    job: str
    run: str = ""
    at: float
    detail: str = ""
    message: str = ""  # id of the message it is sent in; "" while it waits for others


@value(frozen=True, kw_only=True)
class Message:
    id: str
    transport: str
    status: str = WAITS
    made: float
    due: float
    tries: int = 0
    claim: str = ""
    claim_until: float = 0.0
    changed: float
    reason: str = ""  # why the last try failed


PROBLEM = TypedTable(
    "alert_problem",
    Problem,
    "ON CONFLICT (job, subject) DO UPDATE SET rule = excluded.rule, run = excluded.run, since = excluded.since, "
    "count = excluded.count, reported = excluded.reported",
)
ALERT = TypedTable("alert", Alert, "ON CONFLICT (id, transport) DO NOTHING")
MESSAGE = TypedTable("alert_message", Message)

_RESOLVE = "DELETE FROM {prefix}alert_problem WHERE job = :job AND subject = :subject"
_LAST_MESSAGE = """
INSERT INTO {prefix}alert_route (transport, last, count) VALUES (:transport, 0, 0)
ON CONFLICT (transport) DO UPDATE SET last = alert_route.last RETURNING last, count, {wall}
"""
_PENDING = f"{ALERT.select} WHERE message = '' AND transport = :transport ORDER BY at LIMIT :most"
_PUT_INTO_MESSAGE = "UPDATE {prefix}alert SET message = :message WHERE id = :id AND transport = :transport"
_NOTE_LAST_MESSAGE = "UPDATE {prefix}alert_route SET last = :last, count = :count WHERE transport = :transport"
_CLAIM = f"""
UPDATE {{prefix}}alert_message SET claim = :claim, claim_until = {{wall}} + :seconds, tries = tries + 1
WHERE id = :id AND status = 'waits' AND (due <= {{wall}} OR due > {{wall}} + {_LONGEST_WAIT})
  AND (claim_until <= {{wall}} OR claim_until > {{wall}} + {_LONGEST_WAIT}) RETURNING {MESSAGE.names}
"""
_SETTLE = """
UPDATE {prefix}alert_message SET status = :status, due = {wall} + :pause, claim_until = 0, claim = '',
  changed = {wall}, reason = :reason
WHERE id = :id AND claim = :claim RETURNING id
"""


class Outbox:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self.reader = JournalReader(tables, READER)  # of the journal, for all processes together

    def read(self, job: str, judge: Callable[[list[Entry], dict[str, Problem]], Judged]) -> int:
        """Judge a job's new entries, together with what is wrong with the job; returns how many entries there were."""
        with self._tables.on_chain(job) as chain:
            entries = self.reader.unread(job, chain)
            if entries:
                self._record(chain, judge(entries, self._problems(chain, job)))
                self.reader.move(job, entries[-1].seq, chain)
        return len(entries)

    def observe(self, job: str, judge: Callable[[dict[str, Problem], float], Judged]) -> None:
        """Judge what no entry records, such as an absence: `judge` gets the job's problems and the time."""
        with self._tables.on_chain(job) as chain:
            self._record(chain, judge(self._problems(chain, job), chain.at / 1000))

    def problems(self) -> list[Problem]:
        """All problems that were found and are not resolved."""
        return self._tables.select(PROBLEM)

    def put(self, alerts: Sequence[Alert]) -> None:
        """Add alerts that come from no job's chain; one that is there already stays as it is."""
        with self._tables.database.transaction() as execute:
            for alert in alerts:
                execute(self._tables.sql(ALERT.put), **ALERT.by_column(alert))

    def compose(self, transport: str, ready: Callable[[list[Alert], float, int, float], bool]) -> str:
        """Put what waits for a transport into one message if `ready(alerts, time of the previous message, number of
        alerts in that message, now)`; returns the message's id, or ""."""
        if not self._tables.read(_PENDING, transport=transport, most=1):
            return ""
        with self._tables.database.transaction() as execute:
            sql = self._tables.sql
            ((last, count, now),) = execute(sql(_LAST_MESSAGE), transport=transport)
            alerts = list(map(ALERT.read, execute(sql(_PENDING), transport=transport, most=_MOST)))
            if not alerts or not ready(alerts, last / 1000, count, now / 1000):
                return ""
            message = sha256("\n".join([transport, *sorted(alert.id for alert in alerts)]).encode()).hexdigest()[:32]
            for alert in alerts:
                execute(sql(_PUT_INTO_MESSAGE), message=message, id=alert.id, transport=transport)
            made = Message(id=message, transport=transport, made=now / 1000, due=now / 1000, changed=now / 1000)
            execute(sql(MESSAGE.put), **MESSAGE.by_column(made))
            execute(sql(_NOTE_LAST_MESSAGE), transport=transport, last=now, count=len(alerts))
        return message

    def waiting(self) -> list[Message]:
        """The oldest unsent message of each transport: messages are sent in order, so that no job is reported
        as recovered before it was reported as failed."""
        first: dict[str, Message] = {}
        for message in self._tables.select(MESSAGE, "WHERE status = 'waits' ORDER BY transport, made, id"):
            first.setdefault(message.transport, message)
        return list(first.values())

    def claim(self, message: str, by: str, seconds: float) -> Message | None:
        """Claim a message for one try of at most `seconds`; None if it is not due, or claimed by another process."""
        rows = self._tables.database.write(
            self._tables.sql(_CLAIM), id=message, claim=by, seconds=round(seconds * 1000)
        )
        return MESSAGE.read(rows[0]) if rows else None

    def settle(self, message: Message, status: str, *, pause: float = 0.0, reason: str = "") -> bool:
        """Record how a try ended. False: the claim had expired, and another process has claimed the message since."""
        return bool(
            self._tables.database.write(
                self._tables.sql(_SETTLE), id=message.id, claim=message.claim, status=status,
                pause=round(pause * 1000), reason=clean(reason)[:500],
            )
        )  # fmt: skip

    def undelivered(self, since: float) -> list[Message]:
        """Messages that were given up since then, the newest first."""
        given_up = "WHERE status = 'undelivered' AND changed >= :since ORDER BY changed DESC"
        return self._tables.select(MESSAGE, given_up, since=round(since * 1000))

    def alerts(self, message: str) -> list[Alert]:
        """The alerts in a message."""
        return self._tables.select(ALERT, "WHERE message = :message ORDER BY at, id", message=message)

    def recent(self, since: float, most: int) -> list[tuple[Alert, Message | None]]:
        """Alerts that were sent or wait to be, the newest first."""
        moment, newest = round(since * 1000), "WHERE at >= :since ORDER BY at DESC, id DESC LIMIT :most"
        alerts = self._tables.select(ALERT, newest, since=moment, most=most)
        messages = {one.id: one for one in self._tables.select(MESSAGE, "WHERE changed >= :since", since=moment)}
        return [(alert, messages.get(alert.message)) for alert in alerts]

    def counts(self) -> list[tuple[str, str, int]]:
        """(transport, status of its messages, how many alerts)."""
        sql = (
            "SELECT alert.transport, COALESCE(message.status, 'waits'), COUNT(*) FROM {prefix}alert AS alert "
            "LEFT JOIN {prefix}alert_message AS message ON message.id = alert.message GROUP BY 1, 2 ORDER BY 1, 2"
        )
        return [(transport, status, int(count)) for transport, status, count in self._tables.read(sql)]

    def _problems(self, chain: ChainTransaction, job: str) -> dict[str, Problem]:
        found = map(PROBLEM.read, chain(f"{PROBLEM.select} WHERE job = :job", job=job))
        return {problem.subject: problem for problem in found}

    @staticmethod
    def _record(chain: ChainTransaction, judged: Judged) -> None:
        for problem in judged.problems:
            chain(PROBLEM.put, **PROBLEM.by_column(problem))
        for job, subject in judged.resolved:
            chain(_RESOLVE, job=job, subject=subject)
        for alert in judged.alerts:
            chain(ALERT.put, **ALERT.by_column(alert))


class Judged:
    """What `judge` concludes."""

    def __init__(self) -> None:
        self.alerts: list[Alert] = []
        self.problems: list[Problem] = []  # as they are now
        self.resolved: list[tuple[str, str]] = []  # (job, subject) of those that are gone
