"""Runs that publish, killed and stopped where it hurts: one article for each key, and none by a stale copy."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from nightlatch.core import statuses
from nightlatch.ledger import open_for
from nightlatch.system import identity
from tests.support.clones import begun, git
from tests.support.git_remote import Remote
from tests.support.programs import TOOL, children, environment, nightlatch, start, until
from tests.support.servers.git import git_repository

ROUNDS = int(os.environ.get("NIGHTLATCH_ROUNDS", "10"))

# An article and a page of the same content, large enough to be torn; the attempt and the token tell whose it is.
WORK = """
line="$NIGHTLATCH_KEY $NIGHTLATCH_ATTEMPT $NIGHTLATCH_TOKEN"
for i in 1 2 3 4 5 6 7 8; do echo "$line"; done > page
mkdir -p articles && cp page "articles/$NIGHTLATCH_KEY"
git add --all && git commit -qm "Article $NIGHTLATCH_KEY"
echo "$line" >> "$1/worked"
"""


class Place:
    """A remote, a page and a store; runs of one job that publish to both."""

    def __init__(self, folder: Path, store: str) -> None:
        self.folder, self.store = folder, store
        self.remote = git_repository(folder / "remote.git")
        begun(self.remote, folder / "first")
        self.page = folder / "page.txt"
        (folder / "worked").touch()

    def words(self, key: str, work: str = WORK, *options: str) -> list[str]:
        places = ["--workspace", f"git:{self.remote}#main", "--publish", f"page={self.page}", "--publish", "git"]
        more = ["--key", key, "--ttl", "60s", "--wait", "50s", *options]
        return ["run", "job", *places, *more, "--", "sh", "-ec", work, "sh", str(self.folder)]

    def start(self, key: str, work: str = WORK, *options: str) -> subprocess.Popen[str]:
        return start(self.store, *self.words(key, work, *options), cwd=self.folder)

    def run(self, key: str, work: str = WORK, *options: str) -> subprocess.CompletedProcess[str]:
        return nightlatch(self.store, *self.words(key, work, *options), cwd=self.folder)

    def tell_pid(self, running: subprocess.Popen[str]) -> None:
        """To the hooks that are to kill it."""
        (self.folder / "pid.part").write_text(str(running.pid))
        (self.folder / "pid.part").rename(self.folder / "pid")

    def attempts(self, key: str) -> list[str]:
        """The attempts whose command came to its end."""
        return [line.split()[1] for line in (self.folder / "worked").read_text().splitlines() if line.split()[0] == key]

    def workspaces(self) -> list[Path]:
        return list((Path(f"{self.store.removeprefix('sqlite:///')}.d") / "workspaces").iterdir())

    def articles(self, key: str) -> int:
        """How many commits of the remote's branch touch the key's article."""
        return len(git(self.remote, "rev-list", "main", "--", f"articles/{key}").split())

    def judge(self, key: str) -> None:
        """One article, whole, the page of the same attempt, and a run that has succeeded."""
        assert self.articles(key) == 1
        article = git(self.remote, "show", f"main:articles/{key}")
        assert len(set(article.splitlines())) == 1 and len(article.splitlines()) == 8
        assert self.page.read_text().strip() == article, "the page is of another attempt"
        run = open_for(self.store).find("job", key)
        assert run and run.status == statuses.SUCCEEDED


@pytest.fixture
def place(tmp_path: Path, sqlite_url: str, state_home: Path) -> Place:
    return Place(tmp_path, sqlite_url)


def kill(*pids: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


@pytest.mark.timeout(600 + 10 * ROUNDS)
def test_killed_at_random_points_around_the_publish_there_is_one_article_for_each_key(place):
    seed = int(os.environ.get("NIGHTLATCH_SEED", random.randrange(10**6)))
    print(f"NIGHTLATCH_SEED={seed}")
    chance = random.Random(seed)
    clean = place.start("clean")
    until(lambda: place.attempts("clean"))
    began = time.monotonic()
    assert clean.wait(60) == 0
    window = (time.monotonic() - began) * 1.1
    place.judge("clean")
    for number in range(ROUNDS):
        key = f"key-{number}"
        running = place.start(key)
        until(partial(place.attempts, key))
        time.sleep(chance.uniform(0, window))
        wardens = children(running.pid)[:1]  # forked first; later ones are its gits
        whom = chance.choice([[running.pid], [running.pid, *wardens], [*wardens, running.pid], wardens])
        kill(*whom)
        running.wait()
        again = place.run(key)
        assert again.returncode == 0, (seed, number, again.stderr)
        place.judge(key)
    assert git(place.remote, "rev-list", "--count", "main") == str(ROUNDS + 2), seed


HOOK = """#!/bin/sh
while read -r old new ref; do
  [ "$ref" = refs/heads/main ] && [ -e {pid} ] || continue
  if git log -1 --format=%B "$new" | grep -q Nightlatch-Run; then kill -9 "$(cat {pid})"; rm {pid}; fi
