"""A store in a git remote, with what a network, a server and other machines do to it."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import nightlatch
from nightlatch.core.model import Granted, Holder, Takeover
from nightlatch.core.value import replace
from nightlatch.errors import Busy, LeaseLost, StoreUnreachable
from nightlatch.store.git.store import GitStore, connect
from nightlatch.system import identity
from tests import programs
from tests.git_server import GitHttp, git_http, git_repository

ELSEWHERE = Holder(incarnation="i" * 32, user="ann", host="gone", pid=7, machine="another", boot="another")


class Remote:
    """One repository, reached over file:// or over smart HTTP."""

    def __init__(self, path: Path, server: GitHttp | None) -> None:
        self.path, self.server = path, server
        self.store_url = f"git+{server.url(path.name)}" if server else f"git+file://{path}"

    def connect(self) -> GitStore:
        return connect(self.store_url)

    def git(self, *words: str) -> str:
        return subprocess.run(["git", "-C", self.path, *words], check=True, capture_output=True, text=True).stdout

    def hook(self, name: str, script: str) -> None:
        (self.path / "hooks" / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.path / "hooks" / name).chmod(0o755)

    def go_away(self) -> Callable[[], None]:
        """Not reachable until the returned function is called."""
        if (server := self.server) is not None:
            server.down = True
            return lambda: setattr(server, "down", False)
        shutil.move(self.path, f"{self.path}.away")
        return lambda: (shutil.move(f"{self.path}.away", self.path), None)[1]


@pytest.fixture
def file_remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Remote:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Remote(git_repository(tmp_path / "store.git"), None)


@pytest.fixture
def http_remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Remote]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with git_http(tmp_path) as server:
        yield Remote(git_repository(tmp_path / "store.git"), server)


@pytest.fixture(params=["file_remote", "http_remote"])
def remote(request: pytest.FixtureRequest) -> Remote:
    found: Remote = request.getfixturevalue(request.param)
    return found


def take(store: GitStore, name: str, ttl: float = 60.0, over: Takeover | None = None) -> tuple[str, Granted]:
    grant = identity.new_id()
    return grant, store.acquire(name, grant, ELSEWHERE, ttl, over)


def overtake(remote: Remote, name: str) -> str:
    """Another machine takes the lease, having watched it stand still."""
    other = remote.connect()
    record = other.read(name)
    assert record
    return take(other, name, over=Takeover(grant=record.grant, version=record.version, proven=True))[0]


# Replies


def lose_the_next_reply(remote: Remote, tmp_path: Path) -> None:
    """Over HTTP the connection is cut after the push; on a file the client gives up on a hook that hangs."""
    if remote.server:
        remote.server.lose_replies = 1
    else:
        (tmp_path / "hang").touch()
        remote.hook("post-receive", f"[ -e {tmp_path}/hang ] || exit 0; rm {tmp_path}/hang; exec sleep 600")


@pytest.mark.parametrize("verb", ["acquire", "renew", "settle", "register", "raise_token", "release"])
def test_a_verb_whose_reply_was_lost_has_happened_once(remote: Remote, tmp_path: Path, verb: str) -> None:
    store, grant = remote.connect(), identity.new_id()
    store.id  # noqa: B018 - made before, so that the next push is the verb's
    granted = (
        store.acquire("job", grant, ELSEWHERE, 6.0) if verb != "acquire" else Granted(token=0, previous=0, gates=())
    )
    before = store.read("job")
    lose_the_next_reply(remote, tmp_path)

    if verb == "acquire":
        granted = store.acquire("job", grant, ELSEWHERE, 6.0)
    elif verb == "renew":
        store.renew("job", grant, 6.0)
    elif verb == "settle":
        assert store.settle("job", grant, "scope", "key", value="once").value == "once"
    elif verb == "register":
        assert store.register("job", grant, "file:///out") is True
    elif verb == "raise_token":
        granted = replace(granted, token=store.raise_token("job", 0, grant))
    else:
        store.release("job", grant)

    assert not (tmp_path / "hang").exists(), "the reply was not lost"
    assert not remote.server or remote.server.lose_replies == 0, "the reply was not lost"
    after = remote.connect().read("job")
    assert after
    assert after.grant == ("" if verb == "release" else grant)
    assert after.token == granted.token
    assert before is None or after.version != before.version
    if verb == "settle":
        done = remote.connect().look("scope", "key")
        assert done and done.value == "once"


