"""A store in a git remote, with what a network, a server and other machines do to it."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from nightlatch.core.model import Granted
from nightlatch.core.value import replace
from nightlatch.errors import Busy, LeaseLost, StoreUnreachable
from nightlatch.store.git.store import GitStore
from nightlatch.system import identity
from nightlatch.testing.stores.cursors import move
from tests.support import programs
from tests.support.git_remote import ELSEWHERE, Remote, act, overtake, take

ROOT = Path(__file__).parents[2]


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
        store.acquire("job", grant, ELSEWHERE, 12.0) if verb != "acquire" else Granted(token=0, previous=0, gates=())
    )
    before = store.read("job")
    lose_the_next_reply(remote, tmp_path)

    if verb == "acquire":
        granted = store.acquire("job", grant, ELSEWHERE, 12.0)
    elif verb == "renew":
        store.renew("job", grant, 12.0)
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


def test_an_advance_whose_reply_was_lost_has_moved_the_row(http_remote: Remote) -> None:
    assert http_remote.server
    http_remote.server.lose_replies = 1
    first = move("job")
    assert http_remote.connect().advance([first]) == [True]
    assert [row.id for row in http_remote.connect().cursors()] == [first.id]


def test_a_git_that_is_given_up_leaves_no_process_behind(file_remote: Remote, tmp_path: Path) -> None:
    store = file_remote.connect()
    file_remote.hook("pre-receive", f"echo $$ > {tmp_path}/hook; exec sleep 600")
    with pytest.raises(StoreUnreachable, match="gave no answer"):
        store.acquire("job", identity.new_id(), ELSEWHERE, 12.0)
    hook = int((tmp_path / "hook").read_text())
    programs.until(lambda: not programs.alive(hook))
    (file_remote.path / "hooks" / "pre-receive").unlink()
    assert store.read("job") is None, "what was given up before the server took it did not happen"
    take(store, "job")


# Others


def test_of_six_that_race_one_wins_every_round(remote: Remote) -> None:
    stores = [remote.connect() for _ in range(6)]
    stores[0].id  # noqa: B018
    tokens = []
    for number in range(int(os.environ.get("NIGHTLATCH_ROUNDS", "8"))):
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
from tests.support.git_remote import act
url, verb, grant = sys.argv[1:]
store = connect(url)
store.read("job")
print("ready", flush=True)
sys.stdin.readline()
try:
    act(store, verb, grant)
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
    with subprocess.Popen(words, env=env, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as holder:
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
            act(store, verb, grant)
        except LeaseLost as lost:
            refusals.append(lost)

    holder = threading.Thread(target=push)
    holder.start()
    assert remote.server.held.wait(60)
    mine = overtake(remote, "job")
    go_on.set()
    holder.join()
    assert [lost.reason for lost in refusals] == ["taken"]
    record = remote.connect().read("job")
    assert record and record.grant == mine
    assert remote.connect().look("scope", "key") is None
