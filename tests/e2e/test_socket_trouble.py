"""What a command does at its socket does not touch its run: clients that hang up, and more of them than descriptors."""

from __future__ import annotations

import os
import resource
import sys

from tests.support.clones import begun, clone, commit, git
from tests.support.programs import start, until
from tests.support.runs import run_job
from tests.support.servers.git import git_repository

ROUNDS = int(os.environ.get("NIGHTLATCH_ROUNDS", "20"))

HANG_UP = """
import json, os, socket, sys, time
def ask(line, **request):
    line.sendall(json.dumps({"grant": os.environ["NIGHTLATCH_GRANT"], **request}).encode() + b"\\n")
for turn in range(int(sys.argv[1])):
    line = socket.socket(socket.AF_UNIX)
    line.connect(os.environ["NIGHTLATCH_SOCKET"])
    open("new", "w").write(str(turn))
    ask(line, do="publish", source=os.path.abspath("new"), target=os.path.abspath("out"))
    time.sleep(turn * 0.0007 % 0.01)  # at every point of its answer
    ask(line, do="check")
    line.close()
"""

MANY = """
import json, os, resource, socket
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
lines = []
for _ in range(300):
    lines.append(socket.socket(socket.AF_UNIX))
    lines[-1].connect(os.environ["NIGHTLATCH_SOCKET"])
lines[-1].sendall(json.dumps({"grant": os.environ["NIGHTLATCH_GRANT"], "do": "check"}).encode() + b"\\n")
assert b'"ok": true' in lines[-1].recv(1000)
import nightlatch
run = nightlatch.current()
run.progress(1)
for _ in range(300):
    lines.append(socket.socket(socket.AF_UNIX))
    lines[-1].connect(os.environ["NIGHTLATCH_SOCKET"])
run.progress(2)  # on a line that was cut off
"""


def test_a_client_that_hangs_up_while_its_publish_is_answered_does_not_end_the_run(sqlite_url, tmp_path):
    done = run_job(sqlite_url, "--", sys.executable, "-c", HANG_UP, str(ROUNDS), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out").exists()


def test_more_connections_than_descriptors_do_not_end_the_run(sqlite_url):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]

    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))

    done = run_job(sqlite_url, "--", sys.executable, "-c", MANY, preexec_fn=few, timeout=30)
    assert done.returncode == 0, done.stderr


CLASSES = """
import sys
from nightlatch import errors
from nightlatch.runtime.child import publishing as asking
from nightlatch.runtime.shared.client import send
def kind(ask):
    try:
        ask()
    except (errors.Error, errors.Stop) as error:
        return error
open("new", "w").write("x")
unreachable = kind(lambda: asking.publish("new", "new/below"))
assert type(unreachable) is errors.GateUnreachable and unreachable.exit_code == 69, repr(unreachable)
busy = kind(lambda: send(do="effect", key="post", lasting=60, settle=1))
assert type(busy) is errors.Busy and busy.record.holder.pid, repr(busy)
conflict = kind(lambda: asking.push("origin", "main", folder=sys.argv[1]))
assert type(conflict) is errors.Conflict and conflict.exit_code == 76, repr(conflict)
"""


def test_errors_arrive_at_the_command_as_what_they_are(sqlite_url, tmp_path):
    site = begun(git_repository(tmp_path / "remote.git"), tmp_path / "site")
    commit(site, "page", b"mine")
    other = clone(tmp_path / "remote.git", tmp_path / "other")
    git(other, "reset", "--quiet", "--hard", "origin/main")
    commit(other, "page", b"theirs")
    git(other, "push", "--quiet", "origin", "main")
    ready = tmp_path / "ready"
    once = start(sqlite_url, "once", "post", "--", "sh", "-c", f"touch {ready}; exec sleep 600")
    until(ready.exists)
    try:
        done = run_job(sqlite_url, "--", sys.executable, "-c", CLASSES, str(site), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    finally:
        once.terminate()
        once.communicate()
