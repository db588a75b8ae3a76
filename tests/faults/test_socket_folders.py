"""A killed supervisor's socket folder is removed, and no other."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from nightlatch.runtime.supervisor.socket import folders
from tests.support.programs import TOOL, nightlatch, start, until

WORK = f'echo "$NIGHTLATCH_SOCKET" > "$1.part"; mv "$1.part" "$1"; until [ -e "$1.go" ]; do sleep 0.02; done; {TOOL} progress 1'


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Its path is short: a socket's address has little room."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)


def test_what_a_killed_supervisor_left_is_removed_and_a_living_one_goes_on(
    sqlite_url: str, tmp_path: Path, runtime: Path
):
    running = [
        start(sqlite_url, "run", name, "--", "sh", "-ec", WORK, "sh", str(tmp_path / name))
        for name in ("dead", "alive")
    ]
    until(lambda: all((tmp_path / name).exists() for name in ("dead", "alive")))
    running[0].kill()
    assert running[0].wait(60) == -signal.SIGKILL
    assert len(os.listdir(runtime)) == 2
    assert nightlatch(sqlite_url, "prune").returncode == 0
    assert os.listdir(runtime) == [Path((tmp_path / "alive").read_text().strip()).parent.name]
    (tmp_path / "alive.go").touch()
    assert running[1].wait(60) == 0, running[1].communicate()
    assert not os.listdir(runtime)


def test_a_folder_that_is_swept_before_it_is_locked_is_made_again(runtime: Path, monkeypatch: pytest.MonkeyPatch):
    real = folders._lock
    swept: list[str] = []

    def late(folder: str, how: int) -> int:
        if not swept:
            swept.append(folder)
            monkeypatch.setattr(folders, "_lock", real)
            folders.sweep()
        return real(folder, how)

    monkeypatch.setattr(folders, "_lock", late)
    folder, fd = folders.make()
    assert swept and folder not in swept and os.path.isdir(folder)
    folders.sweep()
    assert os.path.isdir(folder), "it is locked"
    os.close(fd)
    folders.sweep()
    assert not os.path.exists(folder)


def test_a_listener_of_an_earlier_version_and_files_of_the_command_stay(runtime: Path):
    for number, name in enumerate(("listens", "file")):
        folder = runtime / f"nightlatch-{number:016x}"
        folder.mkdir()
        if name == "file":
            (folder / name).touch()
            continue
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(folder / name))
            listener.listen()
            folders.sweep()
            assert (folder / name).exists()
        folders.sweep()
        assert not folder.exists()
    folders.sweep()
    assert (folder / "file").exists()
