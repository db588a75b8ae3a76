"""Looking after gates: forgetting one that is gone, and a hook that lets nobody past."""

from __future__ import annotations

import subprocess

import pytest

from tests.programs import nightlatch


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
    from tests.programs import NIGHTLATCH

    pushed = nightlatch(sqlite_url, "lock", "site", "--", *NIGHTLATCH, "push", "origin", "main", cwd=work)
    # The hook inherits nothing of ours: --store comes through the environment of the command.
    assert pushed.returncode == 0, pushed.stderr
    assert git(bare, "log", "-1", "--format=%s", "main").stdout.strip() == "two"


def test_with_the_hook_only_a_fence_is_a_fence_and_nobody_deletes_it_or_sets_it_back(repository, sqlite_url):
    bare, work = repository
    assert nightlatch(sqlite_url, "gate", "install-hook", str(bare), "--branch", "main").returncode == 0
    from tests.programs import NIGHTLATCH

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


def test_a_gate_that_is_gone_for_good_is_forgotten(sqlite_url, tmp_path):
    gone = tmp_path / "gone" / "report"
    gone.parent.mkdir()
    assert nightlatch(sqlite_url, "lock", "x", "--gate", str(gone), "--", "true").returncode == 0
    subprocess.run(["rm", "-r", str(gone.parent)], check=True)
    (tmp_path / "gone").write_text("a file stands there now")
    refused = nightlatch(sqlite_url, "lock", "x", "--", "true")
    assert refused.returncode == 69, refused.stderr
    assert "gate forget" in refused.stderr
    assert nightlatch(sqlite_url, "gate", "forget", str(gone), "--lease", "x").returncode == 0
    assert nightlatch(sqlite_url, "lock", "x", "--", "true").returncode == 0
    assert nightlatch(sqlite_url, "gate", "forget", str(gone), "--lease", "x").returncode == 64
