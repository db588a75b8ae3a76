"""The file gate: what lands, what is kept, what is refused, and in which order things become durable."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

import nightlatch
from nightlatch import gates
from nightlatch.errors import GateUnreachable, LeaseLost, OtherStore, StaleToken, UsageError
from nightlatch.gates import address
from nightlatch.system import durable
from tests.support.files import mode
from tests.support.marks import mark


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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
def test_a_file_that_changes_hands_loses_set_user_id(open_folder):
    open_folder.chmod(0o777)
    path = open_folder / "tool"
    path.write_bytes(b"old")
    path.chmod(0o4755)
    program = (
        "import os, sys\nfrom nightlatch import gates\nfrom nightlatch.core.model import Mark\n"
        "gates.File\nos.setgid(12345); os.setuid(12345)\n"
        "gates.File(sys.argv[1]).write(Mark(store='s', name='n', token=1, grant='g'), b'new')"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=True)
    assert (path.read_bytes(), path.stat().st_uid, mode(path)) == (b"new", 12345, 0o755)


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
    left = [name.partition(".")[0] for name in os.listdir(tmp_path / ".out.html.nightlatch")]
    assert sorted(left) == ["landing", "lock", "marks"]


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


@pytest.mark.parametrize("name", ["a b", "ü%20?#", "new\nline", "a\udcffb"])
def test_any_path_survives_its_url(tmp_path, name):
    gate = gates.File(tmp_path / name)
    again = gates.open(gate.url)
    assert isinstance(again, gates.File)
    assert again.path == gate.path == os.path.realpath(tmp_path / name)
    assert gate.url.isascii() and gate.url.isprintable()


@pytest.mark.parametrize("known", [True, False], ids=["the link's target has a mark", "it has none"])
def test_a_file_that_became_a_link_is_sealed_where_its_old_holder_writes(tmp_path, sqlite_url, known):
    gate, other = gates.File(tmp_path / "page"), gates.File(tmp_path / "other")
    with nightlatch.lease("job", store=sqlite_url, gates=[gate, other] if known else [gate]) as lease:
        gate.write(lease, b"old")
        old = lease.mark
    (tmp_path / "page").unlink()
    (tmp_path / "page").symlink_to("other")
    with nightlatch.lease("job", store=sqlite_url) as lease:
        with pytest.raises(StaleToken):
            gate.write(old, b"stale")
        gates.at(tmp_path / "page").write(lease, b"new")  # type: ignore[attr-defined]
    assert (tmp_path / "page").is_symlink() and (tmp_path / "other").read_bytes() == b"new"


def test_a_url_that_a_person_names_is_followed_like_a_path(tmp_path):
    (tmp_path / "link").symlink_to("page")
    assert gates.at(f"file://{tmp_path}/link").url == gates.File(tmp_path / "page").url


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
