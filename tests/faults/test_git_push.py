"""A push through the git gate with a lease and with a done key; and `nightlatch push`."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest

import nightlatch
from nightlatch import gates
from nightlatch.core.model import Mark
from nightlatch.errors import StaleToken
from nightlatch.system import identity
from tests.support import programs
from tests.support.clones import commit, git
from tests.support.git_site import Site, sealed

# With a lease, and with a done key


def test_branch_and_done_key_land_together(site: Site) -> None:
    store = nightlatch.connect(f"git+{site.url}")
    with nightlatch.lease("articles", store=store, gates=[site.gate]) as lease:
        commit(site.work, "article", b"mine\n")
        landed = site.gate.push(lease, folder=str(site.work), done=("articles", "key"))
        assert landed == site.main()
        lease.check()
        store.renew("articles", lease.grant, 60.0)
    done = nightlatch.connect(f"git+{site.url}").look("articles", "key")
    assert done and (done.value, done.token) == (landed, lease.token)
    with nightlatch.lease("articles", store=store) as lease:
        commit(site.work, "article", b"again\n")
        assert site.gate.push(lease, folder=str(site.work), done=("articles", "key")) == ""
    assert site.main() == landed


def test_branch_and_done_key_stay_away_together(site: Site) -> None:
    store = nightlatch.connect(f"git+{site.url}")
    lease = nightlatch.lease("articles", store=store, gates=[site.gate]).acquire()
    before = site.main()
    commit(site.work, "article", b"stale\n")

    def overtake() -> None:
        newer = Mark(store=store.id, name="articles", token=lease.token + 1, grant=identity.new_id())
        gates.Git(site.url, "main").seal(newer, "ben@there")

    outcome = site.pause(lambda: site.gate.push(lease, folder=str(site.work), done=("articles", "key")), overtake)
    assert isinstance(outcome[0], StaleToken), outcome
    assert site.main() == before
    assert store.look("articles", "key") is None
    lease.release()


@pytest.mark.parametrize("site", ["file"], indirect=True)
def test_a_done_key_in_another_store_follows_the_push(site: Site, sqlite_url: str) -> None:
    store = nightlatch.connect(sqlite_url)
    with nightlatch.lease("articles", store=store) as lease:
        commit(site.work, "article", b"mine\n")
        landed = site.gate.push(lease, folder=str(site.work), done=("articles", "key"))
    done = store.look("articles", "key")
    assert done and done.value == landed == site.main()


# The command


def shell(site: Site, store: str, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script under a lease, in the work tree."""
    path = site.root / "bin" / "nightlatch"
    if not path.exists():
        path.parent.mkdir()
        path.write_text(f'#!/bin/sh\nexec {sys.executable} -c "from nightlatch.cli.main import main; main()" "$@"\n')
        path.chmod(0o755)
    env = {"PATH": f"{path.parent}:/usr/bin:/bin", "NIGHTLATCH_RUN": "run-7"}
    return programs.nightlatch(store, "lock", "articles", "--", "sh", "-ec", script, cwd=site.work, env=env)


def test_nightlatch_push_leaves_a_trace_and_registers_the_gate(site: Site) -> None:
    store = f"git+{site.url}"
    did = shell(site, store, "echo a > article; git add article; git commit -qm 'An article'; nightlatch push --done k")
    assert did.returncode == 0, did.stderr
    assert did.stdout == f"main {site.main()}\n"
    record = nightlatch.connect(store).read("articles")
    assert record
    said = git(site.remote, "log", "-1", "--format=%B", "main")
    assert said == (
        f"An article\n\nNightlatch-Job: articles\nNightlatch-Run: run-7\nNightlatch-Token: {record.token}"
    ), said
    assert git(site.work, "rev-parse", "HEAD") == site.main(), "the work tree knows what was pushed"
    again = shell(site, store, "nightlatch push --done k")
    assert again.stdout == "skipped: k is done\n", again.stderr
    marks = gates.Git(site.url, "main").standing()
    newest = nightlatch.connect(store).read("articles")
    assert newest and marks["articles"].mark.token == newest.token, "the second holder sealed it before its work"