done
"""


# Somebody else pushes while the work is done: the commit gets another name on its way, and only its trailers tell.
OVERTAKEN = """
cd "$1/first" && echo theirs > theirs && git add theirs && git commit -qm theirs && git push -q origin main
cd "$NIGHTLATCH_WORKSPACE"
"""


@pytest.mark.parametrize(
    ("hook", "before"), [("pre-receive", ""), ("post-receive", ""), ("post-receive", OVERTAKEN)],
    ids=["before it landed", "after it landed", "after it landed on somebody else's"],
)  # fmt: skip
def test_killed_while_the_push_lands_the_next_start_adopts_it(place, hook, before):
    pid = place.folder / "pid"
    path = place.remote / "hooks" / hook
    path.write_text(HOOK.format(pid=pid))
    path.chmod(0o755)
    running = place.start("k", f'until [ -e "{pid}" ]; do sleep 0.01; done\n{before}\n{WORK}')
    place.tell_pid(running)
    assert running.wait(60) == -signal.SIGKILL
    again = place.run("k")
    assert again.returncode == 0 and "published by attempt 1" in again.stderr, again.stderr
    assert place.attempts("k") == ["1"], "the work is not done twice"
    place.judge("k")


# At the remote, once: a push of the branch is met by a script. (The workspace's own hooks are not run.)
MEETING = """#!/bin/sh
while read -r old new ref; do [ "$ref" = refs/heads/main ] && branch=1; done
[ -n "$branch" ] && [ ! -e {folder}/met ] || exit 0
touch {folder}/met
{script}
"""

# The supervisor is killed, and its push refused: nothing lands.
DYING = 'kill -9 "$(cat {folder}/pid)"; exit 1'

# The push waits until somebody lets it go on.
WAITING = "touch {folder}/pushing; until [ -e {folder}/go ]; do sleep 0.01; done"

AWAIT_PID = 'until [ -e "$1/pid" ]; do sleep 0.01; done\n'


def meet_push(place: Place, script: str) -> None:
    hook = place.remote / "hooks" / "pre-receive"
    hook.write_text(MEETING.format(folder=place.folder, script=script.format(folder=place.folder)))
    hook.chmod(0o755)


def die_at_the_push(place: Place) -> None:
    meet_push(place, DYING)
    running = place.start("k", AWAIT_PID + WORK)
    place.tell_pid(running)
    assert running.wait(60) == -signal.SIGKILL


def test_killed_between_two_targets_the_rest_is_published_from_the_workspace_it_left(place):
    die_at_the_push(place)
    assert place.page.exists() and place.articles("k") == 0
    again = place.run("k")
    assert again.returncode == 0 and "the work of attempt 1, published by attempt 2" in again.stderr, again.stderr
    assert place.attempts("k") == ["1"], "the work is not done twice"
    place.judge("k")
    assert not place.workspaces()


def test_without_that_workspace_the_work_is_done_again_and_all_of_it_is_published(place):
    die_at_the_push(place)
    for left in place.workspaces():
        subprocess.run(["rm", "-rf", left], check=True)
    again = place.run("k")
    assert again.returncode == 0, again.stderr
    assert place.attempts("k") == ["1", "2"]
    place.judge("k")


def test_asked_for_again_it_is_published_again(place):
    assert place.run("k").returncode == 0
    assert place.run("k", WORK, "--again").returncode == 0
    assert place.articles("k") == 2 and place.attempts("k") == ["1", "2"]


def test_with_lost_doubt_a_person_decides(place):
    die_at_the_push(place)
    assert place.run("k", WORK, "--lost", "doubt").returncode == 76
    assert place.articles("k") == 0


def refusals(place: Place) -> list[dict[str, str]]:
    return [entry.facts for entry in open_for(place.store).journal.of_job("job") if entry.kind == "refused"]


def test_stopped_in_its_push_and_overtaken_it_is_refused_and_records_no_verdict(place):
    meet_push(place, WAITING)
    stale = place.start("k", WORK, "--ttl", "4s")
    until((place.folder / "pushing").exists)
    os.kill(stale.pid, signal.SIGSTOP)
    try:
        new = place.run("k")
        assert new.returncode == 0, new.stderr
        place.judge("k")
        verdict = open_for(place.store).find("job", "k")
    finally:
        (place.folder / "go").touch()
        os.kill(stale.pid, signal.SIGCONT)
    _, said = stale.communicate(timeout=60)
    assert stale.returncode == 73, said
    place.judge("k")
    assert open_for(place.store).find("job", "k") == verdict and verdict and verdict.attempt == 2
    assert [facts["attempt"] for facts in refusals(place)] == ["1"]
    shown = nightlatch(place.store, "show", verdict.id, env={"COLUMNS": "900"}).stdout
    refused = shown.partition("\nrefused\n")[2]
    assert "refused: result, by attempt 1 with token " in refused and "git+" in refused


def test_stopped_in_the_middle_of_a_folder_and_overtaken_it_is_refused(tmp_path, sqlite_url):
    site = tmp_path / "site"
    work = 'mkdir site; for i in $(seq "$1"); do echo "$NIGHTLATCH_ATTEMPT" > site/$i; done'
    words = ["run", "job", "--key", "k", "--wait", "50s", "--workspace", "scratch", "--publish", f"site/={site}"]
    work_on = ["--", "sh", "-c", work, "sh"]
    stale = start(sqlite_url, *words, "--ttl", "4s", *work_on, "4000")
    releases = tmp_path / "site.releases"
    until(lambda: releases.exists() and any(name.startswith("new.") for name in os.listdir(releases)))
    os.kill(stale.pid, signal.SIGSTOP)
    try:
        assert not site.exists(), "it was stopped too late to show anything"
        new = nightlatch(sqlite_url, *words, *work_on, "3")
        assert new.returncode == 0, new.stderr
    finally:
        os.kill(stale.pid, signal.SIGCONT)
    _, said = stale.communicate(timeout=60)
    assert stale.returncode == 73, said
    assert sorted(os.listdir(site)) == ["1", "2", "3"] and (site / "1").read_text() == "2\n"
    run = open_for(sqlite_url).find("job", "k")
    assert run and run.attempt == 2 and run.status == statuses.SUCCEEDED
    refused = nightlatch(sqlite_url, "show", run.id).stdout.partition("\nrefused\n")[2]
    assert "refused: result, by attempt 1 with token " in refused


@pytest.mark.parametrize("store", ["sqlite_url", "postgres_url", "git_url"])
def test_stopped_in_a_publish_of_its_command_and_overtaken_it_is_refused_and_shown(store, request, tmp_path):
    """The command asks for it, its supervisor is stopped in the middle, and goes on when another has taken over."""
    store, site = request.getfixturevalue(store), tmp_path / "site"
    work = f'mkdir -p $1; for i in $(seq "$1"); do echo $1 > $1/$i; done; {TOOL} publish $1 {site}'
    words, work_on = ["run", "job", "--key", "k", "--wait", "50s", "--lost", "again"], ["--", "sh", "-c", work, "sh"]
    stale = start(store, *words, "--ttl", "5s", *work_on, "2000", cwd=tmp_path)
    releases = tmp_path / "site.releases"
    until(lambda: releases.exists() and any(name.startswith("new.") for name in os.listdir(releases)))
    os.kill(stale.pid, signal.SIGSTOP)
    try:
        assert not site.exists(), "it was stopped too late to show anything"
        new = nightlatch(store, *words, *work_on, "3", cwd=tmp_path)
        assert new.returncode == 0, new.stderr
    finally:
        os.kill(stale.pid, signal.SIGCONT)
    _, said = stale.communicate(timeout=60)
    assert stale.returncode == 123, said
    assert sorted(os.listdir(site)) == ["1", "2", "3"]
    run = open_for(store).find("job", "k")
    assert run and (run.attempt, run.status) == (2, statuses.SUCCEEDED)
    refused = nightlatch(store, "show", run.id, env={"COLUMNS": "300"}).stdout.partition("\nrefused\n")[2]
    assert f"refused: folder://{identity.machine()}{site}, by attempt 1 with token " in refused


# ── machines that share a git store, each with its own ledger; the articles are in another repository ──

DOES_NOT_SETTLE = """
from nightlatch.cli.main import main
from nightlatch.errors import StoreUnreachable
from nightlatch.store.git.store import GitStore

