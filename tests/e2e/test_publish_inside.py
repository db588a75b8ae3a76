"""`nightlatch publish` and `nightlatch push` inside a run: the supervisor does it, under the run's lease."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nightlatch import connect, gates
from nightlatch.ledger import open_for
from nightlatch.system import filelock, identity
from tests.support import python_jobs
from tests.support.clones import begun, git
from tests.support.programs import TOOL, alive, nightlatch, start, until
from tests.support.servers import s3
from tests.support.servers.git import git_repository
from tests.support.servers.postgres import PostgresServer


def words(script: str, *options: str, key: str = "k") -> list[str]:
    return ["run", "job", "--key", key, *options, "--", "sh", "-c", f'me() {{ {TOOL} "$@"; }}\n{script}']


def run(store: str, folder: Path, script: str, *options: str, key: str = "k") -> subprocess.CompletedProcess[str]:
    return nightlatch(store, *words(script, *options, key=key), cwd=folder)


def journal(store: str, *kinds: str) -> list[dict[str, str]]:
    found = open_for(store).find("job", "k")
    assert found
    return [
        {"kind": entry.kind, **entry.facts} for entry in open_for(store).journal.of_run(found.id) if entry.kind in kinds
    ]


def shown(store: str) -> str:
    found = open_for(store).find("job", "k")
    assert found
    return nightlatch(store, "show", found.id).stdout


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A clone of a repository with one commit on main."""
    return begun(git_repository(tmp_path / "remote.git"), tmp_path / "site")


EVERYTHING = """
set -e
mkdir -p made/site && echo page > made/page && echo index > made/site/index
me publish made/page out.html --json > said
cd made && me publish site "$1/www"
cd "$2" && echo two > page && git commit -qam Two && me push
env | grep -q only-in-the-url && exit 9
exit 0
"""


def everything(store: str, folder: Path, site: Path) -> None:
    place = folder / "work"
    place.mkdir()
    hook = site / ".git" / "hooks" / "pre-push"
    hook.write_text(f"#!/bin/sh\nenv > {folder}/hook")
    hook.chmod(0o755)
    done = nightlatch(store, *words(EVERYTHING), "sh", str(folder), str(site), cwd=place)
    assert done.returncode == 0, done.stderr
    assert (place / "out.html").read_text() == "page\n" and (folder / "www" / "index").read_text() == "index\n"
    assert "NIGHTLATCH_STORE" not in (folder / "hook").read_text(), "its hooks need no password"
    report = json.loads((place / "said").read_text())
    assert (report["gate"], report["lease"]) == (f"file://{identity.machine()}{place}/out.html", "job")
    assert git(site, "rev-parse", "origin/main") == git(site, "rev-parse", "HEAD"), "as after a push by git"
    message = git(folder / "remote.git", "log", "-1", "--format=%B", "main")
    run = open_for(store).find("job", "k")
    assert run and f"Nightlatch-Run: {run.id}" in message and f"Nightlatch-Token: {report['token']}" in message
    entries = journal(store, "publishing", "published")
    assert [entry["kind"] for entry in entries] == ["publishing", "published"] * 3
    assert {entry["by"] for entry in entries} == {"command"}


def test_files_folders_and_branches(any_store, tmp_path, site):
    everything(any_store, tmp_path, site)


def test_an_object_is_published_adopted_and_rolled_back(sqlite_url, tmp_path):
    with s3.server() as endpoint:
        url = f"s3://bucket/report?endpoint={endpoint}"
        script = f"""
        publish() {{ echo $1 > new; me publish new '{url}' --json; }}
        publish one && [ $NIGHTLATCH_ATTEMPT = 2 ] && publish two && me publish --rollback '{url}' --json
        """
        first = run(sqlite_url, tmp_path, script)
        assert first.returncode == 1 and gates.Object(url).read() == b"one\n", first.stderr
        again = run(sqlite_url, tmp_path, script)
        assert again.returncode == 0, again.stderr
        adopted, two, back = (json.loads(line)["release"] for line in again.stdout.splitlines())
        assert adopted == back == json.loads(first.stdout)["release"] != two
        assert gates.Object(url).read() == b"one\n"
        third = run(sqlite_url, tmp_path, f"echo one > new; me publish new '{url}' --json", "--again")
        assert json.loads(third.stdout)["release"] != back, "asked for again it is published again"


