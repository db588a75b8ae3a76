"""A disk that is not mounted when a gate on it is to be sealed: its mount point is not the target."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.disks import mounting
from tests.support.programs import TOOL, environment, nightlatch, said

# The mount point is a folder, and a tmpfs is the disk: it keeps its content while it is mounted elsewhere.
DISKS = f"""
set -eu
mkdir disk elsewhere
mount -t tmpfs tmpfs disk && mount --bind disk elsewhere
me() {{ {TOOL} "$@"; }}
unmount() {{ umount disk; }}
mount_again() {{ mount --bind elsewhere disk; }}
"""


def with_disks(store: str, folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    alone = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", DISKS + script]
    return subprocess.run(alone, env=environment(store), cwd=folder, text=True, capture_output=True, timeout=120)


@mounting
@pytest.mark.parametrize("target", ["disk/page", "disk/deep/page", "disk/site/"])
def test_a_gate_on_an_unmounted_disk_is_unreachable_and_nothing_is_made_on_its_mount_point(
    sqlite_url, tmp_path, target
):
    source = "site" if target.endswith("/") else "page"
    done = with_disks(sqlite_url, tmp_path, f"""
    echo one > page; mkdir site; echo one > site/page; mkdir disk/deep
    me lock job -- {TOOL} publish {source} {target.rstrip("/")}
    unmount
    me lock job -- true && exit 9; [ $? = 69 ] || exit 8
    me lock job --gate {target} -- true && exit 9; [ $? = 69 ] || exit 8
    [ -z "$(ls -A disk)" ] || exit 7
    mount_again
    me lock job -- true
    """)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    first, *_ = done.stderr.splitlines()
    assert "Mount the disk" in first and "nightlatch gate forget" in first, done.stderr


@mounting
def test_a_disk_unmounted_in_the_middle_of_the_work_is_not_published_to(sqlite_url, tmp_path):
    publish = f"{TOOL} publish page disk/page"
    done = with_disks(sqlite_url, tmp_path, f"""
    echo one > page
    me lock job -- sh -c "{publish}"
    me lock job -- sh -c "umount disk; {publish}" && exit 9; [ $? = 69 ] || exit 8
    [ -z "$(ls -A disk)" ] || exit 7
    """)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_folder_that_was_moved_away_is_unreachable_until_it_is_back_or_forgotten(sqlite_url, tmp_path, kind):
    place, moved = tmp_path / "www", tmp_path / "moved"
    place.mkdir()
    target = str(place / "page") + ("/" if kind == "folder" else "")
    assert nightlatch(sqlite_url, "lock", "job", "--gate", target, "--", "true").returncode == 0
    os.rename(place, moved)
    for again in range(2):  # the second time somebody has made a folder of that name
        refused = said(nightlatch(sqlite_url, "lock", "job", "--gate", target, "--", "true"), 69)
        assert "restore that folder" in refused
        assert not again or not os.listdir(place)
        place.mkdir(exist_ok=True)
    place.rmdir()
    os.rename(moved, place)
    assert nightlatch(sqlite_url, "lock", "job", "--", "true").returncode == 0
    os.rename(place, moved)
    assert nightlatch(sqlite_url, "gate", "forget", target, "--lease", "job").returncode == 0
    assert nightlatch(sqlite_url, "lock", "job", "--gate", target, "--", "true").returncode == 0, "it begins anew"