def test_an_advance_whose_reply_was_lost_has_moved_the_cursor(http_remote: Remote) -> None:
    assert http_remote.server
    http_remote.server.lose_replies = 1
    assert http_remote.connect().advance("job", None, 5.0, "d") is True
    cursor = http_remote.connect().cursor("job")
    assert cursor and cursor.next_due == 5.0


def test_a_git_that_is_given_up_leaves_no_process_behind(file_remote: Remote, tmp_path: Path) -> None:
    store = file_remote.connect()
    file_remote.hook("pre-receive", f"echo $$ > {tmp_path}/hook; exec sleep 600")
    with pytest.raises(StoreUnreachable, match="gave no answer"):
        store.acquire("job", identity.new_id(), ELSEWHERE, 3.0)
    hook = int((tmp_path / "hook").read_text())
    programs.until(lambda: not programs.alive(hook), 5)
    (file_remote.path / "hooks" / "pre-receive").unlink()
    assert store.read("job") is None, "what was given up before the server took it did not happen"
    take(store, "job")


# Others


def test_of_six_that_race_one_wins_every_round(remote: Remote) -> None:
    stores = [remote.connect() for _ in range(6)]
    stores[0].id  # noqa: B018
    tokens = []
    for number in range(20):
        outcomes: list[tuple[GitStore, str, Granted] | Exception] = []
        start = threading.Barrier(len(stores))

        def race(store: GitStore, start=start, outcomes=outcomes) -> None:
            start.wait()
            try:
                outcomes.append((store, *take(store, "job")))
            except Exception as error:  # noqa: BLE001 - looked at below
                outcomes.append(error)

        threads = [threading.Thread(target=race, args=(store,)) for store in stores]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        winners = [outcome for outcome in outcomes if isinstance(outcome, tuple)]
        losers = [outcome for outcome in outcomes if not isinstance(outcome, tuple)]
        assert len(winners) == 1, f"round {number}: {outcomes}"
        assert all(isinstance(loser, Busy) for loser in losers), losers
        store, grant, granted = winners[0]
        tokens.append(granted.token)
        store.release("job", grant)
    assert tokens == sorted(set(tokens))


PAUSED = """
import sys
from nightlatch.store.git.store import connect
from nightlatch.errors import LeaseLost
url, verb, grant = sys.argv[1:]
store = connect(url)
store.read("job")
print("ready", flush=True)
sys.stdin.readline()
try:
    if verb == "renew":
        store.renew("job", grant, 60.0)
    elif verb == "settle":
        store.settle("job", grant, "scope", "key")
    else:
        store.release("job", grant)
except LeaseLost as lost:
    print("refused", lost.reason)
else:
    print("landed")
"""


@pytest.mark.parametrize("verb", ["renew", "settle", "release"])
def test_a_holder_paused_in_front_of_its_push_and_overtaken_is_refused(
    remote: Remote, tmp_path: Path, verb: str
) -> None:
    grant, _ = take(remote.connect(), "job")
    git, pause = shutil.which("git"), tmp_path / "pause"
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text(
        f'#!/bin/sh\ncase " $* " in *" push "*) touch {tmp_path}/paused; '
        f'while [ -e {pause} ]; do sleep 0.02; done;; esac\nexec {git} "$@"\n'
    )
    slow.chmod(0o755)
    pause.touch()
    env = programs.environment("", PATH=f"{slow.parent}:/usr/bin:/bin")
    words = [programs.NIGHTLATCH[0], "-c", PAUSED, remote.store_url, verb, grant]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, env=env, stdin=pipe, stdout=pipe, text=True) as holder:
        assert holder.stdin and holder.stdout
        assert holder.stdout.readline() == "ready\n"
        holder.stdin.write("\n")
        holder.stdin.flush()
        programs.until((tmp_path / "paused").exists)
        mine = overtake(remote, "job")
        pause.unlink()
        assert holder.stdout.read() == "refused taken\n"
    record = remote.connect().read("job")
    assert record and record.grant == mine
    assert remote.connect().look("scope", "key") is None


