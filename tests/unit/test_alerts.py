"""Alerts: what is told, once, and that it is well again; in one message, however much happens at once."""

from __future__ import annotations

import threading
import time
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from nightlatch.ledger import kinds
from nightlatch.ledger.outbox import SENT, UNDELIVERED, WAITS
from nightlatch.observe import nightly
from nightlatch.observe.alerts import absences, collect, follow, send
from nightlatch.observe.alerts.message import build, without_markup
from nightlatch.observe.alerts.rules import OF_STATUS, RULES
from nightlatch.observe.alerts.send import Sender, ready
from nightlatch.observe.alerts.settings import AlertSettings, JobAlerts
from nightlatch.observe.alerts.transports import TRANSPORTS, Refused, SendFailed, Transport
from nightlatch.observe.night_rows import parts
from nightlatch.observe.overview import overview
from nightlatch.observe.reader import StoreReader
from nightlatch.runtime.shared.senders import SenderLock
from nightlatch.store import url
from nightlatch.system import clock
from tests.support.ledgers import ME, begun, tamper

ONE = AlertSettings(transports={"hook": {"kind": "test"}}, group=0.0)


class Receiver:
    """A transport whose answers are given."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.answers: list[Any] = []

    def send(self, settings, message) -> None:
        answer = self.answers.pop(0) if self.answers else None
        if answer:
            raise answer
        self.messages.append(message)


@pytest.fixture
def receiver(monkeypatch):
    made = Receiver()

    class Given(Transport):
        @property
        def send(self):
            return made.send

    monkeypatch.setitem(TRANSPORTS, "test", Given(module="test", keys=(), example=""))
    monkeypatch.setattr(send, "_PAUSES", (0.0,))
    return made


@pytest.fixture
def reader(book, ledger_url):
    url.connect(ledger_url).read("nothing")
    list(book.history.runs())
    book.outbox.reader.begin()
    return StoreReader(ledger_url)


def end(book, number: int, status: str, job: str = "job", **how) -> None:
    begun(book, number, key=str(number), job=job).finish(status, **how)


def told(book, reader, settings=ONE) -> list[tuple[str, str]]:
    collect.collect(book, reader, settings)
    return [(alert.rule, alert.job) for alert, _ in reversed(book.outbox.recent(0, 10_000))]


@pytest.mark.parametrize("status", OF_STATUS)
def test_what_did_not_go_well_is_told_once_and_recovered_after_it(book, reader, status):
    end(book, 1, status)
    assert told(book, reader) == [(OF_STATUS[status], "job")] == told(book, reader)
    end(book, 2, "succeeded")
    assert told(book, reader) == [(OF_STATUS[status], "job"), ("recovered", "job")] == told(book, reader)
    end(book, 3, "succeeded")
    assert len(told(book, reader)) == 2 and book.outbox.problems() == []


def test_nothing_is_told_of_success_of_a_try_that_is_followed_by_another_or_of_the_past(book, reader, ledger_url):
    end(book, 1, "succeeded")
    end(book, 2, "failed", again_at=time.time() + 60)
    assert told(book, reader) == []
    assert not book.outbox.reader.news()


def test_after_two_means_the_second_failure_in_a_row_and_recovery_only_of_what_was_told(book, reader):
    settings = AlertSettings(transports=ONE.transports, defaults=JobAlerts(after=2))
    end(book, 1, "failed")
    end(book, 2, "succeeded")
    assert told(book, reader, settings) == []
    end(book, 3, "failed")
    end(book, 4, "timed-out")
    assert told(book, reader, settings) == [("timed-out", "job")]
    end(book, 5, "in-doubt", job="other")  # a person is needed, whatever the count
    assert told(book, reader, settings)[-1] == ("in-doubt", "other")


def test_a_rule_is_muted_and_a_job_goes_to_some_transports_only(book, reader):
    two = {"hook": {"kind": "test"}, "mail": {"kind": "test"}}
    own = {"quiet": JobAlerts(mute=("failed",)), "mailed": JobAlerts(to=("mail",))}
    settings = AlertSettings(transports=two, jobs=own)
    for number, job in enumerate(("quiet", "mailed", "other"), 1):
        end(book, number, "failed", job=job)
    collect.collect(book, reader, settings)
    found = sorted((alert.job, alert.transport) for alert, _ in book.outbox.recent(0, 100))
    assert found == [("mailed", "mail"), ("other", "hook"), ("other", "mail")]


def test_a_refused_write_is_told_and_a_decided_doubt_is_not_called_recovered(book, reader):
    writer = begun(book)
    book.journal.note("job", kinds.REFUSED, run=writer.run.id, attempt=1, token=1, stands=2, what="publish")
    ended = writer.finish("in-doubt")
    assert told(book, reader) == [("refused", "job"), ("in-doubt", "job")]
    book.decisions.resolve(ended.id, "succeeded", "ann")
    assert len(told(book, reader)) == 2 and book.outbox.problems() == []


def test_eighty_percent_of_a_days_budget_is_told_once(book, reader):
    for number in (1, 2):
        run = book.open_run("job", str(number))
        writer = book.seal(run.id, token=number, grant=f"g{number}", holder=ME, facts={"bounds": "usd/day=10"})
        writer.usage(usd=4.5)
        writer.finish("succeeded")
        assert [rule for rule, _ in told(book, reader)] == ["budget-80"] * (number - 1)
    (alert, _), *_ = book.outbox.recent(0, 10)
    assert alert.detail == "9 of 10 usd of its day are used"


def test_many_at_once_are_one_message_with_the_worst_first(book, reader, receiver):
    for number in range(1, 41):
        end(book, number, "in-doubt" if number == 40 else "failed", job=f"job{number}")
    Sender(book, reader, ONE).round()
    (message,) = receiver.messages
    assert len(message.alerts) == 40 and message.alerts[0].rule == "in-doubt"
    assert message.text.count("\n  $ ") == 11 and "and 30 more: 30 failed" in message.text
    assert message.subject == "Nightlatch: 39 failed, 1 in-doubt, in 40 jobs"
    end(book, 99, "failed", job="late")
    assert not Sender(book, reader, ONE).round()  # five minutes have to pass
    assert [message.status for _, message in book.outbox.recent(0, 1) if message] == []


def test_a_message_is_tried_until_it_is_delivered_with_the_same_id(book, reader, receiver):
    end(book, 1, "failed")
    receiver.answers = [SendFailed("busy"), SendFailed("busy"), None]
    sender = Sender(book, reader, ONE)
    for _ in range(5):
        sender.round()
    assert len(receiver.messages) == 1 and sender.is_idle()
    ((alert, message),) = book.outbox.recent(0, 10)
    assert (message.status, message.tries, alert.message) == (SENT, 3, receiver.messages[0].id)


def test_a_sender_that_tries_for_long_looks_for_absences_too(ledger_url, book, reader, receiver, monkeypatch):
    looks: list[object] = []
    monkeypatch.setattr(follow, "_look_at_store", lambda *words: looks.append(words))
    monkeypatch.setattr(follow, "_STEP", 0.0)
    monkeypatch.setattr(follow, "_ABSENCES", 0.0)
    receiver.answers = [SendFailed("busy")] * 3
    end(book, 1, "failed")
    assert follow.until_idle(ledger_url, "", ONE)
    assert len(receiver.messages) == 1 and len(looks) >= 4


def test_a_sender_ends_when_its_settings_are_no_longer_in_force(ledger_url, book, reader, receiver, monkeypatch):
    monkeypatch.setattr(follow, "_STEP", 0.0)
    receiver.answers = [SendFailed("gone")] * 100
    end(book, 1, "failed")
    assert follow.until_idle(ledger_url, "", ONE, lambda: len(receiver.answers) > 90)
    assert not receiver.messages


def test_one_process_sends_for_each_file_and_where_there_can_be_no_lock_all_do(tmp_path, monkeypatch):
    first, second = SenderLock("alerts", str(tmp_path), "a.toml"), SenderLock("alerts", str(tmp_path), "a.toml")
    assert first.take() and second.is_taken() and not second.take()
    assert SenderLock("alerts", str(tmp_path), "b.toml").take()
    first.release()
    assert not second.is_taken() and second.take()
    traces = SenderLock("traces", str(tmp_path))
    assert traces.take()
    monkeypatch.chdir(tmp_path)
    assert SenderLock("traces", str(tmp_path)).is_taken()
    (tmp_path / "file").touch()
    nowhere = SenderLock("traces", str(tmp_path / "file" / "below"))
    assert nowhere.take() and not nowhere.is_taken()


def test_a_refused_message_is_undelivered_and_the_other_transport_hears_of_it(book, reader, receiver):
    settings = AlertSettings(transports={"hook": {"kind": "test"}, "mail": {"kind": "test"}}, group=0.0)
    end(book, 1, "failed")
    receiver.answers = [Refused("no such address")]
    sender = Sender(book, reader, settings)
    for _ in range(3):
        sender.round()
    assert [one.rule for message in receiver.messages for one in message.alerts] == ["failed", "undelivered"]
    assert "no such address" in receiver.messages[-1].text
    assert ("hook", UNDELIVERED, 1) in book.outbox.counts()


def test_an_undelivered_message_needs_you_on_the_first_screen(book, reader, receiver):
    receiver.answers = [Refused("the receiver answered 404")]
    end(book, 1, "failed")
    Sender(book, reader, ONE).round()
    seen = overview(reader, None)
    assert seen.need_you == 2 and [one.transport for one in seen.undelivered] == ["hook"]
    (row,) = [row for part in parts(reader, seen, {"needs you": 9}) for row in part.rows if row.word == "undelivered"]
    assert "404" in row.reason and row.next.words == ("alerts",)
    assert "404" in nightly.markdown(reader, seen) and seen.facts()["undelivered"]


def test_two_transports_that_refuse_do_not_tell_each_other_for_ever(book, reader, receiver):
    receiver.answers = [Refused("404")] * 50
    both = AlertSettings(transports={"one": {"kind": "test"}, "two": {"kind": "test"}}, group=0.0)
    end(book, 1, "failed")
    sender = Sender(book, reader, both)
    for _ in range(10):
        sender.round()
    assert sender.is_idle() and len(receiver.answers) == 50 - 4  # both of them, and of each to the other


def test_a_receiver_that_drips_is_left_and_no_second_try_is_begun_beside_it(book, reader, monkeypatch):
    begun_tries: list[int] = []
    go = threading.Event()

    def drip(*_: object) -> None:
        begun_tries.append(1)
        go.wait()

    class Dripping(Transport):
        @property
        def send(self):
            return drip

    monkeypatch.setitem(TRANSPORTS, "test", Dripping(module="test", keys=(), example=""))
    monkeypatch.setattr(send, "LONGEST", 0.05)
    alert = collect.alerts(ONE, "id", "failed", "job", 1000.0)
    for why in ("no answer within", "the previous try"):
        with pytest.raises(SendFailed, match=why):
            send.send(reader, ONE, "hook", "id", alert)
    go.set()
    assert len(begun_tries) == 1


def test_a_clock_that_is_set_back_keeps_no_message_waiting(book, reader, receiver):
    receiver.answers = [SendFailed("busy")]
    end(book, 1, "failed")
    sender = Sender(book, reader, ONE)
    sender.round()
    later = round((time.time() + 86400) * 1000)
    tamper(book, "UPDATE {prefix}alert_message SET due = :at, claim_until = :at", at=later)
    sender.round()
    assert len(receiver.messages) == 1
    assert ready(collect.alerts(ONE, "id", "failed", "job", 1000.0) * 11, 90_000.0, 11, 1030.0)


def test_a_clock_that_is_set_forward_gives_nothing_up(book, reader, receiver, monkeypatch):
    receiver.answers = [SendFailed("busy")]
    end(book, 1, "failed")
    sender = Sender(book, reader, ONE)
    moment = time.time() + 30 * 86400
    monkeypatch.setattr(clock, "wall", lambda: moment)
    sender.round()
    assert [message.status for _, message in book.outbox.recent(0, 10) if message] == [WAITS]


def test_the_claim_of_a_dead_sender_is_taken_over_when_its_time_is_over(book, reader, receiver):
    end(book, 1, "failed")
    sender = Sender(book, reader, ONE)
    collect.collect(book, reader, ONE)
    id_ = book.outbox.compose("hook", lambda *_: True)
    dead = book.outbox.claim(id_, "dead", 0.2)
    assert dead and not book.outbox.claim(id_, "other", 60) and not sender.deliver()
    deadline = time.monotonic() + 10
    while not receiver.messages and time.monotonic() < deadline:
        sender.deliver()
    assert len(receiver.messages) == 1
    assert not book.outbox.settle(dead, WAITS)  # what the dead one would say now does not count


def test_recovered_waits_behind_what_is_not_delivered_yet(book, reader, receiver):
    sender = Sender(book, reader, ONE)
    receiver.answers = [SendFailed("away")] * 3
    end(book, 1, "failed")
    sender.round()
    end(book, 2, "succeeded")
    for _ in range(8):
        sender.round()
    assert [one.rule for message in receiver.messages for one in message.alerts] == ["failed", "recovered"]


def test_what_is_still_wrong_is_told_again(book, reader, monkeypatch):
    settings = AlertSettings(transports=ONE.transports, defaults=JobAlerts(remind=0.0))
    end(book, 1, "failed")
    assert told(book, reader, settings) == [("failed", "job")]
    collect.remind(book, settings)
    assert [rule for rule, _ in told(book, reader, settings)] == ["failed", "reminder"]
    end(book, 2, "succeeded")
    told(book, reader, settings)
    collect.remind(book, settings)
    assert [rule for rule, _ in told(book, reader, settings)] == ["failed", "reminder", "recovered"]


def test_an_absence_is_told_after_two_looks_and_recovered_when_it_is_gone(book, reader, monkeypatch):
    end(book, 1, "failed", again_at=time.time() - 3600)  # nobody makes its next try
    absences.look(book, reader, ONE)
    assert told(book, reader) == []
    absences.look(book, reader, ONE)
    assert told(book, reader) == []  # a minute has to pass
    monkeypatch.setattr(absences, "APART", 0.0)
    absences.look(book, reader, ONE)
    absences.look(book, reader, ONE)
    assert told(book, reader) == [("overdue", "job")]
    begun(book, 2, key="1").finish("succeeded")
    absences.look(book, reader, ONE)
    assert told(book, reader) == [("overdue", "job"), ("recovered", "job")]


def test_an_approval_is_told_an_hour_before_it_expires_and_never_called_recovered(book, reader):
    runs = {job: book.open_run(job, "k") for job in ("soon", "later", "short")}
    for job, hours in (("soon", 0.5), ("later", 5.0), ("short", 0.5)):
        book.decisions.hold(runs[job].id, time.time() + hours * 3600)
        if job != "short":  # it could never have waited for longer
            tamper(book, "UPDATE {prefix}run SET changed = :at WHERE id = :id", at=0, id=runs[job].id)
    before = told(book, reader)
    absences.look(book, reader, ONE)
    absences.look(book, reader, ONE)
    assert [one for one in told(book, reader) if one not in before] == [("expires", "soon")]
    book.decisions.request_cancel(runs["soon"].id, "ann")
    absences.look(book, reader, ONE)
    assert "recovered" not in [rule for rule, _ in told(book, reader)]


def test_the_digest_is_of_the_ledgers_day_and_plain(book, reader, ledger_url, monkeypatch):
    begun(book, job="job").finish("failed", reason="see [x](http://evil.example) *now*")
    zone = ZoneInfo("Asia/Tokyo")
    tamper(book, "UPDATE {prefix}meta SET value = 'Asia/Tokyo' WHERE key = 'ledger.zone'")
    book.close()
    now = datetime.fromtimestamp(time.time(), zone)
    settings = AlertSettings(transports=ONE.transports, digest=now.strftime("%H:%M"), group=0.0)
    for _ in range(2):
        follow.digest(ledger_url, settings)
    ((digest, _),) = [one for one in book.outbox.recent(0, 10) if one[0].rule == "digest"]
    assert digest.id == f"digest:{now.date().isoformat()}"
    message = build(reader, "id", [digest])
    assert message.subject == "Nightlatch: The only run did not succeed. One thing needs you."
    assert "http://" not in message.text and "\\" not in message.text and "［x］" in message.text


@pytest.mark.parametrize(
    ("alerts", "last", "count", "now", "goes"),
    [
        (1, 0, 0, 1029, False), (1, 0, 0, 1030, True), (1, 900, 1, 1030, True), (11, 900, 1, 1030, False),
        (1, 900, 11, 1030, False), (1, 700, 11, 1030, True), (11, 0, 0, 1030, True),
    ],
)  # fmt: skip
def test_when_a_message_goes_out(alerts, last, count, now, goes):
    waiting = collect.alerts(ONE, "id", "failed", "job", 1000.0) * alerts
    assert ready(waiting, last, count, now) is goes


def test_every_rule_has_a_title_and_a_help():
    assert all(rule.title and rule.help and name == rule.name for name, rule in RULES.items())


def test_a_reported_text_mentions_nobody_links_nowhere_and_is_no_markup(book, reader):
    hostile = "x\r\nSubject: won\r\n\r\n@everyone <!channel> [a](http://evil.example) **b** `c` \u202egro\x1b[31m www.evil.example"
    line = without_markup(hostile)
    assert line.isprintable() and not set("@<>[]`*&") & set(line) and "://" not in line and "evil.example" not in line
    begun(book, job="job").finish("failed", reason=hostile)
    collect.collect(book, reader, ONE)
    message = build(reader, "id", [alert for alert, _ in book.outbox.recent(0, 1)])
    assert "Subject: won" in message.text and message.text.count("\n") == 2 and "@everyone" not in message.text
    assert message.subject == "Nightlatch: job failed" and message.json().isascii()