@pytest.mark.parametrize("site", ["file"], indirect=True)
def test_a_branch_can_be_sealed_before_the_command_starts(site: Site, sqlite_url: str) -> None:
    did = programs.nightlatch(sqlite_url, "lock", "articles", "--gate", "git+origin#main", "--", "true", cwd=site.work)
    assert did.returncode == 0, did.stderr
    record = nightlatch.connect(sqlite_url).read("articles")
    assert record and site.gate.standing()["articles"].mark.token == record.token


def test_nightlatch_push_says_76_in_a_conflict_and_64_without_a_lease(site: Site) -> None:
    site.honest_push("index")
    did = shell(site, f"git+{site.url}", "echo mine > index; git commit -qam mine; nightlatch push")
    assert did.returncode == 76, did.stderr
    assert "needs a person" in did.stderr
    bare = programs.nightlatch(f"git+{site.url}", "push", cwd=site.work)
    assert bare.returncode == 64 and "nightlatch lock" in bare.stderr


@pytest.mark.parametrize("site", ["file"], indirect=True)
def test_after_a_push_git_knows_where_the_remote_stands(site: Site, sqlite_url: str) -> None:
    did = shell(site, sqlite_url, "echo a > article; git add article; git commit -qm a; nightlatch push")
    assert did.returncode == 0, did.stderr
    assert git(site.work, "rev-parse", "origin/main") == site.main()


@pytest.mark.parametrize("site", ["file"], indirect=True)
def test_a_gate_of_another_store_can_be_looked_at_and_adopted(site: Site, sqlite_url: str) -> None:
    old = sealed(site, 1000)
    refused = shell(site, sqlite_url, "echo a > article; git add article; git commit -qm a; nightlatch push")
    assert refused.returncode == 73 and f"nightlatch gate adopt {shlex.quote(site.gate.url)}" in refused.stderr, (
        refused.stderr
    )
    shown = programs.nightlatch(sqlite_url, "gate", "show", site.gate.url)
    assert f"mark     articles  token {old.token}" in shown.stdout and "refused" in shown.stdout, shown.stderr
    adopted = programs.nightlatch(sqlite_url, "gate", "adopt", site.gate.url)
    assert adopted.stdout.startswith(f"{site.gate.url}: 1 mark adopted"), adopted.stderr
    assert shell(site, sqlite_url, "nightlatch push").returncode == 0
    assert "article" in site.files()


@pytest.mark.parametrize("site", ["file"], indirect=True)
def test_a_commit_that_others_have_keeps_its_name(site: Site) -> None:
    commit(site.theirs, "feature", b"theirs\n")
    git(site.theirs, "push", "--quiet", "origin", "main:feature")
    git(site.work, "fetch", "--quiet", "origin")
    git(site.work, "merge", "--quiet", "--ff-only", "origin/feature")
    tip = git(site.work, "rev-parse", "HEAD")
    assert site.gate.push(sealed(site, 1000), folder=str(site.work)) == tip == site.main()


@pytest.mark.parametrize("site", ["file"], indirect=True)
def test_no_branch_is_made_that_only_looks_like_the_one_that_was_named(site: Site, sqlite_url: str) -> None:
    write = "echo {0} > {0} && git add {0} && git commit -qm {0} && nightlatch push origin {1}"
    for number, name in enumerate(["HEAD", "refs/heads/main", "heads/main", "@", "main"]):
        done = shell(site, sqlite_url, write.format(number, name))
        assert done.returncode == 0 and done.stdout.startswith("main "), (name, done)
        assert site.main() == git(site.work, "rev-parse", "HEAD")
    for name in ("HEAD:main", "+main", "refs/tags/v1", "a..b"):
        refused = shell(site, sqlite_url, f"nightlatch push origin {name}")
        assert refused.returncode == 64 and refused.stderr.count("\n") == 1, refused
    assert git(site.remote, "for-each-ref", "--format=%(refname)", "refs/heads") == "refs/heads/main"
