"""What a gate remembers of the writes it let land: whose they were, and the sha256 of each."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nightlatch import gates
from nightlatch.core import fence
from nightlatch.gates.file import File
from nightlatch.system import durable
from tests.support.marks import mark
from tests.support.servers import s3

Known = list[tuple[str, int, str]]


def known(gate: File | gates.Folder | gates.Object) -> Known:
    return [(landing.mark.name, landing.mark.token, landing.digest) for landing in gate.landings()]


@pytest.fixture
def new(tmp_path: Path) -> Path:
    (tmp_path / "new").write_text("new")
    return tmp_path / "new"


def test_a_file_remembers_who_wrote_what_the_newest_last(path, new):
    gates.File(path).publish(mark(1), new, digest="aa")
    gates.File(path).write(mark(2), b"two")
    gates.File(path).publish(mark(1, "other"), new, digest="bb")
    gates.File(path).publish(mark(2), new, digest="cc")
    assert known(gates.File(path)) == [("job", 1, "aa"), ("job", 2, ""), ("other", 1, "bb"), ("job", 2, "cc")]


def test_of_one_token_the_last_write_is_remembered_and_costs_no_flush(path, new, monkeypatch):
    gate = gates.File(path)
    gate.publish(mark(1), new, digest="aa")
    flushed: list[int] = []
    monkeypatch.setattr(durable, "fsync", flushed.append)
    gate.publish(mark(1), new, digest="bb")
    assert len(flushed) == 2, "the new file, and the folder it is in"
    assert known(gate) == [("job", 1, "bb")]


def test_a_write_that_was_killed_before_its_rename_did_not_land(path, new, monkeypatch):
    gate = gates.File(path)
    gate.publish(mark(1), new, digest="aa")
    gate.seal(mark(2), "me")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        gate.publish(mark(2), new, digest="bb")
    monkeypatch.undo()
    assert known(gate) == [("job", 1, "aa")]
    gate.write(mark(3), b"three")
    assert [token for _, token, _ in known(gate)] == [1, 3]


def test_what_landed_is_bounded_and_survives_an_adoption(path):
    gate = gates.File(path)
    for token in range(1, fence.LANDINGS + 5):
        gate.write(mark(token), str(token))
    gate.adopt("6" * 32)
    assert [token for _, token, _ in known(gate)] == list(range(5, fence.LANDINGS + 5))
    assert {landing.mark.store for landing in gate.landings()} == {"6" * 32}


@pytest.fixture
def sources(tmp_path: Path) -> Callable[[str], Path]:
    def made(content: str) -> Path:
        folder = tmp_path / "sources" / content
        folder.mkdir(parents=True)
        (folder / "page").write_text(content)
        return folder

    return made


def test_a_folder_remembers_its_switches(tmp_path, sources):
    gate = gates.Folder(tmp_path / "site")
    one = gate.publish(mark(1), sources("one"), digest="aa")
    gate.publish(mark(2), sources("two"), digest="bb")
    gates.File(tmp_path / "site").seal(mark(3), "a holder that did not know it for a folder")
    assert gate.rollback(mark(3)) == one
    assert known(gate) == [("job", 1, "aa"), ("job", 2, "bb"), ("job", 3, fence.BACK)]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3.server() as url:
        yield url


def test_an_object_remembers_its_switches(endpoint, new):
    gate = gates.Object(f"s3://bucket/landings?endpoint={endpoint}")
    gate.publish(mark(1), new, digest="aa")
    gate.write(mark(2), b"two")
    gate.rollback(mark(3))
    assert known(gate) == [("job", 1, "aa"), ("job", 2, ""), ("job", 3, fence.BACK)]
