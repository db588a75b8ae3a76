"""A gate is written to when it is sealed and registered, not between the two: the next holder has to know of it."""

from __future__ import annotations

import sqlite3
from threading import Event, Thread

import pytest

import nightlatch
from nightlatch import gates
from nightlatch.errors import StoreUnreachable
from nightlatch.store import url


def written_by(kind, tmp_path):
    """A gate of this kind, and a function that writes through it."""
    if kind == "file":
        file = gates.File(tmp_path / "page")
        return file, lambda lease: file.write(lease, b"x")
    if kind == "folder":
        (tmp_path / "source").mkdir()
        folder = gates.Folder(tmp_path / "site")
        return folder, lambda lease: folder.publish(lease, tmp_path / "source")
    table = gates.Sql("table", f"sqlite:///{tmp_path}/target.db")

    def insert(lease):
        with sqlite3.connect(tmp_path / "target.db") as connection, table.transaction(connection, lease):
            connection.execute("CREATE TABLE IF NOT EXISTS entry (x)")

    return table, insert


@pytest.mark.parametrize("kind", ["file", "folder", "sql"])
def test_a_gate_that_could_not_be_registered_is_not_written_to_unregistered_at_the_second_try(
    sqlite_url, tmp_path, monkeypatch, kind
):
    store = url.connect(sqlite_url)
    gate, write = written_by(kind, tmp_path)
    register, calls = store.register, []

    def away_at_first(*given):
        calls.append(given)
        if len(calls) == 1:
            raise StoreUnreachable("the server restarts")
        register(*given)

    monkeypatch.setattr(store, "register", away_at_first)
    with nightlatch.lease("job", store=store) as lease:
        with pytest.raises(StoreUnreachable):
            write(lease)
        write(lease)
        assert gate.url in store.gates("job")
        write(lease)
        assert len(calls) == 2, "a gate that is registered is not registered at every write"


def test_a_thread_does_not_write_while_another_one_still_registers_the_gate(sqlite_url, tmp_path, monkeypatch):
    store = url.connect(sqlite_url)
    gate = gates.File(tmp_path / "page")
    register, sealed, go_on = store.register, Event(), Event()

    def slow(*given):
        sealed.set()
        assert go_on.wait(30)
        register(*given)

    monkeypatch.setattr(store, "register", slow)
    with nightlatch.lease("job", store=store) as lease:
        first = Thread(target=gate.write, args=(lease, b"first"))
        second = Thread(target=gate.write, args=(lease, b"second"))
        first.start()
        assert sealed.wait(30)
        second.start()
        second.join(0.2)  # a wrong one has written by then
        written = (tmp_path / "page").exists()
        go_on.set()
        first.join()
        second.join()
        assert not written
        assert gate.url in store.gates("job") and (tmp_path / "page").exists()
