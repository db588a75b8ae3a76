"""A store in a file that was there and is gone, or that has another name."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from nightlatch import connect
from nightlatch.errors import StoreUnreachable
from nightlatch.system import identity
from tests.support.disks import mounting
from tests.support.programs import TOOL, environment, nightlatch, said


def test_a_store_whose_file_is_gone_is_not_made_anew_silently(sqlite_url, tmp_path):
    file = tmp_path / "state" / "nightlatch.db"
    assert nightlatch(sqlite_url, "run", "job", "--key", "k", "--timeout", "1h", "--", "true").returncode == 0
    kept = file.read_bytes(), Path(f"{file}-wal").read_bytes()
    for each in file.parent.glob("nightlatch.db*"):
        if each.is_file() and each.suffix != ".queue":
            each.unlink()
    for words in (
        ("lock", "job", "--", "true"),
        ("run", "job", "--key", "k", "--timeout", "1h", "--", "true"),
        ("lease", "list"),
    ):
        line = said(nightlatch(sqlite_url, *words), 69)
        assert "restore its file" in line and f"nightlatch migrate --new --store {sqlite_url}" in line
    assert not file.exists()
    assert "was here before" in nightlatch(sqlite_url, "doctor").stdout

    file.write_bytes(kept[0])
    Path(f"{file}-wal").write_bytes(kept[1])
    assert "skipped" in nightlatch(sqlite_url, "run", "job", "--key", "k", "--timeout", "1h", "--", "true").stderr

    file.unlink()
    assert nightlatch(sqlite_url, "migrate", "--new").returncode == 0
    assert nightlatch(sqlite_url, "lock", "job", "--", "true").returncode == 0


def test_a_ledger_whose_file_is_gone_is_not_made_anew_silently(sqlite_url, tmp_path):
    """An empty one would not know that an effect is in doubt."""
    ledger, acts, away = tmp_path / "state" / "nightlatch-ledger.db", tmp_path / "acts", tmp_path / "away"
    act = ("once", "mail/1", "--", "sh", "-c", f"echo sent >> {acts}; kill -9 $$")
    assert nightlatch(sqlite_url, *act).returncode == 76
    away.mkdir()
    for file in ledger.parent.glob(f"{ledger.name}*"):
        if not file.name.endswith(".queue"):
            file.rename(away / file.name)
    for words in (act, ("run", "job", "--key", "k", "--", "true"), ("status",)):
        assert f"the ledger {ledger} is gone" in said(nightlatch(sqlite_url, *words), 69)
    assert acts.read_text() == "sent\n" and not ledger.exists()
    for file in away.iterdir():
        file.rename(ledger.parent / file.name)
    assert nightlatch(sqlite_url, *act).returncode == 76 and acts.read_text() == "sent\n"
    ledger.unlink()
    assert nightlatch(sqlite_url, "migrate", "--new").returncode == 0
    assert nightlatch(sqlite_url, *act).returncode == 76 and acts.read_text() == "sent\nsent\n", "a person said so"


def test_after_its_whole_folder_is_deleted_a_store_begins_anew(sqlite_url, tmp_path):
    assert nightlatch(sqlite_url, "lock", "job", "--", "true").returncode == 0
    shutil.rmtree(tmp_path / "state")
    assert nightlatch(sqlite_url, "lock", "job", "--", "true").returncode == 0


def test_a_holder_whose_stores_folder_is_moved_away_uses_neither_that_one_nor_a_new_one(sqlite_url, tmp_path):
    folder, away = tmp_path / "state", tmp_path / "away"
    store, grant = connect(sqlite_url), identity.new_id()
    store.acquire("job", grant, identity.holder(pid=0), 60.0)
    folder.rename(away)
    with pytest.raises(StoreUnreachable, match="is gone: it was here before"):
        store.renew("job", grant, 60.0)
    assert not folder.exists()
    assert nightlatch(sqlite_url, "lock", "job", "--", "true").returncode == 0  # this process knows of no other store
    with pytest.raises(StoreUnreachable, match="is not the same as before"):
        store.renew("job", grant, 60.0)
    shutil.rmtree(folder)
    away.rename(folder)
    store.renew("job", grant, 60.0)


@mounting
def test_no_store_is_made_on_the_bare_mount_point_of_its_disk(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    script = f"""
        mount -t tmpfs tmpfs {place} || exit 99
        {TOOL} lock job -- true || exit 98
        mount -t tmpfs tmpfs {place}  # as if the disk were away: it is below
        {TOOL} lock job -- true 2> {tmp_path}/away; echo $? > {tmp_path}/code
        ls {place} > {tmp_path}/made
        umount {place}
        {TOOL} lock job -- true || exit 97
        umount {place}
        {TOOL} migrate --new && {TOOL} lock job -- true || exit 96
        mount -t tmpfs tmpfs {place}
        {TOOL} lock job -- true || exit 95
    """
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script],
        env=environment(f"sqlite:///{place}/nightlatch.db", XDG_STATE_HOME=str(tmp_path / "home")),
        text=True, capture_output=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "code").read_text() == "69\n"
    assert "Mount its disk" in (tmp_path / "away").read_text()
    assert "nightlatch.db" not in (tmp_path / "made").read_text().split()


def test_a_link_to_a_store_is_the_store(tmp_path):
    """By either name: the same id, the same lease, locks and log beside the real file."""
    (tmp_path / "real").mkdir()
    (tmp_path / "names").mkdir()
    (tmp_path / "big").mkdir()
    link = tmp_path / "names" / "link.db"
    (tmp_path / "real" / "store-ledger.db").symlink_to(tmp_path / "big" / "ledger.db")
    link.symlink_to(tmp_path / "real" / "store.db")
    real, by_link = f"sqlite:///{tmp_path}/real/store.db", f"sqlite:///{link}"
    assert nightlatch(by_link, "run", "job", "--key", "k", "--timeout", "1h", "--", "true").returncode == 0
    assert "skipped" in nightlatch(real, "run", "job", "--key", "k", "--timeout", "1h", "--", "true").stderr
    inside = f"{TOOL} --store {real} lock job -- true; test $? = 75"
    assert nightlatch(by_link, "lock", "job", "--", "sh", "-c", inside, env={"NIGHTLATCH_LEASES": ""}).returncode == 0
    assert nightlatch(by_link, "doctor").returncode == 0
    assert os.listdir(tmp_path / "names") == ["link.db"]