def settle(*_, **__):
    raise StoreUnreachable("the store is away")

GitStore.settle = settle
main()
"""


@pytest.fixture
def shared(tmp_path: Path, file_remote: Remote) -> Place:
    return Place(tmp_path, file_remote.store_url)


def on_another_machine(place: Place, key: str) -> subprocess.CompletedProcess[str]:
    env = {"XDG_STATE_HOME": str(place.folder / "another")}
    return nightlatch(place.store, *place.words(key), cwd=place.folder, env=env)


def test_killed_when_its_push_had_landed_another_machine_adopts_it(shared: Place):
    hook = shared.remote / "hooks" / "post-receive"
    hook.write_text(HOOK.format(pid=shared.folder / "pid"))
    hook.chmod(0o755)
    running = shared.start("k", AWAIT_PID + WORK)
    shared.tell_pid(running)
    assert running.wait(60) == -signal.SIGKILL
    again = on_another_machine(shared, "k")
    assert again.returncode == 0 and "published by attempt 1 on " in again.stderr, again.stderr
    assert shared.attempts("k") == ["1"], "the work is not done twice"
    assert shared.articles("k") == 1
    assert "its key is done already" in shared.run("k").stderr


def test_what_was_pushed_and_could_not_be_settled_another_machine_adopts(shared: Place):
    words = [sys.executable, "-c", DOES_NOT_SETTLE, *shared.words("k", WORK, "--ttl", "3s")]
    first = subprocess.run(words, env=environment(shared.store), cwd=shared.folder, capture_output=True, text=True)
    assert first.returncode and shared.articles("k") == 1, first.stderr
    again = on_another_machine(shared, "k")
    assert again.returncode == 0 and "published by attempt 1 on " in again.stderr, again.stderr
    assert shared.attempts("k") == ["1"]
    assert shared.articles("k") == 1


def test_what_a_command_pushed_itself_is_not_taken_for_its_result(shared: Place):
    """It was killed before its end: the work is done again, although a commit with its token is on the branch."""
    part = f'{WORK}\n{TOOL} push {shared.remote} main\nkill -9 "$(cat "$1/pid")"; sleep 600'
    running = shared.start("k", AWAIT_PID + part)
    shared.tell_pid(running)
    assert running.wait(60) == -signal.SIGKILL, running.communicate()
    again = on_another_machine(shared, "k")
    assert again.returncode == 0 and len(shared.attempts("k")) == 2, again.stderr
