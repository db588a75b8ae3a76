"""What SQLite acknowledged is on the disk: what a flush has seen is all that is left after the power fails."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from nightlatch import connect, ledger
from nightlatch.core.model import Holder, Mark
from nightlatch.database.sqlite import SqliteDatabase
from nightlatch.errors import StoreUnreachable
from nightlatch.ledger.items import ITEM
from nightlatch.ledger.writer import Verb
from nightlatch.runtime.shared.leases.lease import Lease
from nightlatch.store.sql import SqlStore
from nightlatch.system import durable
from tests.support.programs import python

ME = Holder(incarnation="i", user="ann", host="here")


class Disk:
    """Keeps, of every database, what was there when its log was last flushed."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.flushes = folder, 0
        self._flush = durable.flush
        monkeypatch.setattr(durable, "flush", self.flush)

    def flush(self, fd: int) -> None:
        self._flush(fd)
        log = Path(os.readlink(f"/proc/self/fd/{fd}"))
        for file in (log, log.with_name(log.name.removesuffix("-wal"))):
            shutil.copy(file, self.folder / file.name)
        self.flushes += 1

    def url(self) -> str:
        """The store as it is after the power came back: a place of its own each time."""
        after = self.folder / f"after-{self.flushes}"
        after.mkdir(exist_ok=True)
        for file in self.folder.glob("nightlatch*"):
            shutil.copy(file, after / file.name)
        return f"sqlite:///{after}/nightlatch.db"


@pytest.fixture
def disk(tmp_path, monkeypatch):
    if not os.path.exists("/proc/self/fd"):
        pytest.skip("which file is flushed is seen in /proc, which only Linux has")
    (tmp_path / "disk").mkdir()
    return Disk(tmp_path / "disk", monkeypatch)


def test_what_the_ledger_acknowledged_is_there_after_the_power_failed(disk, sqlite_url):
    book = ledger.open_for(sqlite_url)
    run = book.open_run("job", "k", command="true", host="here")
    assert ledger.open_for(disk.url()).run(run.id) == run
    writer = book.seal(run.id, token=1, grant="g", holder=ME)
    assert ledger.open_for(disk.url()).run(run.id) == writer.run
    writer.event("said", text="this")
    assert [entry.kind for entry in ledger.open_for(disk.url()).journal.of_run(run.id)][-1] == "said"
    writer.usage(usd=0.5)
    assert ledger.open_for(disk.url()).history.tallies(())[0].amounts.usd == 0.5
    writer.record("steps", [(ITEM, [("job", "d", "k", "done", 1, run.id, 1, 0, "", "", 0)])], done="k")
    assert list(ledger.open_for(disk.url()).items.digests("job", "done")) == ["d"]
    writer.take(Verb("one", {}), Verb("two", {}))
    assert [entry.kind for entry in ledger.open_for(disk.url()).journal.of_run(run.id)][-2:] == ["one", "two"]
    ended = writer.finish("succeeded", exit_code=0)
    assert ledger.open_for(disk.url()).run(run.id) == ended
    assert not ledger.open_for(disk.url()).journal.verify(book.journal.heads()).breaks


def test_a_run_that_is_sealed_next_is_flushed_with_its_seal(disk, sqlite_url):
    book = ledger.open_for(sqlite_url)
    assert book.id
    before = disk.flushes
    run = book.open_run("job", "k", command="true", host="here", lazy=True)
    assert disk.flushes == before
    writer = book.seal(run.id, token=1, grant="g", holder=ME)
    assert disk.flushes == before + 1
    assert ledger.open_for(disk.url()).run(run.id) == writer.run
    assert not ledger.open_for(disk.url()).journal.verify(book.journal.heads()).breaks


def test_what_the_store_acknowledged_is_there_after_the_power_failed(disk, sqlite_url):
    store = connect(sqlite_url)
    granted = store.acquire("job", "grant", ME, 30.0)
    assert [record.token for record in connect(disk.url()).records()] == [granted.token]
    done = store.settle("job", "grant", "job", "k", value="v")
    assert connect(disk.url()).look("job", "k") == done
    store.renew("job", "grant", 3000.0)
    assert [record.ttl for record in connect(disk.url()).records()] == [3000.0]


def test_what_was_lazy_is_there_with_the_next_write(disk, sqlite_url):
    store = connect(sqlite_url)
    assert isinstance(store, SqlStore) and store.may_be_lazy and store.id
    before = disk.flushes
    granted = store.acquire("job", "grant", ME, 30.0, lazy=True)
    done = store.settle("job", "grant", "job", "k", value="v", lazy=True)
    assert disk.flushes == before
    store.renew("job", "grant", 30.0)
    after = connect(disk.url())
    assert [record.token for record in after.records()] == [granted.token] and after.look("job", "k") == done


def test_a_gate_is_sealed_only_with_a_grant_that_is_on_the_disk(disk, sqlite_url):
    known = []

    class Gate:
        url = "file:///somewhere"

        def seal(self, mark: Mark, *_: object) -> None:
            known.append((mark.token, [record.token for record in connect(disk.url()).records()]))

    with Lease(connect(sqlite_url), "job", ttl=30.0, wait=0.0, gates=[Gate()], lazy=True) as lease:
        assert known == [(lease.token, [lease.token])]