@pytest.mark.parametrize("verb", ["renew", "settle", "release"])
def test_a_holder_paused_between_advertisement_and_send_is_refused(http_remote: Remote, verb: str) -> None:
    remote, store = http_remote, http_remote.connect()
    assert remote.server
    grant, _ = take(store, "job")
    remote.server.hold = go_on = threading.Event()
    refusals: list[LeaseLost] = []

    def push() -> None:
        try:
            if verb == "renew":
                store.renew("job", grant, 60.0)
            elif verb == "settle":
                store.settle("job", grant, "scope", "key")
            else:
                store.release("job", grant)
        except LeaseLost as lost:
            refusals.append(lost)

    holder = threading.Thread(target=push)
    holder.start()
    assert remote.server.held.wait(20)
    mine = overtake(remote, "job")
    go_on.set()
    holder.join()
    assert [lost.reason for lost in refusals] == ["taken"]
    record = remote.connect().read("job")
    assert record and record.grant == mine
    assert remote.connect().look("scope", "key") is None


# Silence


def test_a_remote_that_is_away_for_a_while_costs_nobody_a_lease(remote: Remote) -> None:
    store = remote.connect()
    with nightlatch.lease("job", ttl="12s", store=store) as lease:
        come_back = remote.go_away()
        try:
            with pytest.raises(StoreUnreachable):
                store.renew("job", lease.grant, 12.0)
            time.sleep(4.5)  # a renewal falls due, and fails
            assert lease.lost is None
        finally:
            come_back()
        at = time.monotonic()
        version = store.read("job").version  # type: ignore[union-attr]
        programs.until(lambda: store.read("job").version != version, 9)  # type: ignore[union-attr]
        assert time.monotonic() - at < 9
        lease.check()


def test_two_firings_of_a_cron_line_take_over_from_a_machine_that_is_gone(remote: Remote) -> None:
    _, granted = take(remote.connect(), "job", ttl=1.0)
    cron = ("lock", "job", "--", "sh", "-c", "echo $NIGHTLATCH_TOKEN")
    first = programs.nightlatch(remote.store_url, *cron)
    assert first.returncode == 75 and "ann@gone" in first.stderr, first.stderr
    time.sleep(1.5)
    second = programs.nightlatch(remote.store_url, *cron)
    assert second.returncode == 0, second.stderr
    assert int(second.stdout) > granted.token


def test_a_machine_that_is_heard_of_between_two_firings_keeps_its_lease(remote: Remote) -> None:
    store = remote.connect()
    grant, _ = take(store, "job", ttl=1.0)
    assert programs.nightlatch(remote.store_url, "lock", "job", "--", "true").returncode == 75
    time.sleep(1.5)
    store.renew("job", grant, 1.0)
    assert programs.nightlatch(remote.store_url, "lock", "job", "--", "true").returncode == 75


def test_a_waiter_sees_a_release_soon(remote: Remote) -> None:
    store = remote.connect()
    grant, _ = take(store, "job")
    waiter = programs.start(remote.store_url, "lock", "job", "--wait", "60s", "--", "date", "+%s.%N")
    time.sleep(2)  # by now it looks at its slowest
    released = time.time()
    store.release("job", grant)
    out, said = waiter.communicate(timeout=30)
    assert waiter.returncode == 0, said
    assert float(out) - released < 6  # 1.5 s, and two pushes on a busy machine


# Servers


