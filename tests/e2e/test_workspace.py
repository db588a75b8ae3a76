"""`nightlatch run --workspace … --publish …`: a fresh folder for each attempt, results through gates, once."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from pathlib import Path

import pytest

from nightlatch import gates
from nightlatch.runtime.supervisor.publishing import workspace
from nightlatch.runtime.supervisor.publishing.replace_target import ReplaceTarget
from nightlatch.system import fingerprint
from tests.support.programs import TOOL
from tests.support.servers import s3
from tests.support.workspaces import journal, run, workspaces


def test_a_scratch_workspace_is_empty_private_and_where_the_command_runs(sqlite_url, tmp_path):
    shown = tmp_path / "shown"
    command = f'pwd > {shown}; echo "$NIGHTLATCH_WORKSPACE" >> {shown}; ls -A >> {shown}; stat -c %a . >> {shown}'
    ran = run(sqlite_url, "--workspace", "scratch", command=command)
    assert ran.returncode == 0, ran.stderr
    place, named, mode = shown.read_text().split()
    assert place == named and mode == "700"


def test_it_is_removed_after_success(sqlite_url):
    assert run(sqlite_url, "--workspace", "scratch", command="echo 1 > file").returncode == 0
    assert workspaces(sqlite_url) == []


def test_it_is_kept_on_failure_and_the_reason_names_it(sqlite_url, tmp_path):
    verdict = tmp_path / "verdict"
    ran = run(sqlite_url, "--workspace", "scratch", "--verdict", str(verdict), command="echo 1 > file; exit 3")
    assert ran.returncode == 3
    (kept,) = workspaces(sqlite_url)
    assert (kept / "file").read_text() == "1\n"
    assert str(kept) in json.loads(verdict.read_text())["reason"]


def test_each_attempt_gets_a_fresh_one(sqlite_url):
    for _ in range(2):
        ran = run(
            sqlite_url, "--workspace", "scratch", "--key", "k", command="test ! -e file || exit 9; touch file; exit 1"
        )
        assert ran.returncode == 1
    assert len(workspaces(sqlite_url)) == 2


def test_old_ones_are_cleaned_away_when_a_later_run_starts(sqlite_url):
    run(sqlite_url, "--workspace", "scratch", command="mkdir -p a/b; touch a/b/c; chmod 0500 a/b; exit 1")
    (old,) = workspaces(sqlite_url)
    os.utime(old, (0, 0))
    run(sqlite_url, "--workspace", "scratch", "--new", command="exit 1")
    assert old not in workspaces(sqlite_url) and len(workspaces(sqlite_url)) == 1


def test_one_in_use_is_not_cleaned_away_however_old(sqlite_url, tmp_path):
    inner = f"touch -d 2001-01-01 .; '{tmp_path}/inner' || exit 7; test -d \"$NIGHTLATCH_WORKSPACE\""
    script = tmp_path / "inner"
    words = "run other --workspace scratch -- true"
    script.write_text(f"#!/bin/sh\nexport NIGHTLATCH_STORE='{sqlite_url}'\nexec {TOOL} {words}\n")
    script.chmod(0o755)
    ran = run(sqlite_url, "--workspace", "scratch", command=inner)
    assert ran.returncode == 0, ran.stderr


def test_beyond_a_total_size_the_oldest_go_first(tmp_path, monkeypatch):
    monkeypatch.setattr(workspace, "KEPT_SIZE", 100_000)
    for number in range(4):
        made = workspace.Workspace.make(str(tmp_path), f"run-{number}", None)
        (Path(made.path) / "file").write_bytes(b"x" * 40_000)
        made.close()
        age = 4000 - number * 1000
        os.utime(made.path, (time.time() - age, time.time() - age))
    workspace.Workspace.make(str(tmp_path), "run-new", None)
    assert {path.name for path in (tmp_path / "workspaces").iterdir()} == {"run-2", "run-3", "run-new"}


def test_a_file_is_published_after_success(sqlite_url, tmp_path):
    target = tmp_path / "out.html"
    words = ("--workspace", "scratch", "--key", "k", "--publish", f"page.html={target}")
    ran = run(sqlite_url, *words, command="echo hello > page.html")
    assert ran.returncode == 0, ran.stderr
    assert target.read_text() == "hello\n"
    published = dict(journal(sqlite_url, "k"))
    assert published["publishing"]["sha256"] == hashlib.sha256(b"hello\n").hexdigest()
    assert published["published"]["target"].endswith("out.html")


def test_a_folder_is_published_and_can_be_replaced(sqlite_url, tmp_path):
    target = tmp_path / "site"
    for text in ("one", "two"):
        words = ("--workspace", "scratch", "--new", "--publish", f"build/={target}")
        ran = run(sqlite_url, *words, command=f"mkdir build; echo {text} > build/index")
        assert ran.returncode == 0, ran.stderr
        assert (target / "index").read_text() == f"{text}\n"


def test_an_object_is_published_and_known_again(sqlite_url, tmp_path):
    with s3.server() as endpoint:
        url = f"s3://bucket/page.html?endpoint={endpoint}"
        words = ("--workspace", "scratch", "--publish", f"page.html={url}")
        ran = run(sqlite_url, *words, command="echo hello > page.html")
        assert ran.returncode == 0, ran.stderr
        assert gates.Object(url).read() == b"hello\n"
        target, fresh = ReplaceTarget(f"page.html={url}"), workspace.Workspace.make(str(tmp_path), "fresh", None)
        assert target.landed({"sha256": hashlib.sha256(b"hello\n").hexdigest()}, fresh)
        assert not target.landed({"sha256": hashlib.sha256(b"other\n").hexdigest()}, fresh)
        assert not ReplaceTarget(f"page.html=s3://bucket/none?endpoint={endpoint}").landed({"sha256": ""}, fresh)


def test_nothing_is_published_when_the_command_failed(sqlite_url, tmp_path):
    target = tmp_path / "out"
    ran = run(sqlite_url, "--workspace", "scratch", "--publish", f"a={target}", command="echo 1 > a; exit 4")
    assert ran.returncode == 4 and not target.exists()


def test_a_result_that_was_not_made_fails_the_run(sqlite_url, tmp_path):
    words = ("--workspace", "scratch", "--key", "k", "--publish", f"a={tmp_path}/a", "--publish", f"b={tmp_path}/b")
    ran = run(sqlite_url, *words, command="echo 1 > a")
    assert ran.returncode == 1 and "left no b in its workspace" in ran.stderr and "status=failed" in ran.stderr
    assert not (tmp_path / "a").exists(), "none is published if one is missing"
    assert run(sqlite_url, *words, command="echo 2 > a; echo 2 > b").returncode == 0
    assert (tmp_path / "a").read_text() == "2\n"


def test_a_pipe_among_the_results_fails_the_run_and_keeps_nobody_waiting(sqlite_url, tmp_path):
    words = ("--workspace", "scratch", "--publish", f"site/={tmp_path}/site")
    ran = run(sqlite_url, *words, command="mkdir site; mkfifo site/pipe", timeout=60)
    assert "status=failed" in ran.stderr and "neither file, folder nor link" in ran.stderr
    assert ran.returncode == 64


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--publish", "a=b"], "--workspace"),
        (["--workspace", "scratch", "--publish", "git"], "--workspace git"),
        (["--workspace", "other"], "neither scratch"),
        (["--workspace", "scratch", "--publish", "a"], "FROM=TO"),
        (["--workspace", "scratch", "--publish", "/etc/passwd=b"], "in the workspace"),
        (["--workspace", "scratch", "--publish", "../a=b"], "in the workspace"),
        (["--workspace", "scratch", "--publish", "a=b", "--publish", "c=b"], "have the same target"),
        (["--workspace", "scratch", "--publish", "a=git+origin#main"], "--publish git"),
        (["--workspace", "git:https://example.org/x"], "names no branch"),
        (["--input", "nowhere"], "no such file"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_started(sqlite_url, tmp_path, words, said):
    ran = run(sqlite_url, *words, command="touch started", cwd=tmp_path)
    assert ran.returncode == 64 and said in ran.stderr, ran.stderr
    assert not (tmp_path / "started").exists()


def test_a_plain_folder_as_a_target_is_refused_before_the_work(sqlite_url, tmp_path):
    (tmp_path / "site").mkdir()
    ran = run(sqlite_url, "--workspace", "scratch", "--publish", f"b/={tmp_path}/site", command=f"touch {tmp_path}/ran")
    assert ran.returncode == 64 and "plain folder" in ran.stderr
    assert not (tmp_path / "ran").exists()


def test_inputs_are_hashed_and_recorded(sqlite_url, tmp_path):
    (tmp_path / "prompt").write_text("Go\n")
    assert run(sqlite_url, "--key", "k", "--input", str(tmp_path / "prompt"), command="true").returncode == 0
    facts = dict(journal(sqlite_url, "k"))["input"]
    assert facts == {"path": str(tmp_path / "prompt"), "sha256": hashlib.sha256(b"Go\n").hexdigest()}


def test_a_folders_fingerprint_sees_names_contents_links_and_who_may_execute(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a").write_text("1")
    seen = {fingerprint.of(str(folder))}
    changes = [
        lambda: (folder / "a").write_text("2"),
        lambda: (folder / "a").chmod(0o755),
        lambda: (folder / "b").symlink_to("a"),
        (folder / "c").mkdir,
        lambda: (folder / "a").rename(folder / "d"),
    ]
    for change in changes:
        change()
        seen.add(fingerprint.of(str(folder)))
    assert len(seen) == len(changes) + 1
    before = fingerprint.of(str(folder))
    (folder / "d").chmod(stat.S_IMODE((folder / "d").stat().st_mode) & ~0o077)
    os.utime(folder / "d", (0, 0))
    assert fingerprint.of(str(folder)) == before, "neither times nor a umask make another"