def test_a_password_that_only_the_supervisor_has(postgres: PostgresServer, state_home, tmp_path, site):
    role = f"role_{identity.new_id()}"
    store = postgres.url_with_password(role, role)
    everything(store, tmp_path, site)


def test_what_is_wrong_is_told_to_the_command_with_its_exit_code(sqlite_url, tmp_path):
    script = """
    me publish none out; echo $?
    echo x > x; mkdir y; me publish x y/; echo $?
    me publish x . ; echo $?
    me publish --rollback x; echo $?
    me push; echo $?
    (touch f; me publish x f/out); echo $?
    """
    done = run(sqlite_url, tmp_path, script)
    assert done.stdout.split() == ["64", "64", "64", "64", "64", "69"], done.stderr
    assert "cannot be read" in done.stderr and "no remote" not in done.stderr and "could not be sealed" in done.stderr


def test_a_mistyped_target_is_not_in_the_way_of_the_next_run(any_store, tmp_path):
    (tmp_path / "file").touch()
    wrong, right = tmp_path / "file" / "page", tmp_path / "page"
    done = run(any_store, tmp_path, f"echo x > x; me publish x {wrong}; echo $?; me publish x {right} >&2; echo $?")
    assert done.stdout.split() == ["69", "0"], done.stderr
    assert "could not be sealed" in done.stderr and "is it the right target?" in done.stderr
    assert run(any_store, tmp_path, "true", key="l").returncode == 0, "it would have to seal the mistyped one first"
    # One that was in use stays on the list, even if a later write to it fails.
    broken = "rm -rf .page.nightlatch; touch .page.nightlatch; me publish x page"
    failed = run(any_store, tmp_path, broken, key="m")
    assert failed.returncode == 69 and "is it the right target?" not in failed.stderr, failed.stderr
    store = connect(any_store)
    assert not store.unregister("job", gates.File(wrong).url) and store.unregister("job", gates.File(right).url)


def test_a_release_goes_back(sqlite_url, tmp_path):
    script = """
    mkdir a; for i in 1 2; do echo $i > a/n; me publish a www --keep 2 || exit 1; done
    me publish --rollback www --json
    """
    done = run(sqlite_url, tmp_path, script)
    assert json.loads(done.stdout)["release"] == os.readlink(tmp_path / "www").partition("/")[2], done.stderr
    assert (tmp_path / "www" / "n").read_text() == "1\n"


def test_while_one_publish_waits_the_supervisor_serves_and_watches(sqlite_url, tmp_path):
    """It waits for the target's lock, which this test has."""
    (tmp_path / ".out.nightlatch").mkdir()
    lock = filelock.FairLock(str(tmp_path / ".out.nightlatch" / "lock"))
    assert lock.acquire(30)
    script = "echo $$ > pid; echo x > x; me publish x out & until [ -e go ]; do sleep 0.01; done; me progress 1/2; wait"
    running = start(sqlite_url, *words(script, "--timeout", "60s"), cwd=tmp_path)
    try:
        found = until(lambda: open_for(sqlite_url).find("job", "k"))
        assert found
        until(lambda: journal(sqlite_url, "publishing"))
        (tmp_path / "go").touch()
        until(lambda: journal(sqlite_url, "progress"))
        assert nightlatch(sqlite_url, "cancel", found.id).returncode == 0
        until(lambda: not alive(int((tmp_path / "pid").read_text())))
        assert not (tmp_path / "out").exists()
    finally:
        lock.release()
    assert running.wait(60) == 120
    assert (tmp_path / "out").read_text() == "x\n", "what was under way landed before the run was judged"
    assert [entry["kind"] for entry in journal(sqlite_url, "publishing", "published")] == ["publishing", "published"]


def test_what_an_earlier_attempt_published_is_adopted(any_store, tmp_path):
    script = "mkdir -p a; echo $1 > a/n; me publish a www || exit 9; exit $2"
    for content, code in (("one", 1), ("one", 1), ("two", 0)):
        done = nightlatch(any_store, *words(script), "sh", content, str(code), cwd=tmp_path)
        assert done.returncode == code, done.stderr
        assert (tmp_path / "www" / "n").read_text() == f"{content}\n"
    assert len(os.listdir(tmp_path / "www.releases")) == 2, "the second attempt found its content there"
    assert [entry.get("adopted") for entry in journal(any_store, "published")] == [None, "true", None]


