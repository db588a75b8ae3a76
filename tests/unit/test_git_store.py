"""The parts of a git store that need no remote."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightlatch.core.model import Done
from nightlatch.core.row import Cursor
from nightlatch.core.value import replace
from nightlatch.errors import UsageError
from nightlatch.store import url
from nightlatch.store.git import done as keys
from nightlatch.store.git import names, record
from nightlatch.store.git.objects import NewObjects, read_tree
from nightlatch.store.git.remote import resolve
from nightlatch.system import program
from tests.support import programs

LEASE_NAMES = st.text("abcZ019._-/#:@+=,", min_size=1, max_size=200)


@given(LEASE_NAMES)
def test_a_name_comes_back_from_its_ref(name: str) -> None:
    assert names.lease_name(names.lease(name)) == name


@given(st.lists(LEASE_NAMES, min_size=2, max_size=2, unique=True))
def test_two_names_are_never_one_ref_nor_one_inside_the_other(two: list[str]) -> None:
    one, other = (names.lease(name).lower() for name in two)
    assert one != other
    assert not other.startswith(one + "/") and not one.startswith(other + "/")


@settings(max_examples=15)
@given(LEASE_NAMES)
def test_git_takes_every_ref(name: str) -> None:
    ref = names.lease(name)
    assert subprocess.run(["git", "check-ref-format", ref]).returncode == 0
    assert all(len(part) <= 250 for part in ref.split("/"))


@pytest.mark.parametrize(
    ("given", "branch"),
    [("main", "main"), ("refs/heads/main", "main"), ("heads/a/b", "a/b"), ("v1.2_x-ü", "v1.2_x-ü"), ("a@b", "a@b")],
)
def test_a_branch_is_named_as_git_names_it(given: str, branch: str) -> None:
    assert names.branch(given) == branch


@pytest.mark.parametrize("given", ["HEAD:main", ":main", "+main", "a:b"])
def test_a_refspec_is_refused_with_what_to_type(given: str) -> None:
    with pytest.raises(UsageError, match="Name the branch alone"):
        names.branch(given)


@pytest.mark.parametrize(
    "given", ["", "-x", "refs/heads/", "a//b", "a/", "/a", ".a", "a/.b", "a.lock/b", "a..b", "a b"]
)
def test_what_git_takes_for_no_branch_is_refused(given: str) -> None:
    assert subprocess.run(["git", "check-ref-format", "--branch", given], capture_output=True).returncode
    with pytest.raises(UsageError, match="not a valid branch name"):
        names.branch(given)


@pytest.mark.parametrize("given", ["HEAD", "@", "refs/heads/HEAD", "refs/tags/x", "refs/x"])
def test_what_only_looks_like_a_branch_is_refused(given: str) -> None:
    with pytest.raises(UsageError, match="not a valid branch name"):
        names.branch(given)


@given(st.text("aZ./@{~^-\\ +*", min_size=1, max_size=6))
@settings(max_examples=25)
def test_a_branch_that_is_taken_is_one_to_git(text: str) -> None:
    try:
        name = names.branch(text)
    except UsageError:
        return
    assert subprocess.run(["git", "check-ref-format", "--branch", name], capture_output=True).returncode == 0


@given(st.text())
def test_any_text_is_one_line(text: str) -> None:
    line = record.escape(text)
    assert record.unescape(line) == text
    assert not set("\n\t\r") & set(line)


@given(st.text(), st.integers(0, 2**42), st.text(st.characters(codec="utf-8")))
def test_a_row_comes_back_from_its_message(job: str, due: int, body: str) -> None:
    row = Cursor(job=job, id="move", slot=due / 1000, wake=due / 2000, body=body)
    again = record.read_row(record.row_message(row))
    assert replace(again, wake=row.wake) == row and abs(again.wake - row.wake) <= 0.001


class Bench:
    """Objects without a repository, read as `Repository.read` reads them."""

    def __init__(self) -> None:
        self.new_objects, self.tree = NewObjects(), ""

    def read(self, *paths: str) -> list[tuple[str, str, bytes] | None]:
        return [self._at([part for part in path.partition(":")[2].split("/") if part]) for path in paths]

    def _at(self, path: list[str]) -> tuple[str, str, bytes] | None:
        oid = self.tree
        for part in path:
            kind, content = self.new_objects._objects[oid]
            if kind != "tree" or part not in (entries := read_tree(content)):
                return None
            oid = entries[part][1]
        return oid, *self.new_objects._objects[oid]

    def settle(self, number: int) -> int:
        """Returns how many bytes of objects the new key took."""
        place = keys.KeyPlace("scope", str(number))
        done = Done(scope="scope", key=str(number), value="v" * 40, input="i", token=number, at=1.0)
        before = set(self.new_objects._objects)
        self.tree = place.key_tree(self, self.tree, 1.0).add(done, self.new_objects)  # type: ignore[arg-type]
        return sum(len(self.new_objects._objects[oid][1]) for oid in set(self.new_objects._objects) - before)

    def find(self, number: int) -> Done | None:
        return keys.KeyPlace("scope", str(number)).key_tree(self, self.tree, 1.0).find()  # type: ignore[arg-type]


def test_every_done_key_is_found_again_and_objects_stay_small() -> None:
    bench = Bench()
    sizes = [bench.settle(number) for number in range(3000)]
    assert all((found := bench.find(number)) and found.token == number for number in range(3000))
    assert bench.find(3000) is None
    assert max(sizes) < 2 * keys.FULL
    assert any(len(read_tree(content)) > 1 for kind, content in bench.new_objects._objects.values() if kind == "tree")


def test_a_value_bigger_than_a_blob_may_be_is_kept() -> None:
    bench = Bench()
    for number in range(40):
        place = keys.KeyPlace("scope", str(number))
        done = Done(scope="scope", key=str(number), value="x" * 2 * keys.FULL, input="", token=1, at=1.0)
        bench.tree = place.key_tree(bench, bench.tree, 1.0).add(done, bench.new_objects)  # type: ignore[arg-type]
    assert all(bench.find(number) for number in range(40))


# Which remote


def test_the_remote_of_the_repository_in_this_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path / "work"], check=True)
    subprocess.run(["git", "-C", tmp_path / "work", "remote", "add", "origin", "../store.git"], check=True)
    (tmp_path / "work" / "below").mkdir()
    monkeypatch.chdir(tmp_path / "work" / "below")
    found = resolve("git+origin")
    assert found.url == f"file://{tmp_path}/store.git"
    assert found.config == f"{tmp_path}/work/.git/config"
    assert url.connect("git+origin").url == f"git+file://{tmp_path}/store.git"
    assert url.connect("git+origin").folder == url.connect(f"git+file://{tmp_path}/store.git").folder


@pytest.mark.parametrize("where", ["https://h/p", "ssh://u@h/p", "http://h/p", "file:///p", "git@h:p/q.git"])
def test_what_git_takes_is_taken(where: str) -> None:
    assert resolve(f"git+{where}").url == where


@pytest.mark.parametrize("where", ["", "ftp://h/p", "file://p", "https://", "ext::sh -c id", "-x", "a b"])
def test_what_names_no_remote_is_refused_with_what_to_type(where: str) -> None:
    with pytest.raises(UsageError, match=r"git\+https://host/path"):
        resolve(f"git+{where}")


def test_a_folder_in_no_repository_and_a_remote_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="is not in one"):
        resolve("git+origin")
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    with pytest.raises(UsageError, match="git remote add origin URL"):
        resolve("git+origin")


# RunningProgram a program


def test_a_program_gets_its_input_and_gives_its_output() -> None:
    much = os.urandom(300_000)
    assert program.run(["cat"], env=dict(os.environ), stdin=much, timeout=20) == (0, much, b"")
    script = ["sh", "-c", "echo out; echo err >&2; exit 3"]
    assert program.run(script, env=dict(os.environ), timeout=20) == (3, b"out\n", b"err\n")


def test_a_program_that_hangs_is_ended_with_all_it_started(tmp_path: Path) -> None:
    script = f"sleep 600 & echo $! > {tmp_path}/child; trap '' TERM; sleep 600"
    with pytest.raises(program.Unfinished):
        program.run(["sh", "-c", script], env=dict(os.environ), timeout=2)
    assert not programs.alive(int((tmp_path / "child").read_text()))


def test_what_a_program_leaves_in_the_background_holds_up_nobody() -> None:
    code, out, _ = program.run(["sh", "-c", "sleep 600 & echo $!"], env=dict(os.environ), timeout=20)
    assert code == 0
    assert programs.alive(int(out)), "it still runs, and has our pipe"
    os.kill(int(out), 9)


def test_a_status_that_somebody_else_collected_is_no_success() -> None:
    """A supervisor that clears up its tree collects every child it has."""
    script = """
import os, signal
from nightlatch.system import program
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel collects them
try:
    print(program.run(["sh", "-c", "echo half an answer"], env=dict(os.environ), timeout=20))
except program.Unfinished as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
    assert said.stdout == "sh was ended from outside\n", said.stdout + said.stderr
