"""The folder gate: releases, the switch, what is kept, the way back."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from nightlatch import gates
from nightlatch.errors import StaleToken, UsageError
from nightlatch.system import durable, treecopy
from tests.support.marks import mark


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return tmp_path / "site"


def source(tmp_path: Path, content: str) -> Path:
    made = tmp_path / "sources" / content
    (made / "inner").mkdir(parents=True)
    (made / "page").write_text(content)
    (made / "inner" / "page").write_text(content)
    return made


def releases(site: Path) -> list[str]:
    return sorted(os.listdir(f"{site}.releases"), key=lambda name: int(name.rpartition("-")[2]))


def test_a_tree_is_copied_as_it_is(site, tmp_path):
    made = source(tmp_path, "one")
    (made / "run").write_text("#!/bin/sh\n")
    (made / "run").chmod(0o755)
    (made / "link").symlink_to("inner/page")
    (made / "broken").symlink_to("/nowhere")
    (made / "inner").chmod(0o555)
    os.utime(made / "page", ns=(10**18, 10**18))
    os.utime(made / "inner", ns=(10**18, 10**18))
    gates.Folder(site).publish(mark(1), made)
    assert site.is_symlink()
    assert (site / "inner" / "page").read_text() == "one"
    assert os.readlink(site / "link") == "inner/page"
    assert os.readlink(site / "broken") == "/nowhere"
    assert stat.S_IMODE((site / "run").stat().st_mode) == 0o755
    assert stat.S_IMODE((site / "inner").stat().st_mode) == 0o555
    assert (site / "page").stat().st_mtime_ns == (site / "inner").stat().st_mtime_ns == 10**18


def test_modes_are_kept_under_the_umask(site, tmp_path):
    made = source(tmp_path, "one")
    made.chmod(0o777)
    (made / "page").chmod(0o666)
    umask = os.umask(0o027)
    try:
        gates.Folder(site).publish(mark(1), made)
    finally:
        os.umask(umask)
    assert stat.S_IMODE(site.stat().st_mode) == 0o750
    assert stat.S_IMODE((site / "page").stat().st_mode) == 0o640


def test_the_link_survives_a_move_of_the_folder_above(site, tmp_path):
    inner = tmp_path / "www"
    inner.mkdir()
    gates.Folder(inner / "site").publish(mark(1), source(tmp_path, "one"))
    inner.rename(tmp_path / "moved")
    assert (tmp_path / "moved" / "site" / "page").read_text() == "one"


def test_the_newest_releases_stay(site, tmp_path):
    gate = gates.Folder(site, keep=2)
    for number, content in enumerate(["one", "two", "three", "four"]):
        gate.publish(mark(10 + number), source(tmp_path, content))
    assert releases(site) == ["12-3", "13-4"]
    assert (site / "page").read_text() == "four"


def test_a_rollback_goes_back_one_by_one_and_the_next_publish_goes_on(site, tmp_path):
    gate = gates.Folder(site)
    for content in ("one", "two", "three"):
        gate.publish(mark(1), source(tmp_path, content))
    assert gate.rollback(mark(1)) == "1-2"
    assert gate.rollback(mark(1)) == "1-1"
    assert (site / "page").read_text() == "one"
    with pytest.raises(UsageError, match="no release before"):
        gate.rollback(mark(1))
    gate.publish(mark(1), source(tmp_path, "four"))
    assert (site / "page").read_text() == "four"
    gate.rollback(mark(1))
    assert (site / "page").read_text() == "one", "the ones between were rejected"


@pytest.mark.parametrize("keep", [2, 5])
def test_a_rollback_never_returns_to_a_release_that_was_rejected(site, tmp_path, keep):
    gate = gates.Folder(site, keep=keep)
    one = gate.publish(mark(1), source(tmp_path, "one"))
    gate.publish(mark(2), source(tmp_path, "two"))
    gate.rollback(mark(3))
    gate.publish(mark(4), source(tmp_path, "three"))
    assert gates.Folder(site).rollback(mark(5)) == one
    assert (site / "page").read_text() == "one"
    with pytest.raises(UsageError, match="no release before"):
        gate.rollback(mark(6))


def test_what_was_rolled_back_to_is_not_dropped_while_it_is_shown(site, tmp_path):
    gate = gates.Folder(site, keep=1)
    gate.publish(mark(1), source(tmp_path, "one"))
    gates.Folder(site, keep=5).publish(mark(1), source(tmp_path, "two"))
    gate.rollback(mark(1))
    assert (site / "page").read_text() == "one"
    gate.publish(mark(1), source(tmp_path, "three"))
    assert (site / "page").read_text() == "three"
    assert releases(site) == ["1-3"]


def test_a_stale_rollback_is_refused(site, tmp_path):
    gate = gates.Folder(site)
    for content in ("one", "two"):
        gate.publish(mark(1), source(tmp_path, content))
    gate.seal(mark(2), "new")
    with pytest.raises(StaleToken):
        gate.rollback(mark(1))
    assert (site / "page").read_text() == "two"


def test_a_refused_publish_leaves_no_copy(site, tmp_path):
    gate = gates.Folder(site)
    gate.publish(mark(2), source(tmp_path, "new"))
    with pytest.raises(StaleToken):
        gate.publish(mark(1), source(tmp_path, "old"))
    assert releases(site) == ["2-1"]


def test_a_release_whose_publisher_died_before_the_switch_is_never_gone_back_to(site, tmp_path, monkeypatch):
    gate = gates.Folder(site)
    gate.publish(mark(1), source(tmp_path, "one"))
    with monkeypatch.context() as patched:
        patched.setattr(gate, "_switch", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            gate.publish(mark(1), source(tmp_path, "never live"))
    assert releases(site) == ["1-1", "1-2"]
    assert (site / "page").read_text() == "one"
    gates.Folder(site).publish(mark(2), source(tmp_path, "two"))
    assert releases(site) == ["1-1", "2-2"]
    gate.rollback(mark(2))
    assert (site / "page").read_text() == "one"


def test_everything_is_flushed_before_the_switch(site, tmp_path, monkeypatch):
    gate = gates.Folder(site)
    gate.seal(mark(1), "me")
    flushed: list[str] = []
    before: list[str] = []
    fsync, switch = durable.fsync, gate._switch

    def flush(fd: int) -> None:
        flushed.append(os.readlink(f"/proc/self/fd/{fd}"))
        fsync(fd)

    def switched(link: str) -> None:
        before.extend(flushed)
        switch(link)

    monkeypatch.setattr(durable, "fsync", flush)
    monkeypatch.setattr(gate, "_switch", switched)
    gate.publish(mark(1), source(tmp_path, "one"))
    copied = [Path(path).relative_to(f"{site}.releases").parts[1:] for path in before if path.startswith(f"{site}.rel")]
    assert {("page",), ("inner", "page"), ("inner",), ()} <= set(copied)


def test_a_plain_folder_is_refused_with_what_to_do_or_adopted(site, tmp_path):
    site.mkdir()
    (site / "page").write_text("by hand")
    gate = gates.Folder(site)
    with pytest.raises(UsageError, match="--adopt"):
        gate.publish(mark(1), source(tmp_path, "one"))
    assert (site / "page").read_text() == "by hand"
    gate.publish(mark(1), source(tmp_path, "two"), adopt=True)
    assert (site / "page").read_text() == "two"
    gate.rollback(mark(1))
    assert (site / "page").read_text() == "by hand"


def test_a_stale_holder_adopts_nothing(site, tmp_path):
    site.mkdir()
    gate = gates.Folder(site)
    gate.seal(mark(2), "new")
    with pytest.raises(StaleToken):
        gate.publish(mark(1), source(tmp_path, "one"), adopt=True)
    assert site.is_dir() and not site.is_symlink()


def test_what_is_not_ours_is_left_alone(site, tmp_path):
    made = source(tmp_path, "one")
    site.write_text("a file")
    with pytest.raises(UsageError, match="is a file"):
        gates.Folder(site).publish(mark(1), made)
    site.unlink()
    site.symlink_to(made)
    with pytest.raises(UsageError, match="did not make"):
        gates.Folder(site).publish(mark(1), made)
    assert os.readlink(site) == str(made)


def test_a_source_that_cannot_be_published_is_said(site, tmp_path, monkeypatch):
    made = source(tmp_path, "one")
    with pytest.raises(UsageError, match="is inside"):
        gates.Folder(made / "site").publish(mark(1), made)
    with pytest.raises(UsageError, match="not a folder"):
        gates.Folder(site).publish(mark(1), made / "page")
    with socket.socket(socket.AF_UNIX) as here:
        monkeypatch.chdir(made)
        here.bind("socket")
        with pytest.raises(UsageError, match="neither file, folder nor link"):
            gates.Folder(site).publish(mark(1), made)
    assert os.listdir(f"{site}.releases") == []


def test_a_file_gate_of_the_same_path_has_the_same_marks(site, tmp_path):
    """`lock --gate site` may not know yet that a folder is going to be published there."""
    gates.File(site).seal(mark(2), "new")
    with pytest.raises(StaleToken):
        gates.Folder(site).publish(mark(1), source(tmp_path, "one"))
    assert isinstance(gates.at(str(site)), gates.File)
    gates.Folder(site).publish(mark(2), source(tmp_path, "two"))
    assert isinstance(gates.at(str(site)), gates.Folder)
    assert isinstance(gates.at(f"{tmp_path}/new/"), gates.Folder)


def test_a_tree_that_may_not_be_written_is_removed_all_the_same(tmp_path):
    made = source(tmp_path, "one")
    (made / "inner").chmod(0o000)
    made.chmod(0o500)
    treecopy.remove(str(made))
    assert not made.exists()
    treecopy.remove(str(made))
