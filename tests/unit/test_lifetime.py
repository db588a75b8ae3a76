"""Lifetime locks that killed holders left are removed after a month."""

from __future__ import annotations

import os
from pathlib import Path

from nightlatch.system import lifetime
from nightlatch.system.durable import is_older
from nightlatch.system.lifetime import TREE, Lifetime

MONTH = 30 * 86_400.0


def left(folder: Path) -> set[str]:
    return set(os.listdir(folder / "live"))


def aged(path: str) -> str:
    os.utime(path, (0, 0))
    return os.path.basename(path)


def test_a_file_that_is_removed_while_its_folder_is_listed_is_not_old(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (entry,) = os.scandir(tmp_path)
    os.unlink(entry.path)
    assert not is_older(entry, -60.0)


def test_old_locks_of_holders_that_are_gone_are_removed_and_no_others(tmp_path: Path) -> None:
    lifetime.sweep(str(tmp_path), MONTH)  # there is no such folder yet
    gone, alive, survived, young = (Lifetime(str(tmp_path)) for _ in range(4))
    tree = Lifetime(str(tmp_path))  # stands for the lock that a surviving process of `survived` has
    os.rename(tree.path, survived.path + TREE)
    for one in (gone, survived, young):
        one.close()
    aged(gone.path)
    kept = {
        aged(alive.path),
        aged(survived.path),
        f"{os.path.basename(survived.path)}{TREE}",
        os.path.basename(young.path),
    }
    lifetime.sweep(str(tmp_path), MONTH)
    assert left(tmp_path) == kept
    tree.close()
    lifetime.sweep(str(tmp_path), MONTH)
    assert left(tmp_path) == {os.path.basename(alive.path), os.path.basename(young.path)}