TWICE = """
import os, pathlib, time
import nightlatch

run = nightlatch.current()
with open("acts", "a") as acts:
    run.step("act", acts.write, "act ")
pathlib.Path("new").write_text("text")
run.publish("new", "page")
if run.attempt == 1:
    pathlib.Path("there").touch()
    time.sleep(600)
"""


def test_what_a_person_called_done_is_done_again_from_the_beginning(ledger_url, tmp_path):
    (tmp_path / "twice.py").write_text(TWICE)
    command = ("run", "job", "--key", "k")
    program = ("--", sys.executable, "twice.py")
    first = start(ledger_url, *command, *program, cwd=tmp_path, stderr=subprocess.DEVNULL)
    until((tmp_path / "there").exists)
    first.kill()
    first.wait()
    assert nightlatch(ledger_url, *command, "--wait", "50s", *program, cwd=tmp_path).returncode == 76
    run = open_for(ledger_url).find("job", "k")
    assert run and nightlatch(ledger_url, "resolve", run.id, "done").returncode == 0
    assert nightlatch(ledger_url, *command, *program, cwd=tmp_path).returncode == 0, "skipped"
    assert (tmp_path / "acts").read_text() == "act "
    assert nightlatch(ledger_url, *command, "--again", *program, cwd=tmp_path).returncode == 0
    assert (tmp_path / "acts").read_text() == "act act "
    landed = journal(ledger_url, "published")
    assert [(entry["attempt"], entry.get("adopted")) for entry in landed] == [("1", None), ("2", None)]
    assert "resolved as succeeded" in shown(ledger_url)
    assert not open_for(ledger_url).journal.verify(open_for(ledger_url).journal.heads()).breaks


def test_a_publish_of_the_command_is_not_taken_for_the_runs_own(sqlite_url, tmp_path):
    """It dies after its command has published to the very target that the run publishes to at its end."""
    script = f"""
    echo draft > page; me publish page {tmp_path}/page || exit 9
    [ $NIGHTLATCH_ATTEMPT = 1 ] && kill -9 $(ps -o ppid= -p $PPID) $PPID
    echo final > page
    """
    options = ("--workspace", "scratch", "--publish", f"page={tmp_path}/page")
    assert run(sqlite_url, tmp_path, script, *options).returncode == -signal.SIGKILL
    assert (tmp_path / "page").read_text() == "draft\n"
    assert run(sqlite_url, tmp_path, script, *options).returncode == 0
    assert (tmp_path / "page").read_text() == "final\n"


# The server kills the supervisor when an article has landed, or before it has: the key is not settled any more.
HOOK = """#!/bin/sh
[ -e {pid} ] && kill -9 $(cat {pid}) && rm {pid} && exit 1
exit 0
"""


@pytest.mark.parametrize("hook", ["post-receive", "pre-receive"])
def test_killed_between_a_push_and_its_key_it_is_found_out_whether_it_landed(sqlite_url, tmp_path, site, hook):
    pid, path = tmp_path / "pid", tmp_path / "remote.git" / "hooks" / hook
    path.write_text(HOOK.format(pid=pid))
    path.chmod(0o755)
    # The first push lands and is settled; the second one is for another key.
    script = f"""
    write() {{ git fetch -q && git reset -q --hard origin/main && echo $$ > $1 && git add $1 && git commit -qm $1; }}
    write first && me push --done first || exit 9
    [ $NIGHTLATCH_ATTEMPT = 1 ] && ps -o ppid= -p $PPID > {pid}
    write second && me push --done second
    """
    assert run(sqlite_url, site, script, "--lost", "again").returncode == -signal.SIGKILL
    again = run(sqlite_url, site, script, "--lost", "again")
    first, second = again.stdout.splitlines()
    assert (again.returncode, first) == (0, "skipped: first is done"), again.stderr
    assert (second == "skipped: second is done") == (hook == "post-receive")
    assert git(tmp_path / "remote.git", "log", "--format=%s", "main").split() == ["second", "first", "A", "change"]
    assert len([entry for entry in journal(sqlite_url, "published") if entry.get("adopted")]) == (second[:4] == "skip")


