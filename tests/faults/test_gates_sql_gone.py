"""The SQL gate on a SQLite database that is gone: it is unreachable, not empty."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import closing

import pytest

from nightlatch.errors import GateUnreachable
from tests.support.disks import mounting
from tests.support.marks import STORE, mark
from tests.support.programs import TOOL, environment
from tests.support.sql_target import Target


def test_a_database_that_is_gone_is_not_sealed_as_an_empty_one(sqlite_target, tmp_path):
    gate = sqlite_target.gate()
    gate.seal(mark(1), "me")
    (tmp_path / "site.db").unlink()
    with pytest.raises(GateUnreachable, match="gate adopt"):
        gate.seal(mark(2), "me")
    assert not (tmp_path / "site.db").exists()
    assert gate.adopt(STORE) == 0, "a person says that a new one takes its place"
    gate.seal(mark(2), "me")


def test_a_database_whose_folder_is_gone_is_not_made(tmp_path):
    (tmp_path / "site").mkdir()
    target = Target(f"sqlite:///{tmp_path}/site/site.db#articles")
    gate = target.gate()
    gate.seal(mark(1), "me")
    with closing(target.connect()) as connection:
        shutil.rmtree(tmp_path / "site")
        with pytest.raises(GateUnreachable, match="nor is its folder"):
            gate.seal(mark(2), "me")
        with pytest.raises(GateUnreachable), gate.transaction(connection, mark(1)):
            pass
    assert not (tmp_path / "site").exists()


@mounting
def test_no_gate_is_sealed_on_the_bare_mount_point_of_its_disk(tmp_path, sqlite_url):
    place = tmp_path / "disk"
    place.mkdir()
    make = f'{sys.executable} -c \'import sqlite3; sqlite3.connect("{place}/site.db").execute("CREATE TABLE x (y)")\''
    script = f"""
        mount -t tmpfs tmpfs {place} && {make} || exit 99
        {TOOL} lock job --gate 'sqlite:///{place}/site.db#articles' -- true || exit 98
        mount -t tmpfs tmpfs {place}  # as if the disk were away: it is below
        {TOOL} lock job -- true 2> {tmp_path}/away; test $? = 69 || exit 97
        ls {place} > {tmp_path}/made
        {make}
        {TOOL} lock job -- true 2> {tmp_path}/another; test $? = 69 || exit 96
        umount {place}
        {TOOL} lock job -- true || exit 95
    """
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script],
        env=environment(sqlite_url, XDG_STATE_HOME=str(tmp_path / "home")), text=True, capture_output=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Mount its disk" in (tmp_path / "away").read_text()
    assert (tmp_path / "made").read_text() == ""
    assert "another database" in (tmp_path / "another").read_text()
