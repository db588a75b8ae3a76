"""Links that a command leaves where its result is looked for: what they lead to outside is not published."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from nightlatch import gates
from nightlatch.errors import UsageError
from nightlatch.system import fingerprint, open_beneath, treecopy
from tests.support.marks import mark
from tests.support.programs import TOOL, nightlatch
from tests.support.workspaces import run


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "key").write_text("secret")
    return tmp_path / "home"


LEFT = {
    "a link": ("ln -s $1/key page", "page"),
    "a link to a link": ("ln -s $1 a; ln -s a/key page", "page"),
    "a way up": ("ln -s $(realpath --relative-to=. $1)/key page", "page"),
    "a folder": ("ln -s $1 sub", "sub/key"),
    "a whole folder": ("ln -s $1 site", "site/"),
}


@pytest.mark.parametrize("left", LEFT)
def test_a_link_that_leads_out_of_the_workspace_is_not_published(sqlite_url, tmp_path, secret, left):
    script, source = LEFT[left]
    publish = ("--workspace", "scratch", "--publish", f"{source}={tmp_path}/out")
    done = run(sqlite_url, *publish, command=script.replace("$1", str(secret)))
    assert done.returncode == 1 and "leads out" in done.stderr, done.stderr
    assert not os.path.lexists(tmp_path / "out")


def test_an_item_of_a_batch_publishes_no_link_that_leads_out(sqlite_url, tmp_path, secret):
    (tmp_path / "items").write_text(json.dumps({"slug": "a"}) + "\n")
    publish = ("--key", "{slug}", "--publish", f"page={tmp_path}/{{slug}}")
    words = ("batch", "b", str(tmp_path / "items"), *publish, "--", "ln", "-s", f"{secret}/key", "page")
    assert nightlatch(sqlite_url, *words).returncode == 1
    assert not os.path.lexists(tmp_path / "a")


def test_a_publish_in_a_workspace_follows_no_link_that_leads_out(sqlite_url, tmp_path, secret):
    script = f"""
    ln -s {secret}/key page; {TOOL} publish page {tmp_path}/out; echo $?
    ln -s {secret} site; {TOOL} publish ./site {tmp_path}/out; echo $?
    mkdir sub; echo ours > sub/file; ln -s sub/file inside; {TOOL} publish inside {tmp_path}/out; echo $?
    """
    done = run(sqlite_url, "--workspace", "scratch", command=script)
    assert done.stdout.split() == ["64", "64", "0"], done.stderr
    assert (tmp_path / "out").read_text() == "ours\n" and "leads out" in done.stderr


def test_a_link_that_stays_in_the_workspace_is_followed(sqlite_url, tmp_path):
    script = "mkdir a b; echo 1 > b/page; ln -s ../b a/c; ln -s a/c/page latest"
    done = run(sqlite_url, "--workspace", "scratch", "--publish", f"latest={tmp_path}/out", command=script)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out").read_text() == "1\n"


def test_a_part_that_becomes_a_link_while_it_is_opened_is_not_followed(tmp_path, secret, monkeypatch):
    (tmp_path / "work" / "sub").mkdir(parents=True)
    (tmp_path / "work" / "sub" / "key").write_text("ours")
    link = open_beneath._link

    def swapped(name: str, folder: int) -> str | None:
        found = link(name, folder)
        if name == "sub":
            os.rename(tmp_path / "work" / "sub", tmp_path / "work" / "old")
            os.symlink(secret, tmp_path / "work" / "sub")
        return found

    monkeypatch.setattr(open_beneath, "_link", swapped)
    with pytest.raises(OSError, match="sub"):
        open_beneath.open_beneath(str(tmp_path / "work"), "sub/key")


@pytest.mark.parametrize("read", [fingerprint.of, lambda path: treecopy.copy(path, f"{path}.copy")])
@pytest.mark.parametrize("what", ["inner", "inner/page"])
def test_what_becomes_a_link_inside_a_folder_while_it_is_read_is_not_followed(
    tmp_path, secret, monkeypatch, read, what
):
    made = tmp_path / "made"
    (made / "inner").mkdir(parents=True)
    (made / "inner" / "page").write_text("ours")
    (secret / "page").write_text("secret")
    opening = os.open

    def swapped(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if dir_fd is not None and path == os.path.basename(what):
            os.rename(made / what, tmp_path / "old")
            os.symlink(secret / "page" if path == "page" else secret, made / what)
        return opening(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", swapped)
    with pytest.raises((OSError, UsageError)):
        read(str(made))


def test_an_open_file_and_an_open_folder_are_published_from_their_beginning(tmp_path):
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "page").write_text("page")
    with open(tmp_path / "made" / "page") as page:
        page.read()
        gates.File(tmp_path / "out").publish(mark(1), page.fileno())
    fd = os.open(tmp_path / "made", os.O_RDONLY)
    try:
        gates.Folder(tmp_path / "site").publish(mark(1), fd)
    finally:
        os.close(fd)
    assert (tmp_path / "out").read_text() == (tmp_path / "site" / "page").read_text() == "page"
