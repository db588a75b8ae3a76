"""A process that is stopped inside its transaction holds up nobody for long."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nightlatch.database.sqlite import SqliteDatabase
from tests.support.programs import until

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
        until(lambda: Path(f"/proc/{writer.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
        rows = database.write("INSERT INTO meta (key, value) VALUES ('a', 'b') RETURNING key", patience=patience)
        assert rows == [("a",)]
        assert writer.wait() == -signal.SIGKILL
    database.close()
