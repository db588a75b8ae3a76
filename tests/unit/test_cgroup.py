"""Machines whose cgroups are of another kind than this one's, as folders. Real ones: tests/faults/test_orphans.py."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from nightlatch.system import cgroup


@pytest.fixture
def mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where cgroup v2 would be mounted, and nothing is yet."""
    monkeypatch.setattr(cgroup, "_MOUNTS", (str(tmp_path / "none"), str(tmp_path)))
    return tmp_path


def mounted(mount: Path) -> Path:
    """The folder of our own cgroup."""
    (path,) = (line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::"))
    own = Path(f"{mount}{path}")
    own.mkdir(parents=True, exist_ok=True)
    (mount / "cgroup.procs").touch()
    return own


def test_without_cgroup_v2_there_is_none(mount):
    assert (cgroup.own(), cgroup.make("x"), cgroup.possible()) == ("", "", False)


def test_a_cgroup_that_cannot_be_killed_in_one_step_is_not_used(mount):
    """Before Linux 5.14; what was made is removed."""
    own = mounted(mount)
    assert cgroup.make("x") == ""
    assert not list(own.glob("nightlatch-*"))


def test_a_cgroup_that_cannot_be_made_is_not_used(mount):
    """Not delegated, read-only, or at its limit; here its name is too long."""
    mounted(mount)
    assert cgroup.make("x" * 300) == ""


def test_a_cgroup_that_is_not_there_proves_nothing_where_cgroups_cannot_be_seen(mount):
    gone = str(mount / "nightlatch-x")
    assert not cgroup.is_empty(gone) and not cgroup.end(gone, 1.0)
    mounted(mount)
    assert cgroup.is_empty(gone), "removed, so it was empty"


def test_a_cgroup_that_does_not_become_empty_is_no_proof(mount):
    folder = mounted(mount) / "nightlatch-x"
    folder.mkdir()
    (folder / "cgroup.events").write_text("populated 1\nfrozen 0\n")
    assert not cgroup.end(str(folder), 0.0)
    (folder / "cgroup.events").write_text("populated 0\nfrozen 0\n")
    assert cgroup.end(str(folder), 0.0)


def test_what_killed_holders_left_is_removed_after_a_day_and_what_is_in_use_or_young_stays(mount):
    own = mounted(mount)
    for name in ("nightlatch-old", "nightlatch-young", "nightlatch-used", "other"):
        (own / name).mkdir()
        if name != "nightlatch-young":
            os.utime(own / name, (0, time.time() - 90_000))
    (own / "nightlatch-used" / "process").touch()
    os.utime(own / "nightlatch-used", (0, time.time() - 90_000))
    cgroup.sweep(86_400)
    assert sorted(path.name for path in own.iterdir() if path.is_dir()) == [
        "nightlatch-used",
        "nightlatch-young",
        "other",
    ]
