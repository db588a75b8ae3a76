"""The git gate, with holders that are paused, late or cut off, and with people who push too."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import nightlatch
from nightlatch import gates
from nightlatch.core.model import Mark
from nightlatch.errors import Conflict, GateUnreachable, StaleToken
from nightlatch.system import identity
from tests import programs
from tests.faults.test_gates_file import kill_writers
from tests.git_server import GitHttp, git_http, git_repository
from tests.workdirs import clone, commit, git

STORE = identity.new_id()


class Site:
    """A remote with a first commit, a clone to work in, and one of somebody else."""

    def __init__(self, root: Path, url: str, server: GitHttp | None) -> None:
        self.root, self.url, self.server = root, url, server
        self.remote = git_repository(root / "site.git")
        seed = clone(self.remote, root / "seed")
        commit(seed, "index", b"first\n")
        git(seed, "push", "--quiet", "origin", "main")
        self.work, self.theirs = clone(url, root / "work"), clone(url, root / "theirs")
        self.gate = gates.Git(url, "main")

    def main(self) -> str:
        return git(self.remote, "rev-parse", "main")

    def files(self) -> set[str]:
        return set(git(self.remote, "ls-tree", "--name-only", "main").split())

    def honest_push(self, name: str, content: bytes = b"theirs\n") -> None:
        """Somebody else, who knows nothing of gates."""
        git(self.theirs, "fetch", "--quiet", "origin")
        git(self.theirs, "reset", "--quiet", "--hard", "origin/main")
        commit(self.theirs, name, content)
        git(self.theirs, "push", "--quiet", "origin", "main")

    def hook(self, script: str) -> None:
        """Runs in the push of the worker, between the server's advertisement and the sending."""
        path = self.work / ".git" / "hooks" / "pre-push"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def pause(self, push: Callable[[], object], meanwhile: Callable[[], object]) -> list[object]:
        """Do something while a push is paused after it has seen the server's refs; what the push came to."""
        here = self.root
        (here / "pause").touch()
        self.hook(f"touch {here}/paused; while [ -e {here}/pause ]; do sleep 0.02; done")
        outcome: list[object] = []

        def run() -> None:
            try:
                outcome.append(push())
            except BaseException as error:  # noqa: BLE001 - looked at by the test
                outcome.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            programs.until((here / "paused").exists)
            meanwhile()
        finally:
            (here / "pause").unlink()
            thread.join()
        return outcome


@pytest.fixture(params=["file", "http"])
def site(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    if request.param == "file":
        yield Site(tmp_path, f"file://{tmp_path}/site.git", None)
    else:
        with git_http(tmp_path) as server:
            yield Site(tmp_path, server.url("site.git"), server)


def mark(token: int, name: str = "articles") -> Mark:
    return Mark(store=STORE, name=name, token=token, grant=identity.new_id())


def sealed(site: Site, token: int, name: str = "articles") -> Mark:
    made = mark(token, name)
    site.gate.seal(made, "ann@here")
    return made


# Stale


def test_a_holder_that_is_stale_from_the_start_moves_nothing(site: Site) -> None:
    old, new = sealed(site, 1000), sealed(site, 1001)
    before = site.main()
    mine = commit(site.work, "article", b"stale\n")
    with pytest.raises(StaleToken) as refused:
        site.gate.push(old, folder=str(site.work))
    assert (refused.value.stands, site.main()) == (new, before)
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


# What is remembered


@pytest.mark.parametrize("site", ["http"], indirect=True)
def test_a_push_after_a_seal_of_this_machine_costs_one_connection_in_any_process(site: Site) -> None:
    mine = sealed(site, 1000)
    assert site.server
    for gate in (site.gate, gates.Git(site.url, "main")):
        commit(site.work, "article", identity.new_id().encode())
        site.server.served.clear()
        assert gate.push(mine, folder=str(site.work)) == site.main()
        assert [request.partition("/site")[0] for request in site.server.served] == ["GET ", "POST "]


@pytest.mark.parametrize("damage", ["", "what?\n", f"{'0' * 40} {'a' * 40}\n", f"{'b' * 40} {'a' * 40}\n"])
@pytest.mark.parametrize("site", ["file"], indirect=True)
def test_whatever_stands_where_it_is_remembered_the_push_lands(site: Site, damage: str) -> None:
    mine = sealed(site, 1000)
    commit(site.work, "article", b"mine\n")
    (remembered,) = (site.root / "state").rglob("seen/*")
    remembered.write_text(damage)
    assert gates.Git(site.url, "main").push(mine, folder=str(site.work)) == site.main()


@pytest.mark.parametrize("site", ["file"], indirect=True)
def test_what_somebody_took_back_is_not_brought_again_from_memory(site: Site) -> None:
    mine, before = sealed(site, 1000), site.main()
    elsewhere = clone(site.url, site.root / "elsewhere")
    commit(elsewhere, "mistake", b"mine too\n")
    site.gate.push(mine, folder=str(elsewhere))
    git(site.remote, "update-ref", "refs/heads/main", before)
    commit(site.work, "article", b"mine\n")
    assert site.gate.push(mine, folder=str(site.work)) == site.main()
    assert site.files() == {"index", "article"}


def test_nobody_is_refused_from_memory(site: Site) -> None:
    """Another machine has adopted the gate for another store since."""
    sealed(site, 1000)
    other = Mark(store=identity.new_id(), name="articles", token=1, grant=identity.new_id())
    with pytest.MonkeyPatch.context() as elsewhere:
        elsewhere.setenv("XDG_STATE_HOME", str(site.root / "elsewhere"))
        gates.Git(site.url, "main").adopt(other.store)
    commit(site.work, "article", b"mine\n")
    its = Mark(store=other.store, name="articles", token=1000, grant=other.grant)
    with pytest.raises(StaleToken) as refused:
        site.gate.push(its, folder=str(site.work))
    assert refused.value.stands and refused.value.stands.store == other.store, "as it stands, not as it stood"
    newer = Mark(store=other.store, name="articles", token=1001, grant=other.grant)
    assert site.gate.push(newer, folder=str(site.work)) == site.main()


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
    assert refused.returncode == 73 and f"nightlatch gate adopt {site.gate.url}" in refused.stderr, refused.stderr
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
