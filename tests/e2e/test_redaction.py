"""A secret of the environment is in no record: not in the ledger, not in kept output, not in what other machines see."""

from __future__ import annotations

import base64
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.programs import nightlatch

SECRET = "hunter2-hunter2-hunter2"
SAY = 'import base64, os; k = os.environ["API_KEY"].encode(); print(k.decode()); print(base64.b64encode(b"u:" + k).decode())'
ENV = {"API_KEY": SECRET}
FORMS = [SECRET.encode(), base64.b64encode(b"u:" + SECRET.encode())[4:-4]]


def leaks(data: bytes) -> list[bytes]:
    return [form for form in FORMS if form in data]


def files_below(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def objects_of(repository: Path) -> bytes:
    """All that was ever pushed there."""
    command = ["git", "-C", str(repository), "cat-file", "--batch-all-objects", "--batch", "--buffer"]
    return subprocess.run(command, capture_output=True, check=True).stdout


def test_once_leaves_no_secret_in_the_git_remote_or_in_the_ledger(git_url, tmp_path, state_home):
    words = ("once", "k", "--probe", f"false {SECRET}", "--", "python3", "-c", SAY, SECRET)
    done = nightlatch(git_url, *words, env=ENV)
    assert done.returncode == 0 and "[API_KEY]" in done.stdout
    again = nightlatch(git_url, *words, env=ENV)
    assert again.stdout == done.stdout
    assert b"[API_KEY]" in objects_of(tmp_path / "store.git")
    for data in (done.stdout.encode(), objects_of(tmp_path / "store.git"), files_below(state_home)):
        assert not leaks(data)


@pytest.mark.parametrize(
    "words", [("run", "job", "--"), ("batch", "job", "ITEMS", "--key", "{}", "--")], ids=["run", "batch"]
)
def test_run_and_batch_leave_no_secret_behind(sqlite_url, tmp_path, words):
    (tmp_path / "items").write_text("one\n")
    command = [str(tmp_path / "items") if word == "ITEMS" else word for word in words]
    done = nightlatch(sqlite_url, *command, "python3", "-c", f"{SAY}; raise SystemExit(k.decode())", SECRET, env=ENV)
    assert done.returncode == 1
    assert not leaks((done.stdout + done.stderr).encode())
    assert not leaks(files_below(tmp_path / "state"))
    assert os.path.exists(tmp_path / "state")
