"""The marks beside a file: where they are, which holders they admit, and which refusals they remember."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from nightlatch import gates
from nightlatch.core.model import Mark
from nightlatch.errors import GateUnreachable, OtherStore, StaleToken
from nightlatch.gates import refusals
from nightlatch.system import process, storage
from tests.support import programs
from tests.support.files import mode
from tests.support.marks import mark


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
    assert {entry.name.partition(".")[0]: mode(entry) for entry in hidden.iterdir()} == dict.fromkeys(
        ["landing", "lock", "marks", "refusals"], 0o600
    )


def test_a_write_whose_mark_stands_writes_no_mark_again(path, tmp_path):
    gate = gates.File(path)
    gate.seal(mark(1), "me")
    marks = tmp_path / ".out.html.nightlatch" / "marks"
    before = marks.stat()
    gate.write(mark(1), b"one")
    gate.write(mark(1), b"two")
    after = marks.stat()  # not compared as a whole: a second may pass, and reading sets st_atime
    assert (after.st_ino, after.st_mtime_ns, after.st_ctime_ns) == (
        before.st_ino,
        before.st_mtime_ns,
        before.st_ctime_ns,
    )


def test_a_folder_that_is_gone_is_made_again_so_that_the_mark_stands_first(tmp_path):
    gate = gates.File(tmp_path / "build" / "deep" / "out.html")
    gate.seal(mark(2), "new")
    with pytest.raises(StaleToken):
        gates.File(tmp_path / "build" / "deep" / "out.html").write(mark(1), b"stale")


@pytest.mark.parametrize("emptied", [True, False], ids=["emptied", "gone"])
def test_a_folder_that_vanished_under_a_gate_that_is_in_use_is_not_taken_for_a_new_one(tmp_path, emptied):
    gate = gates.File(tmp_path / "build" / "out.html")
    gate.write(mark(1), b"one")
    shutil.rmtree(tmp_path / "build")
    if emptied:
        (tmp_path / "build").mkdir()
        gates.File(tmp_path / "build" / "out.html").seal(mark(1, "other"), "another job's")
    with pytest.raises(GateUnreachable, match="Mount the disk"):
        gate.write(mark(2), b"two")
    assert not (tmp_path / "build" / "out.html").exists()


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
def test_a_stopped_process_of_another_user_in_the_lock_is_named(open_folder):
    program = (
        "import os, sys, threading\nfrom nightlatch import gates\nfrom nightlatch.core.model import Mark\n"
        "from nightlatch.errors import GateUnreachable\ngates.File\nos.setgid(12345); os.setuid(12345)\n"
        "try: gates.File(sys.argv[1]).seal(Mark(store='s', name='n', token=int(sys.argv[2]), grant='g'), 'they')\n"
        "except GateUnreachable as error: print(error)"
    )
    os.chown(open_folder, 12345, 12345)
    theirs = [sys.executable, "-c", program, str(open_folder / "out")]
    assert not subprocess.run([*theirs, "1"], check=True, text=True, capture_output=True).stdout
    holding = (
        "import os, signal, sys\nfrom nightlatch.system.filelock import FairLock\n"
        "FairLock(sys.argv[1]).acquire(1)\nos.kill(os.getpid(), signal.SIGSTOP)"
    )
    lock = open_folder / ".out.nightlatch" / "lock"
    ours = subprocess.Popen([sys.executable, "-c", holding, str(lock)], process_group=0)
    try:
        start = process.start_of(ours.pid)
        programs.until(lambda: process.state_of(ours.pid, start or 0) == process.STOPPED)
        said = subprocess.run([*theirs, "2"], check=True, text=True, capture_output=True, timeout=60).stdout
    finally:
        ours.kill()
        ours.wait()
    assert f"process {ours.pid} of another user, which is stopped" in said


@pytest.mark.parametrize("left", ["job\tnonsense\n", "", "job\t1\tgrant\tstore\t1.0"])
def test_damaged_marks_let_nobody_in(path, tmp_path, left):
    gate = gates.File(path)
    gate.write(mark(1), b"old")
    (tmp_path / ".out.html.nightlatch" / "marks").write_text(left)
    with pytest.raises(GateUnreachable, match=r"damaged.*nightlatch gate forget"):
        gate.write(mark(2), b"new")
    assert path.read_bytes() == b"old"


def test_refusals_tell_who_came_when_and_with_what(path):
    gate = gates.File(path)
    gate.seal(mark(2), "ben@two")
    with pytest.raises(StaleToken):
        gate.seal(mark(1), "ann@one\n(pid 7)")
    with pytest.raises(OtherStore):
        gate.write(mark(9, store="6" * 32), b"")
    late, stranger = gate.refusals()
    assert (late.name, late.offered, late.current, late.by) == ("job", 1, 2, "ann@one (pid 7)")
    assert (stranger.offered, stranger.current, stranger.store) == (9, 0, "6" * 32)


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
