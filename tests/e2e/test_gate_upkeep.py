"""Looking after gates: forgetting one that is gone, and a hook that lets nobody past."""

from __future__ import annotations

import subprocess

import pytest

from tests.support.programs import NIGHTLATCH, nightlatch
from tests.support.servers.s3 import CREDENTIALS


def git(folder, *words: str) -> subprocess.CompletedProcess[str]:
    identity = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "init.defaultBranch=main")
    return subprocess.run(["git", "-C", str(folder), *identity, *words], text=True, capture_output=True, timeout=60)


@pytest.fixture
def repository(tmp_path):
    bare, work = tmp_path / "site.git", tmp_path / "work"
    git(tmp_path, "init", "-q", "--bare", str(bare))
    git(tmp_path, "clone", "-q", str(bare), str(work))
    (work / "index").write_text("one")
    git(work, "add", ".")
    git(work, "commit", "-qm", "one")
    assert git(work, "push", "-q", "origin", "HEAD:main").returncode == 0
    return bare, work


def test_with_the_hook_a_plain_push_is_refused_and_a_gated_one_lands(repository, sqlite_url):
    bare, work = repository
    done = nightlatch(sqlite_url, "gate", "install-hook", str(bare), "--branch", "main")
    assert done.returncode == 0, done.stderr
    (work / "index").write_text("two")
    git(work, "commit", "-qam", "two")
    refused = git(work, "push", "origin", "HEAD:main")
    assert refused.returncode != 0
    assert "nightlatch push" in refused.stderr
    assert git(work, "push", "-q", "origin", "HEAD:other").returncode == 0, "other branches are free"
    pushed = nightlatch(sqlite_url, "lock", "site", "--", *NIGHTLATCH, "push", "origin", "main", cwd=work)
    # The hook inherits nothing of ours: --store comes through the environment of the command.
    assert pushed.returncode == 0, pushed.stderr
    assert git(bare, "log", "-1", "--format=%s", "main").stdout.strip() == "two"


def test_with_the_hook_only_a_fence_is_a_fence_and_nobody_deletes_it_or_sets_it_back(repository, sqlite_url):
    bare, work = repository
    assert nightlatch(sqlite_url, "gate", "install-hook", str(bare), "--branch", "main").returncode == 0
    from tests.support.programs import NIGHTLATCH

    fence = "refs/nightlatch/@fence/main"

    def gated(text: str) -> str:
        (work / "index").write_text(text)
        git(work, "commit", "-qam", text)
        pushed = nightlatch(sqlite_url, "lock", "site", "--", *NIGHTLATCH, "push", "origin", "main", cwd=work)
        assert pushed.returncode == 0, pushed.stderr
        return git(bare, "rev-parse", fence).stdout.strip()

    first, second = gated("two"), gated("three")
    git(work, "fetch", "-q", "origin", f"+{fence}:refs/fence")
    git(work, "commit", "-q", "--allow-empty", "-m", "four")
    lower = git(work, "cat-file", "commit", second).stdout.replace("\t17", "\t16").partition("\n\n")[2]
    fallen = git(work, "commit-tree", f"{second}^{{tree}}", "-p", second, "-m", lower).stdout.strip()
    empty = git(work, "commit-tree", f"{second}^{{tree}}", "-p", second, "-m", "fence of main").stdout.strip()
    for spec in (f"HEAD:{fence}", f":{fence}", f"{first}:{fence}", f"{fallen}:{fence}", f"{empty}:{fence}"):
        for branch in ([], ["HEAD:main"]):
            refused = git(work, "push", "--force", "origin", *branch, spec)
            assert refused.returncode and "fence" in refused.stderr, (spec, refused)
    assert git(bare, "rev-parse", fence).stdout.strip() == second
    assert gated("five") != second


def test_a_hook_of_ones_own_is_not_touched(repository, sqlite_url):
    bare, _ = repository
    (bare / "hooks" / "pre-receive").write_text("#!/bin/sh\nexit 0\n")
    done = nightlatch(sqlite_url, "gate", "install-hook", str(bare), "--branch", "main")
    assert done.returncode == 64
    assert (bare / "hooks" / "pre-receive").read_text() == "#!/bin/sh\nexit 0\n"


@pytest.mark.parametrize(
    "target", ["x" * 250, "file/page", "s3://bucket/key?endpoint=http://127.0.0.1:9&region=us-east-1"],
    ids=["name too long", "below a file", "unreachable bucket"],
)  # fmt: skip
def test_a_target_that_cannot_be_sealed_is_not_in_the_way_of_the_next_holder(sqlite_url, tmp_path, target):
    (tmp_path / "file").touch()
    publish = ("--", *NIGHTLATCH, "publish", "file", target)
    failed = nightlatch(sqlite_url, "lock", "x", *publish, cwd=tmp_path, env=CREDENTIALS)
    assert failed.returncode == 69 and "is it the right target?" in failed.stderr, failed.stderr
    after = nightlatch(sqlite_url, "lock", "x", "--", "true", cwd=tmp_path, env=CREDENTIALS)
    assert after.returncode == 0, after.stderr


def test_a_gate_named_before_it_was_known_to_be_a_folder_is_sealed_where_its_mark_is(sqlite_url, tmp_path):
    """It is registered as a file and as a folder, and the file's path is the folder's link by then."""
    (tmp_path / "made").mkdir()
    publish = ("--", *NIGHTLATCH, "publish", "made", "site")
    assert nightlatch(sqlite_url, "lock", "x", "--gate", "site", *publish, cwd=tmp_path).returncode == 0
    after = nightlatch(sqlite_url, "lock", "x", "--", "true", cwd=tmp_path)
    assert after.returncode == 0, after.stderr
    assert len(list(tmp_path.rglob("marks"))) == 1


def test_a_gate_that_is_gone_for_good_is_forgotten(sqlite_url, tmp_path):
    gone = tmp_path / "gone" / "report"
    gone.parent.mkdir()
    assert nightlatch(sqlite_url, "lock", "x", "--gate", str(gone), "--", "true").returncode == 0
    subprocess.run(["rm", "-r", str(gone.parent)], check=True)
    (tmp_path / "gone").write_text("now it is a file")
    refused = nightlatch(sqlite_url, "lock", "x", "--", "true")
    assert refused.returncode == 69, refused.stderr
    assert "gate forget" in refused.stderr
    assert nightlatch(sqlite_url, "gate", "forget", str(gone), "--lease", "x").returncode == 0
    assert nightlatch(sqlite_url, "lock", "x", "--", "true").returncode == 0
    assert nightlatch(sqlite_url, "gate", "forget", str(gone), "--lease", "x").returncode == 64
