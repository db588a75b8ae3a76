"""The file gate: what lands, what is kept, what is refused, and in which order things become durable."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import nightlatch
from nightlatch import gates
from nightlatch.core.model import Mark
from nightlatch.errors import GateUnreachable, LeaseLost, OtherStore, StaleToken, UsageError
from nightlatch.gates import address, refusals
from nightlatch.system import durable, process, storage
from tests import programs


def mark(token: int, name: str = "job", store: str = "5" * 32) -> Mark:
    return Mark(store=store, name=name, token=token, grant=f"{token:032d}")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out.html"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_text_is_written_as_utf8(path):
    gates.File(path).write(mark(1), "naïve")
    assert path.read_bytes() == "naïve".encode()


def test_a_replaced_file_keeps_its_mode(path):
    path.write_bytes(b"old")
    path.chmod(0o640)
    gates.File(path).write(mark(1), b"new")
    assert (path.read_bytes(), mode(path)) == (b"new", 0o640)


def test_a_new_file_has_its_sources_mode_under_the_umask(path, tmp_path):
    source = tmp_path / "source"
    source.write_bytes(b"#!/bin/sh\n")
    source.chmod(0o775)
    umask = os.umask(0o027)
    try:
        gates.File(path).publish(mark(1), source)
        gates.File(tmp_path / "plain").write(mark(1), b"")
    finally:
        os.umask(umask)
    assert (path.read_bytes(), mode(path), mode(tmp_path / "plain")) == (b"#!/bin/sh\n", 0o750, 0o640)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_root_keeps_owner_and_set_user_id(path):
    path.write_bytes(b"old")
    os.chown(path, 12345, 12345)
    path.chmod(0o4755)
    gates.File(path).write(mark(1), b"new")
    assert (path.stat().st_uid, path.stat().st_gid, mode(path)) == (12345, 12345, 0o4755)


def open_to_others(folder: Path) -> None:
    while folder != Path(tempfile.gettempdir()):
        folder.chmod(0o755)
        folder = folder.parent


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
def test_a_file_that_changes_hands_loses_set_user_id(tmp_path):
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    open_to_others(tmp_path)
    path = folder / "tool"
    path.write_bytes(b"old")
    path.chmod(0o4755)
    program = (
        "import os, sys\nfrom nightlatch import gates\nfrom nightlatch.core.model import Mark\n"
        "gates.File\nos.setgid(12345); os.setuid(12345)\n"
        "gates.File(sys.argv[1]).write(Mark(store='s', name='n', token=1, grant='g'), b'new')"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=True)
    assert (path.read_bytes(), path.stat().st_uid, mode(path)) == (b"new", 12345, 0o755)


def test_a_link_is_followed_and_both_names_share_their_marks(path, tmp_path):
    link = tmp_path / "link.html"
    path.write_bytes(b"old")
    link.symlink_to(path)
    gates.File(link).write(mark(2), b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    with pytest.raises(StaleToken):
        gates.File(path).write(mark(1), b"stale")


def test_marks_lock_and_refusals_are_for_this_user_alone(path, tmp_path):
    gate = gates.File(path)
    gate.write(mark(2), b"")
    with pytest.raises(StaleToken):
        gate.write(mark(1), b"")
    hidden = tmp_path / ".out.html.nightlatch"
    assert mode(hidden) == 0o700
    assert {entry.name: mode(entry) for entry in hidden.iterdir()} == dict.fromkeys(
        ["lock", "marks", "refusals"], 0o600
    )


def test_a_write_whose_mark_stands_writes_no_mark_again(path, tmp_path):
    gate = gates.File(path)
    gate.seal(mark(1), "me")
    before = (tmp_path / ".out.html.nightlatch" / "marks").stat()
    gate.write(mark(1), b"one")
    gate.write(mark(1), b"two")
    assert (tmp_path / ".out.html.nightlatch" / "marks").stat() == before


def test_content_and_mark_are_on_the_disk_before_the_file_is_replaced(path, monkeypatch):
    happened: list[str] = []
    names: dict[int, str] = {}
    fsync, replace, open_ = durable.fsync, os.replace, os.open

    def opened(name, *given, **named):
        fd = open_(name, *given, **named)
        names[fd] = str(name)
        return fd

    def word(name: str) -> str:
        hidden = "out.html.nightlatch" in name
        return (
            ("marks" if "marks" in name else "content" if "new." in name else "hidden folder") if hidden else "folder"
        )

    monkeypatch.setattr(os, "open", opened)

    def flushed(fd: int) -> None:
        happened.append(f"flush {word(names[fd])}")
        fsync(fd)

    def renamed(old: str, new: str) -> None:
        happened.append(f"rename {word(str(old))}")
        replace(old, new)

    monkeypatch.setattr(durable, "fsync", flushed)
    monkeypatch.setattr(os, "replace", renamed)
    gate = gates.File(path)
    gate.seal(mark(1), "me")
    happened.clear()
    gate.write(mark(2), b"new")
    assert happened == [
        "flush content", "flush marks", "rename marks", "flush hidden folder", "rename content", "flush folder",
    ]  # fmt: skip


def test_a_full_disk_leaves_the_file_and_nothing_else(path, tmp_path, monkeypatch):
    gate = gates.File(path)
    gate.write(mark(1), b"old")
    with monkeypatch.context() as patched:
        write = os.write

        def full(fd: int, content: bytes) -> int:
            if bytes(content) != b"new":
                return write(fd, content)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        patched.setattr(os, "write", full)
        with pytest.raises(GateUnreachable, match="No space left"):
            gate.write(mark(1), b"new")
    assert path.read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path / ".out.html.nightlatch")) == ["lock", "marks"]


def test_what_cannot_be_replaced_is_said(path, tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="is a folder"):
        gates.File(tmp_path / "folder").write(mark(1), b"")
    with pytest.raises(UsageError, match="neither a file nor a folder"):
        gates.File(tmp_path / "pipe").write(mark(1), b"")
    with pytest.raises(UsageError, match="cannot be read"):
        gates.File(path).publish(mark(1), tmp_path / "missing")
    with pytest.raises(UsageError, match="not a regular file"):
        gates.File(path).publish(mark(1), tmp_path / "folder")


def test_a_folder_that_is_gone_is_made_again_so_that_the_mark_stands_first(tmp_path):
    gate = gates.File(tmp_path / "build" / "deep" / "out.html")
    gate.seal(mark(2), "new")
    with pytest.raises(StaleToken):
        gates.File(tmp_path / "build" / "deep" / "out.html").write(mark(1), b"stale")


def test_a_folder_removed_under_a_gate_that_is_in_use_is_made_again(tmp_path):
    gate = gates.File(tmp_path / "build" / "out.html")
    gate.write(mark(1), b"one")
    shutil.rmtree(tmp_path / "build")
    gate.write(mark(2), b"two")
    assert (tmp_path / "build" / "out.html").read_bytes() == b"two"


def test_a_write_under_way_fails_when_the_marks_are_removed_under_it(path, tmp_path, monkeypatch):
    """Its lock is gone with them, and somebody else may have the new one."""
    gate = gates.File(path)
    gate.seal(mark(1), "me")
    admit = gate._marks.admit

    def removed(offered: Mark, by: str) -> Mark | None:
        before = admit(offered, by)
        shutil.rmtree(tmp_path / ".out.html.nightlatch")
        return before

    monkeypatch.setattr(gate._marks, "admit", removed)
    with pytest.raises(GateUnreachable):
        gate.write(mark(1), b"lost its lock")
    assert not path.exists()


def test_a_network_disk_is_refused_and_the_way_out_named(path, monkeypatch):
    monkeypatch.setattr(storage, "not_local", lambda _: "it is on a network file system (nfs4)")
    with pytest.raises(GateUnreachable, match=r"nfs4.*object store"):
        gates.File(path).seal(mark(1), "me")
    assert not os.listdir(path.parent)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
def test_a_stopped_process_of_another_user_in_the_lock_is_named(tmp_path):
    folder = tmp_path / "theirs"
    folder.mkdir()
    open_to_others(tmp_path)
    program = (
        "import os, sys, threading\nfrom nightlatch import gates\nfrom nightlatch.core.model import Mark\n"
        "from nightlatch.errors import GateUnreachable\ngates.File\nos.setgid(12345); os.setuid(12345)\n"
        "try: gates.File(sys.argv[1]).seal(Mark(store='s', name='n', token=int(sys.argv[2]), grant='g'), 'they')\n"
        "except GateUnreachable as error: print(error)"
    )
    os.chown(folder, 12345, 12345)
    theirs = [sys.executable, "-c", program, str(folder / "out")]
    subprocess.run([*theirs, "1"], check=True)
    holding = (
        "import os, signal, sys\nfrom nightlatch.system.filelock import FairLock\n"
        "FairLock(sys.argv[1]).acquire(1)\nos.kill(os.getpid(), signal.SIGSTOP)"
    )
    lock = folder / ".out.nightlatch" / "lock"
    ours = subprocess.Popen([sys.executable, "-c", holding, str(lock)])
    try:
        start = process.start_of(ours.pid)
        programs.until(lambda: process.state_of(ours.pid, start or 0) == process.STOPPED)
        said = subprocess.run([*theirs, "2"], check=True, text=True, capture_output=True, timeout=30).stdout
    finally:
        ours.kill()
        ours.wait()
    assert f"process {ours.pid} of another user, which is stopped" in said


def test_damaged_marks_let_nobody_in(path, tmp_path):
    gate = gates.File(path)
    gate.write(mark(1), b"old")
    (tmp_path / ".out.html.nightlatch" / "marks").write_text("job\tnonsense\n")
    with pytest.raises(GateUnreachable, match="damaged"):
        gate.write(mark(2), b"new")
    assert path.read_bytes() == b"old"


def test_what_a_killed_writer_left_is_swept_and_what_a_living_one_writes_is_not(path, tmp_path):
    gate = gates.File(path)
    gate.seal(mark(1), "me")
    hidden = tmp_path / ".out.html.nightlatch"
    program = "from nightlatch.gates.marks import new_name; print(new_name())"
    dead = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, check=True).stdout.strip()
    mine = Path(gate._marks.new_path())
    for left in (hidden / dead, mine, hidden / "marks.0123.tmp"):
        left.write_bytes(b"part")
    gate.seal(mark(2), "me")
    assert sorted(os.listdir(hidden)) == sorted(["lock", "marks", mine.name])


def test_refusals_tell_who_came_when_and_with_what(path):
    gate = gates.File(path)
    gate.seal(mark(2), "ben@two")
    with pytest.raises(StaleToken):
        gate.seal(mark(1), "ann@one\n(pid 7)")
    with pytest.raises(OtherStore):
        gate.write(mark(9, store="6" * 32), b"")
    late, stranger = gate.refusals()
    assert (late.name, late.offered, late.stands, late.by) == ("job", 1, 2, "ann@one (pid 7)")
    assert (stranger.offered, stranger.stands, stranger.store) == (9, 0, "6" * 32)


def test_refusals_are_bounded_and_the_newest_stay(path, tmp_path, monkeypatch):
    monkeypatch.setattr(refusals, "KEEP", 2000)
    gate = gates.File(path)
    gate.seal(mark(1000), "me")
    for token in range(100):
        with pytest.raises(StaleToken):
            gate.seal(mark(token), "late")
    kept = gate.refusals()
    assert kept[-1].offered == 99
    assert 15 < len(kept) < 45
    assert sum(f.stat().st_size for f in (tmp_path / ".out.html.nightlatch").glob("refusals*")) < 4500


def test_a_refusal_that_cannot_be_recorded_is_still_a_refusal(path, tmp_path):
    gate = gates.File(path)
    gate.seal(mark(2), "me")
    (tmp_path / ".out.html.nightlatch" / "refusals").mkdir()
    with pytest.raises(StaleToken) as refused:
        gate.write(mark(1), b"")
    assert "could not be recorded" in refused.value.__notes__[0]


def test_adopted_marks_keep_their_tokens(path):
    gate = gates.File(path)
    gate.seal(mark(5), "me")
    gate.seal(mark(7, "other"), "me")
    assert gate.adopt("6" * 32) == 2
    assert gate.adopt("6" * 32) == 0
    assert {name: (s.mark.store, s.mark.token) for name, s in gate.standing().items()} == {
        "job": ("6" * 32, 5),
        "other": ("6" * 32, 7),
    }
    with pytest.raises(StaleToken):
        gate.seal(mark(4, store="6" * 32), "me")


@pytest.mark.parametrize("name", ["a b", "ü%20?#", "new\nline", "a\udcffb"])
def test_any_path_survives_its_url(tmp_path, name):
    gate = gates.File(tmp_path / name)
    again = gates.open(gate.url)
    assert isinstance(again, gates.File)
    assert again.path == gate.path == os.path.realpath(tmp_path / name)
    assert gate.url.isascii() and gate.url.isprintable()


def test_a_path_on_another_machine_is_not_taken_for_one_here(path):
    with pytest.raises(UsageError, match="another machine"):
        gates.open(f"file://{'0' * 32}{path}")
    assert address.to_path("file:///etc/hosts") == "/etc/hosts"


def test_a_lease_registers_and_seals_a_gate_at_its_first_write(path, sqlite_url):
    gate = gates.File(path)
    with nightlatch.lease("job", store=sqlite_url) as lease:
        gate.write(lease, b"one")
        assert gate.standing()["job"].mark == lease.mark
        assert gate.standing()["job"].by == str(lease.holder)
    with nightlatch.lease("job", store=sqlite_url) as lease:  # it knows of the gate by the store alone
        assert gate.standing()["job"].mark == lease.mark


def test_a_lease_that_was_given_back_writes_nothing(path, sqlite_url):
    with nightlatch.lease("job", gates=[gate := gates.File(path)], store=sqlite_url) as lease:
        gate.write(lease, b"one")
    with pytest.raises(LeaseLost):
        gate.write(lease, b"two")
    assert path.read_bytes() == b"one"


def test_a_gate_that_cannot_be_sealed_means_no_lease(path, sqlite_url):
    gates.File(path).seal(mark(1), "from another store")
    with pytest.raises(OtherStore), nightlatch.lease("job", gates=[gates.File(path)], store=sqlite_url):
        raise AssertionError("the block was entered")
    record = nightlatch.connect(sqlite_url).read("job")
    assert record is not None and not record.grant
