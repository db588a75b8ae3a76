"""The git gate, with holders that are paused, late or cut off, and with other users that push too."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nightlatch import gates
from nightlatch.errors import Conflict, GateUnreachable, StaleToken
from tests.support.clones import clone, commit, git
from tests.support.git_site import Site, mark, sealed
from tests.support.processes.remote_killing import kill_writers
from tests.support.servers.git import git_http, git_repository

# Stale


def test_a_holder_that_is_stale_from_the_start_moves_nothing(site: Site) -> None:
    old, new = sealed(site, 1000), sealed(site, 1001)
    before = site.main()
    mine = commit(site.work, "article", b"stale\n")
    with pytest.raises(StaleToken) as refused:
        site.gate.push(old, folder=str(site.work))
    assert (refused.value.current, site.main()) == (new, before)
    assert git(site.work, "rev-parse", "HEAD") == mine, "its work is still there"
    assert [refusal.offered for refusal in site.gate.refusals()] == [1000]


def test_a_holder_paused_between_advertisement_and_send_moves_nothing(site: Site) -> None:
    old, before = sealed(site, 1000), site.main()
    commit(site.work, "article", b"stale\n")
    outcome = site.pause(lambda: site.gate.push(old, folder=str(site.work)), lambda: sealed(site, 1001))
    assert isinstance(outcome[0], StaleToken), outcome
    assert site.main() == before


def test_of_a_paused_holder_and_its_successor_only_the_successors_push_lands(site: Site) -> None:
    old = sealed(site, 1000)
    commit(site.work, "article", b"by the old one\n")
    successor = clone(site.url, site.root / "successor")
    commit(successor, "article", b"by the new one\n")

    def overtake() -> None:
        gates.Git(site.url, "main").push(sealed(site, 1001), folder=str(successor))

    outcome = site.pause(lambda: site.gate.push(old, folder=str(site.work)), overtake)
    assert isinstance(outcome[0], StaleToken), outcome
    assert git(site.remote, "show", "main:article") == "by the new one"


def test_where_a_mirror_push_has_removed_the_fence_an_overtaken_holder_moves_nothing(site: Site) -> None:
    old, before = sealed(site, 1000), site.main()
    commit(site.work, "article", b"stale\n")
    mirror = clone(site.url, site.root / "mirror")

    def overtake() -> None:
        gates.Git(site.url, "main").seal(mark(1001), "ben@there")
        git(mirror, "push", "--quiet", "--prune", "origin", "+refs/nightlatch/*:refs/nightlatch/*")

    outcome = site.pause(lambda: site.gate.push(old, folder=str(site.work)), overtake)
    assert isinstance(outcome[0], GateUnreachable) and "gone" in str(outcome[0]), outcome
    assert site.main() == before
    gates.Git(site.url, "main").seal(mark(1002), "ben@there")
    with pytest.raises(StaleToken):
        site.gate.push(old, folder=str(site.work))


def test_another_leases_holder_on_the_same_branch_is_no_obstacle(site: Site) -> None:
    mine = sealed(site, 1000)
    commit(site.work, "article", b"mine\n")
    outcome = site.pause(lambda: site.gate.push(mine, folder=str(site.work)), lambda: sealed(site, 9000, "others"))
    assert outcome == [site.main()]
    assert "article" in site.files()


@pytest.mark.parametrize("over", ["file", "http"])
def test_writers_are_killed_at_random_points_and_nothing_is_torn_stale_or_lost(tmp_path, state_home, over):
    remote = git_repository(tmp_path / "site.git")
    with git_http(tmp_path) as server:
        url = server.url("site.git") if over == "http" else f"file://{remote}"
        kill_writers(f"git+{url}#main", str(remote), 10)


# People


def test_an_honest_push_before_ours_is_followed(site: Site) -> None:
    mine = sealed(site, 1000)
    commit(site.work, "article", b"mine\n")
    site.honest_push("typo")
    assert site.gate.push(mine, folder=str(site.work)) == site.main()
    assert {"article", "typo"} <= site.files()


def test_an_honest_push_into_ours_is_followed_with_the_same_token(site: Site) -> None:
    mine = sealed(site, 1000)
    commit(site.work, "article", b"mine\n")
    (site.work / "index").write_bytes(b"not committed yet\n")
    outcome = site.pause(lambda: site.gate.push(mine, folder=str(site.work)), lambda: site.honest_push("typo"))
    assert outcome == [site.main()]
    assert {"article", "typo"} <= site.files()
    assert git(site.remote, "log", "-1", "--format=%(trailers:key=Nightlatch-Token,valueonly)", "main") == "1000"
    assert (site.work / "index").read_bytes() == b"not committed yet\n"
    assert list(site.gate.standing()) == ["articles"]


def test_a_conflict_needs_a_person_and_loses_nothing(site: Site) -> None:
    mine = sealed(site, 1000)
    tip = commit(site.work, "index", b"mine\n")
    (site.work / "draft").write_bytes(b"not committed yet\n")
    site.honest_push("index", b"theirs\n")
    before = site.main()
    with pytest.raises(Conflict, match="conflicts with this one in index") as conflict:
        site.gate.push(mine, folder=str(site.work))
    assert conflict.value.exit_code == 76
    assert site.main() == before
    assert git(site.work, "rev-parse", "HEAD") == tip
    assert (site.work / "draft").read_bytes() == b"not committed yet\n"
    assert "rebase" not in git(site.work, "status")


def test_a_server_that_refuses_the_branch_gets_no_fence_either(site: Site) -> None:
    mine = sealed(site, 1000)
    (site.remote / "hooks" / "update").write_text(
        "#!/bin/sh\ncase $1 in refs/heads/*) echo protected >&2; exit 1;; esac\n"
    )
    (site.remote / "hooks" / "update").chmod(0o755)
    refs = git(site.remote, "for-each-ref")
    commit(site.work, "article", b"mine\n")
    with pytest.raises(GateUnreachable, match="refuses the push"):
        site.gate.push(mine, folder=str(site.work))
    assert git(site.remote, "for-each-ref") == refs


# Replies


def lose_the_reply(site: Site, meanwhile: Callable[[], object] = int) -> Callable[[], bool]:
    """Of the next push; was it lost?"""
    if site.server:
        server = site.server
        server.meanwhile = meanwhile
        server.lose_replies = 1
        return lambda: server.lose_replies == 0
    # The server's end of a local push is killed when it has moved the refs and said nothing yet.
    hook = site.remote / "hooks" / "reference-transaction"
    hook.write_text('#!/bin/sh\n[ "$1" = committed ] || exit 0\nrm "$0"\nkill -9 $PPID\n')
    hook.chmod(0o755)
    return lambda: not hook.exists()


def test_a_push_whose_reply_was_lost_has_happened_once(site: Site) -> None:
    mine = sealed(site, 1000)
    count = int(git(site.remote, "rev-list", "--count", "main"))
    commit(site.work, "article", b"mine\n")
    lost = lose_the_reply(site)
    assert site.gate.push(mine, folder=str(site.work)) == site.main()
    assert lost()
    assert int(git(site.remote, "rev-list", "--count", "main")) == count + 1


@pytest.mark.parametrize("site", ["http"], indirect=True)
def test_a_push_that_landed_before_it_was_overtaken_is_told_so_though_its_reply_was_lost(site: Site) -> None:
    mine = sealed(site, 1000)
    commit(site.work, "article", b"mine\n")

    def overtake() -> None:
        sealed(site, 1001)
        site.honest_push("typo")

    lose_the_reply(site, overtake)
    landed = site.gate.push(mine, folder=str(site.work))
    assert landed in git(site.remote, "rev-list", "main").split()


def test_a_seal_whose_reply_was_lost_stands(site: Site) -> None:
    lost = lose_the_reply(site)
    mine = sealed(site, 1000)
    assert lost()
    assert site.gate.standing()["articles"].mark == mine


@pytest.mark.parametrize("site", ["http"], indirect=True)
def test_a_remote_that_is_away_says_so_and_the_push_can_be_made_later(site: Site) -> None:
    mine = sealed(site, 1000)
    commit(site.work, "article", b"mine\n")
    assert site.server
    site.server.down = True
    with pytest.raises(GateUnreachable):
        site.gate.push(mine, folder=str(site.work))
    with pytest.raises(GateUnreachable):
        site.gate.seal(mark(1001), "ann@here")
    site.server.down = False
    assert site.gate.push(mine, folder=str(site.work)) == site.main()
