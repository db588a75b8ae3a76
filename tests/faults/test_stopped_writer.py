"""A process that is stopped inside its transaction holds up nobody for long."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nightlatch.database import sqlite
from nightlatch.database.sqlite import SqliteDatabase
from nightlatch.errors import StoreUnreachable
from tests.support.programs import state, until

STOPS_INSIDE = """
import os, signal, sys
from nightlatch.database.sqlite import SqliteDatabase
with SqliteDatabase(sys.argv[1], "store").transaction():
    os.kill(os.getpid(), signal.SIGSTOP)
"""


@pytest.mark.parametrize("patience", [0.2, 10.0])
def test_whoever_waits_for_a_stopped_writer_ends_it_and_gets_its_turn(tmp_path: Path, patience: float) -> None:
    """Also one with little patience: after ending the writer it must not give up before that is gone."""
    database = SqliteDatabase(f"{tmp_path}/store.db", "store")
    database.identity()
    with subprocess.Popen([sys.executable, "-c", STOPS_INSIDE, database.path], process_group=0) as writer:
        until(lambda: state(writer.pid) == "T")
        rows = database.write("INSERT INTO meta (key, value) VALUES ('a', 'b') RETURNING key", patience=patience)
        assert rows == [("a",)]
        assert writer.wait() == -signal.SIGKILL
    database.close()


STOPS_WHILE_IT_OPENS = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_whoever_cannot_open_the_store_is_told_which_stopped_process_keeps_it_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "PATIENCE", 0.2)
    path = f"{tmp_path}/store.db"
    with subprocess.Popen([sys.executable, "-c", STOPS_WHILE_IT_OPENS, path], process_group=0) as opener:
        until(lambda: state(opener.pid) == "T")
        told = rf"busy by process {opener.pid} \(.+\), which is stopped. Let it go on \(kill -CONT {opener.pid}\)"
        with pytest.raises(StoreUnreachable, match=told):
            SqliteDatabase(path, "store").identity()
        opener.send_signal(signal.SIGCONT)
        assert opener.wait() == 0
    assert SqliteDatabase(path, "store").identity()