def test_a_server_that_lets_refs_only_go_forward_gets_a_chain(remote: Remote) -> None:
    deny = "git merge-base --is-ancestor $2 $3 || { echo no rewinds here >&2; exit 1; }"
    remote.hook("update", f"[ $2 = {'0' * 40} ] || {deny}")
    store = remote.connect()
    for _ in range(2):
        grant, granted = take(store, "job")
        store.renew("job", grant, 60.0)
        store.settle("job", grant, "scope", identity.new_id())
        store.release("job", grant)
    again = remote.connect()
    record = again.read("job")
    assert record and (record.grant, record.token) == ("", granted.token)
    assert int(remote.git("rev-list", "--count", "refs/nightlatch/job")) == 8


def test_elsewhere_no_history_grows_and_a_clone_sees_nothing(remote: Remote, tmp_path: Path) -> None:
    store = remote.connect()
    for _ in range(3):
        grant, _ = take(store, "job")
        store.settle("job", grant, "scope", "key")
        store.release("job", grant)
    assert remote.git("rev-list", "--count", "refs/nightlatch/job").strip() == "1"
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", remote.path, clone], check=True, capture_output=True)
    refs = subprocess.run(["git", "-C", clone, "for-each-ref"], capture_output=True, text=True).stdout
    assert "nightlatch" not in refs


def test_a_server_that_refuses_everything_says_so_in_one_line(remote: Remote) -> None:
    remote.hook("update", "echo this is a mirror >&2; exit 1")
    said = programs.nightlatch(remote.store_url, "lock", "job", "--", "true")
    assert said.returncode == 69
    assert "refuses pushes to refs/nightlatch/*" in said.stderr and len(said.stderr.splitlines()) == 1


def test_nobody_is_asked_for_a_password(http_remote: Remote) -> None:
    assert http_remote.server
    http_remote.server.locked = True
    said = programs.nightlatch(http_remote.store_url, "lease", "list", timeout=20)
    assert said.returncode == 69
    assert "credential helper" in said.stderr and len(said.stderr.splitlines()) == 1


def test_the_local_copy_may_be_lost_at_any_time(remote: Remote) -> None:
    store = remote.connect()
    grant, _ = take(store, "job")
    store.settle("job", grant, "scope", "one")
    shutil.rmtree(store.repository.folder)
    store.settle("job", grant, "scope", "two")
    shutil.rmtree(store.repository.folder)
    assert store.look("scope", "one") and store.look("scope", "two")
    store.renew("job", grant, 60.0)
    store.release("job", grant)


def test_the_local_copy_is_for_this_user_alone(remote: Remote) -> None:
    store = remote.connect()
    take(store, "job")
    assert Path(store.folder).stat().st_mode & 0o777 == 0o700


def test_the_doctor_finds_a_git_store_well(remote: Remote) -> None:
    said = programs.nightlatch(remote.store_url, "doctor")
    assert said.returncode == 0, said.stdout
    assert "compare-and-swap holds" in said.stdout


def test_a_renewal_in_flight_when_the_command_ends_leaves_no_lock_file_in_the_remote(
    file_remote: Remote, tmp_path: Path
) -> None:
    renewing = tmp_path / "renewing"
    # The first transaction is the acquire; the second one, a renewal, stays in its locks for a while.
    file_remote.hook(
        "reference-transaction",
        f'test "$1" = prepared || exit 0\ntest -e {tmp_path}/held || {{ : > {tmp_path}/held; exit 0; }}\n'
        f"test -e {renewing} || {{ : > {renewing}; sleep 0.5; : > {tmp_path}/answered; }}",
    )
    waiting = f"until test -e {renewing}; do sleep 0.01; done"
    ended = programs.nightlatch(file_remote.store_url, "lock", "articles", "--ttl", "6s", "--", "sh", "-c", waiting)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (tmp_path / "answered").exists()
    assert not list(file_remote.path.rglob("*.lock"))
    free = programs.nightlatch(file_remote.store_url, "lock", "articles", "--", "true")
    assert (free.returncode, free.stderr) == (0, "")