_CLAIMED = """
import os, sys, time
from nightlatch import connect
from nightlatch.core.job import Job
from nightlatch.core.row import Claim, Row
from nightlatch.core.target import Command
from nightlatch.runtime.supervisor.start import start
from nightlatch.system import durable

url, then = sys.argv[1], time.time() - 5
row = Row(job="job", slot=then, next_due=then + 1000)
store = connect(url)
assert store.advance([row.move("m1", claim=Claim(id="c1", slot=then))]) == [True]
store.close()
flush, flushed = durable.flush, []
def noted(fd):
    flush(fd)
    flushed.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
durable.flush = noted
verdict = start(Job(name="job", target=Command(words=("true",)), key="k"), store=url, claim="c1")
assert verdict.status == "succeeded", verdict
assert connect(url).look("job", "k"), "the key is not done"
print(*flushed)
"""


def test_a_claimed_run_flushes_its_grant_before_its_seal_and_its_key_with_the_end_of_its_claim(disk, sqlite_url):
    assert ledger.open_for(sqlite_url).id
    store, book = "nightlatch.db-wal", "nightlatch-ledger.db-wal"
    printed, errors = python(sqlite_url, _CLAIMED, sqlite_url).communicate()
    assert printed.split() == [store, book, book, store], errors


def test_nothing_is_flushed_where_nothing_was_written(disk, sqlite_url):
    store = connect(sqlite_url)
    store.acquire("job", "grant", ME, 30.0)
    before = disk.flushes
    assert store.look("job", "k") is None and store.cursors() == []
    assert disk.flushes == before


def test_a_checkpoint_between_a_commit_and_its_flush_loses_nothing(disk, sqlite_url):
    """The log starts again then: what was committed is in the database, flushed by the checkpoint."""
    book, other = ledger.open_for(sqlite_url), ledger.open_for(sqlite_url)
    run = book.open_run("job", "k", command="true", host="here")
    writer = book.seal(run.id, token=1, grant="g", holder=ME)
    flush, database = durable.flush, other._tables.database
    assert isinstance(database, SqliteDatabase)

    def after_a_checkpoint(fd: int) -> None:
        durable.flush = flush  # once
        assert database._connect().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
        flush(fd)

    durable.flush = after_a_checkpoint
    writer.event("said")
    assert [entry.kind for entry in ledger.open_for(disk.url()).journal.of_run(run.id)][-1] == "said"


def test_a_log_that_could_not_be_flushed_is_not_trusted_again(sqlite_url, monkeypatch):
    book = ledger.open_for(sqlite_url)
    run = book.open_run("job", "k", command="true", host="here")
    writer = book.seal(run.id, token=1, grant="g", holder=ME)

    def broken(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(durable, "flush", broken)
    with pytest.raises(StoreUnreachable, match="Input/output error"):
        writer.event("said")
    monkeypatch.undo()
    # The kernel tells of such an error once; the next flush would say that all is well.
    with pytest.raises(StoreUnreachable, match="Input/output error"):
        writer.event("said")


def test_others_write_while_one_flushes(sqlite_url, monkeypatch):
    """The lock that writers queue for is free by then: a slow disk delays only the writer that waits for it."""
    book, other = ledger.open_for(sqlite_url), ledger.open_for(sqlite_url)
    flush, seen = durable.flush, []

    def meanwhile(fd: int) -> None:
        monkeypatch.setattr(durable, "flush", flush)
        seen.append(other.open_run("job", "b").key)
        flush(fd)

    assert book.id and other.id
    monkeypatch.setattr(durable, "flush", meanwhile)
    book.open_run("job", "a")
    assert seen == ["b"]


def test_who_was_interrupted_before_the_flush_makes_up_for_it(disk, sqlite_url, monkeypatch):
    """What is committed is seen by the next look, which so acknowledges it: it has to be on the disk by then."""
    book, store = ledger.open_for(sqlite_url), connect(sqlite_url)
    run = book.open_run("job", "k", command="true", host="here")
    writer = book.seal(run.id, token=1, grant="g", holder=ME)
    store.acquire("job", "grant", ME, 30.0)
    flush = durable.flush

    def interrupted(fd: int) -> None:
        monkeypatch.setattr(durable, "flush", flush)
        raise KeyboardInterrupt

    monkeypatch.setattr(durable, "flush", interrupted)
    with pytest.raises(KeyboardInterrupt):
        writer.finish("succeeded", exit_code=0)
    ended = writer.finish("succeeded", exit_code=0)
    assert ledger.open_for(disk.url()).run(run.id) == ended
    monkeypatch.setattr(durable, "flush", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.settle("job", "grant", "job", "k", value="v")
    done = store.settle("job", "grant", "job", "k", value="v")
    assert connect(disk.url()).look("job", "k") == done


IN_CHILD = """
import os, sys
from nightlatch import connect
from nightlatch.core.model import Holder, Mark
me = Holder(incarnation="i", user="ann", host="here")
store = connect()
store.acquire("parent", "p", me, 30.0)
go, replied = os.pipe(), os.pipe()
if not os.fork():
    store.acquire("child", "c", me, 30.0)
    os.write(replied[1], b"x")
    os.read(go[0], 1)
    store.acquire("child-again", "c", me, 30.0)
    os.write(replied[1], b"y")
    os._exit(0)
assert os.read(replied[0], 1) == b"x"
store.close()  # as the last one, it would take SQLite's log with it
os.write(go[1], b"x")
assert os.read(replied[0], 1) == b"y"
os.wait()
print(*sorted(record.name for record in connect().records()))
"""


def test_a_fork_loses_nothing_when_its_parent_closes(sqlite_url):
    said = python(sqlite_url, IN_CHILD).communicate(timeout=60)[0]
    assert said.split() == ["child", "child-again", "parent"]