def test_an_item_of_a_batch_publishes_by_itself(sqlite_url, tmp_path):
    (tmp_path / "items").write_text("one\ntwo\n")
    script = f"echo {{}} > new-{{}}; {TOOL} publish new-{{}} out-{{}}"
    done = nightlatch(
        sqlite_url, "batch", "b", "items", "--key", "{}", "-j", "2", "--", "sh", "-c", script, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert [(tmp_path / f"out-{item}").read_text() for item in ("one", "two")] == ["one\n", "two\n"]


def test_what_is_refused_under_a_lease_of_its_own_is_told_to_the_supervisor(sqlite_url, tmp_path):
    script = "echo x > x; NIGHTLATCH_LEASE=other NIGHTLATCH_GRANT=none me publish x out; exit 0"
    assert run(sqlite_url, tmp_path, script).returncode == 0
    assert f"refused: file://{identity.machine()}{tmp_path}/out" in shown(sqlite_url).partition("\nrefused\n")[2]


def test_paths_that_the_supervisor_would_take_for_its_own_are_refused(sqlite_url, tmp_path):
    script = """python3 - <<'END'
import json, os, socket
line = socket.socket(socket.AF_UNIX)
line.connect(os.environ["NIGHTLATCH_SOCKET"])
for word in ({"do": "publish", "source": "x", "target": "/tmp/x"}, {"do": "publish", "source": "/x", "target": "x"},
             {"do": "push", "folder": "."}):
    line.sendall(json.dumps({"grant": os.environ["NIGHTLATCH_GRANT"], **word}).encode() + b"\\n")
    print(json.loads(line.recv(10000))["exit_code"])
END"""
    assert run(sqlite_url, tmp_path, script).stdout.split() == ["64", "64", "64"]


JOBS = """
import os, pathlib
import nightlatch
from nightlatch import gates

OUT = pathlib.Path(os.environ["OUT"])

@nightlatch.job(key="k")
def publishes(site):
    run = nightlatch.current()
    pathlib.Path("new").write_text("text")
    note = [run.publish("new", "page"), run.push(folder=site, done="article"), run.push(folder=site, done="article")]
    OUT.write_text(repr(note))

@nightlatch.job(key="k")
def refused():
    gate = gates.File("page")
    with nightlatch.lease("inner", store=os.environ["STORE"]) as old:
        gate.write(old, b"old")
        nightlatch.connect(os.environ["STORE"]).evict("inner")
        with nightlatch.lease("inner", store=os.environ["STORE"], gates=[gates.File("page")]):
            gate.write(old.mark, b"stale")
"""


class Jobs(python_jobs.Jobs):
    def __init__(self, folder: Path, store: str) -> None:
        super().__init__(folder, store, JOBS.replace('os.environ["STORE"]', repr(store)))

    def refused(self, job: str) -> list[dict[str, Any]]:
        return [entry.facts for entry in open_for(self.store).journal.of_job(job) if entry.kind == "refused"]


def test_a_python_job_publishes_and_pushes(ledger_url, tmp_path, site):
    jobs = Jobs(tmp_path, ledger_url)
    (site / "page").write_text("two")
    git(site, "commit", "-qam", "Two")
    assert jobs.run(f"publishes.run({str(site)!r})").startswith("succeeded"), jobs.said
    head = git(site, "rev-parse", "HEAD")
    assert jobs.notes == [repr(["", head, ""])] and git(tmp_path / "remote.git", "rev-parse", "main") == head
    assert (tmp_path / "page").read_text() == "text"


def test_a_dry_run_lists_what_would_be_published(sqlite_url, tmp_path, site):
    jobs = Jobs(tmp_path, sqlite_url)
    jobs.run(
        f"publishes.dry_run({str(site)!r}) and __import__('types').SimpleNamespace(status=0, exit_code=0, reason=0)"
    )
    assert not (tmp_path / "page").exists()
    plan = nightlatch(sqlite_url, "show", "publishes", "--plan").stdout
    assert f"publish {tmp_path}/page" in plan and "push origin" in plan


def test_what_a_gate_refuses_in_a_python_job_is_in_its_record(sqlite_url, tmp_path):
    jobs = Jobs(tmp_path, sqlite_url)
    assert jobs.run("refused.run()").startswith("failed 73"), jobs.said
    (refused,) = jobs.refused("refused")
    assert refused["what"] == "inner" and int(refused["token"]) < int(refused["stands"])
    assert (tmp_path / "page").read_text() == "old"
