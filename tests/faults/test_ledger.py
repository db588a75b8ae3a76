"""The ledger with real processes: killed, stopped, racing, upgraded in mid-run."""

from __future__ import annotations

import os
import random
import signal
import struct
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from nightlatch import ledger
from nightlatch.core.model import Holder
from nightlatch.errors import RunEnded, StaleToken
from nightlatch.ledger.ledger import Ledger
from nightlatch.ledger.records import RunRow
from nightlatch.ledger.writer import Verb, Writer
from tests.support.programs import until

ME = Holder(incarnation="i", user="ann", host="here")


def child(work: Callable[[int], int]) -> tuple[int, int]:
    """Fork; the child does `work` with the writing end of a pipe and exits with its result. (pid, reading end)"""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            os.close(reading)
            code = work(writing)
        finally:
            os._exit(code)
    os.close(writing)
    return pid, reading


def wait(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def last_reported(reading: int) -> int:
    """How many acknowledgements came through the pipe before its writer was gone."""
    content = b""
    while more := os.read(reading, 65536):
        content += more
    os.close(reading)
    return len(content) // 4


def seen(book: Ledger, run_id: str) -> RunRow:
    run = book.run(run_id)
    assert run
    return run


def in_threads(works: list[Callable[[], object]]) -> list[object]:
    """All at once; what each returned or raised."""
    barrier, ended = threading.Barrier(len(works)), [object()] * len(works)

    def one(place: int, work: Callable[[], object]) -> None:
        barrier.wait()
        try:
            ended[place] = work()
        except Exception as error:  # noqa: BLE001  it is looked at below
            ended[place] = error

    threads = [threading.Thread(target=one, args=item) for item in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ended


def test_kill_9_loses_nothing_that_was_acknowledged(ledger_url):
    """Writers are killed wherever they happen to be; a successor takes each run over and ends it."""
    kills = 100 if ledger_url.startswith("sqlite") else 20
    chance = random.Random(7)
    acknowledged: dict[str, int] = {}
    book = ledger.open_for(ledger_url)
    run_of = {str(number): book.open_run("job", str(number)).id for number in range(kills)}
    book.close()  # a forked child must find nothing of its parent's

    for key, run in run_of.items():
        pid, reading = child(partial(_write_for_ever, ledger_url, run))
        before = chance.randint(1, 5)
        for _ in range(before):
            os.read(reading, 4)  # it is in the middle of its work
        time.sleep(chance.random() * 0.02)
        os.kill(pid, signal.SIGKILL)
        assert wait(pid) == -signal.SIGKILL
        acknowledged[key] = last_reported(reading) + before

    book = ledger.open_for(ledger_url)
    for key, run in run_of.items():
        numbers = [int(entry.facts["number"]) for entry in book.journal.of_run(run) if entry.kind == "said"]
        assert numbers == list(range(len(numbers))), "in order, none missing, none twice"
        assert acknowledged[key] <= len(numbers) <= acknowledged[key] + 1
        assert seen(book, run).usage.calls == len(numbers)
        writer = book.seal(run, token=2, grant="successor", holder=ME)
        assert writer.lost and writer.finish("succeeded").status == "succeeded"
    verdict = book.journal.verify()
    assert verdict.breaks == () and verdict.chains == kills + 1
    assert sum(acknowledged.values()) > kills * 2, "they were killed in the middle, not at the start"


def _write_for_ever(url: str, run: str, pipe: int) -> int:
    writer = ledger.open_for(url).seal(run, token=1, grant="killed", holder=ME)
    number = 0
    while True:
        writer.take(Verb("said", {"number": number}), writer.used({"calls": 1}))  # both or neither
        os.write(pipe, struct.pack("i", number))
        number += 1


def test_a_writer_stopped_past_a_takeover_is_refused_when_it_goes_on(ledger_url):
    book = ledger.open_for(ledger_url)
    run = book.open_run("job", "k").id
    book.close()

    def stale(pipe: int) -> int:
        writer = ledger.open_for(ledger_url).seal(run, token=1, grant="old", holder=ME)
        writer.event("said")
        os.kill(os.getpid(), signal.SIGSTOP)
        try:
            writer.finish("succeeded", exit_code=0)
        except StaleToken as refused:
            return refused.exit_code
        return 0

    pid, reading = child(stale)
    os.waitpid(pid, os.WUNTRACED)
    successor = ledger.open_for(ledger_url).seal(run, token=2, grant="new", holder=ME)
    os.kill(pid, signal.SIGCONT)
    assert wait(pid) == 73
    os.close(reading)
    successor.event("said")
    assert successor.finish("failed", exit_code=1).status == "failed"


def test_one_of_many_openers_makes_the_run(ledger_url):
    books = [ledger.open_for(ledger_url) for _ in range(6)]
    for key in map(str, range(5)):
        runs = in_threads([partial(book.open_run, "job", key) for book in books])
        assert len({run.id if isinstance(run, RunRow) else run for run in runs}) == 1, runs
    assert books[0].journal.verify().breaks == ()


@pytest.mark.parametrize("tokens", [(5, 5), (5, 6), (6, 5)])
def test_of_two_that_seal_at_once_one_writes(ledger_url, tokens):
    books = [ledger.open_for(ledger_url) for _ in tokens]
    for key in map(str, range(8)):
        run = books[0].open_run("job", key)
        sealed = in_threads(
            [
                partial(book.seal, run.id, token=token, grant=grant, holder=ME)
                for book, token, grant in zip(books, tokens, "ab", strict=True)
            ]
        )
        wrote = in_threads([partial(_verdict, one) for one in sealed])
        assert sorted(map(str, wrote)) == ["refused", "wrote"], sealed
        newest = seen(books[0], run.id)
        assert newest.token == max(tokens) and newest.status == "succeeded"
        assert [attempt.status for attempt in books[0].attempts(run.id)][-1] == "succeeded"
    assert books[0].journal.verify().breaks == ()


def _verdict(sealed: object) -> str:
    if isinstance(sealed, StaleToken):
        return "refused"
    assert isinstance(sealed, Writer), sealed
    try:
        sealed.finish("succeeded")
    except StaleToken:
        return "refused"
    return "wrote"


def test_a_person_and_a_holder_who_decide_at_once_leave_one_outcome(ledger_url):
    people, holders = ledger.open_for(ledger_url), ledger.open_for(ledger_url)
    for key in map(str, range(8)):
        run = people.open_run("job", key)
        _, sealed = in_threads(
            [
                partial(people.decisions.request_cancel, run.id, "ann"),
                partial(holders.seal, run.id, token=1, grant="g", holder=ME),
            ]
        )
        if isinstance(sealed, Writer):
            assert sealed.cancel_requested() == "ann" and seen(people, run.id).status == "running"
        else:
            assert isinstance(sealed, RunEnded) and seen(people, run.id).status == "cancelled"
    assert people.journal.verify().breaks == ()


def test_a_schema_that_a_newer_program_migrates_in_mid_run_disturbs_no_writer(ledger_url):
    book = ledger.open_for(ledger_url)
    writer = book.seal(book.open_run("job", "k").id, token=1, grant="g", holder=ME)
    for _ in range(3):  # prepared statements are in use by then
        writer.progress(1, 2)
        writer.usage(usd=1)
    newer = ledger.open_for(ledger_url)._tables
    with newer.database.transaction() as execute:
        for statement in (
            "ALTER TABLE {prefix}run ADD COLUMN colour TEXT",
            "ALTER TABLE {prefix}journal ADD COLUMN colour TEXT",
            "ALTER TABLE {prefix}usage ADD COLUMN colour BIGINT DEFAULT 0",
            "CREATE TABLE {prefix}of_tomorrow (run TEXT NOT NULL)",
            "UPDATE {prefix}meta SET value = '99' WHERE key = 'ledger.schema'",
        ):
            execute(newer.sql(statement))
    writer.progress(2, 2)
    assert writer.usage(usd=1).usd == 4.0
    assert book.decisions.request_cancel(writer.run.id, "ann").status == "running"
    assert writer.finish("succeeded").status == "succeeded"
    started_later = ledger.open_for(ledger_url)
    assert started_later.open_run("job", "other").status == "pending"
    assert started_later.journal.verify().breaks == ()


def test_verbs_of_many_threads_go_to_the_disk_together(ledger_url):
    book = ledger.open_for(ledger_url)
    writer = book.seal(book.open_run("job", "k").id, token=1, grant="g", holder=ME)
    threads = [threading.Thread(target=writer.usage, kwargs={"calls": 1}) for _ in range(40)]
    before = commits(book, writer)
    with writer._commits.exclusive():  # somebody else's commit is under way
        for thread in threads:
            thread.start()
        until(lambda: len(writer._commits._queue) == len(threads))
    for thread in threads:
        thread.join()
    assert commits(book, writer) == before + 1
    assert seen(book, writer.run.id).usage.calls == 40
    writer.event("said")
    writer.event("said")
    assert commits(book, writer) == before + 3


def test_verbs_of_one_call_go_to_the_disk_together(ledger_url):
    book = ledger.open_for(ledger_url)
    writer = book.seal(book.open_run("job", "k").id, token=1, grant="g", holder=ME)
    before = commits(book, writer)
    writer.take(*(Verb("said", {"number": number}) for number in range(41)))
    assert commits(book, writer) == before + 1
    assert [entry.facts["number"] for entry in list(book.journal.of_run(writer.run.id))[2:]] == list(
        map(str, range(41))
    )


def commits(book: Ledger, writer: Writer) -> int:
    """How many commits the journal of the run took, as the database itself wrote them down.

    PostgreSQL marks each row with its transaction. SQLite marks the last frame of a commit in its
    write-ahead log, and with synchronous = FULL syncs the log once for each.
    """
    database = book._tables.database
    if not hasattr(database, "path"):
        (row,) = book._tables.read(
            "SELECT count(DISTINCT CAST(xmin AS text)) FROM {prefix}journal WHERE chain = :run", run=writer.run.id
        )
        return int(row[0])
    log = Path(f"{database.path}-wal").read_bytes()
    (page,) = struct.unpack(">I", log[8:12])
    salt = log[16:24]
    frames = [log[start : start + 24] for start in range(32, len(log), 24 + page)]
    return sum(frame[4:8] != b"\0\0\0\0" for frame in frames if frame[8:16] == salt)
