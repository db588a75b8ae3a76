"""A command that a message says to type is about the store that the user named."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.support.programs import nightlatch


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Named by --store alone, and with a blank in its path."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state home"))
    return f"sqlite:///{tmp_path}/my store.db"


def test_every_command_that_is_printed_carries_the_store_that_was_given(store: str, tmp_path: Path) -> None:
    (tmp_path / "items").write_text("one\ntwo\n")
    kill = ("--", "sh", "-c", "kill -9 $PPID; kill -9 $$")
    nightlatch("", "run", "lost", "--key", "k", "--store", store, *kill, env={"NIGHTLATCH_STORE": ""})
    batch = ("batch", "b", str(tmp_path / "items"), "--key", "{}", "--lost", "doubt", "--", "sh", "-c", "kill -9 $$")
    nightlatch("", "lease", "acquire", "held", "--store", store, env={"NIGHTLATCH_STORE": ""})
    seen = 0
    for words in (
        ("run", "lost", "--key", "k", "--", "true"),
        ("run", "held", "--", "true"),
        ("lock", "held", "--", "true"),
        ("lease", "show", "none"),
        ("once", "post", "--", "false"),
        ("once", "post", "--", "true"),
        batch,
        ("resolve", "post"),
        ("retry", "nothing"),
        ("status",),
        ("run", "again", "--key", "k", "--", "false"),
        ("runs",),
    ):
        done = nightlatch("", "--store", store, *words, env={"NIGHTLATCH_STORE": ""})
        for text in (done.stdout, done.stderr):
            for found in re.finditer(
                r"nightlatch (?!--help)(?=[-a-z…])[^\n]*", text.replace("`nightlatch --help`", "")
            ):
                seen += 1
                assert shlex.quote(store) in found[0], (words, found[0])
    assert seen > 12


def test_a_password_is_not_printed_with_it(tmp_path: Path) -> None:
    done = nightlatch("", "lease", "list", "--store", "postgresql://me:s3cret@127.0.0.1:1/db?password=s3cret")
    assert done.returncode == 69 and "s3cret" not in done.stderr
