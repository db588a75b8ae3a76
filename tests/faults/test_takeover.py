"""When a lease is taken over: its holder is killed, stopped, half dead."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from tests.support.programs import Held, alive, nightlatch, python, state, until


@pytest.fixture
def hold(sqlite_url, tmp_path):
    held = []

    def hold(*options: str, **more) -> Held:
        held.append(Held(sqlite_url, tmp_path, "job", *options, **more))
        return held[-1]

    yield hold
    for each in held:
        each.end()


def taken(done) -> int:
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


TOKEN = ("--", "sh", "-c", "echo $NIGHTLATCH_TOKEN")


def test_a_killed_holder_is_followed_at_once_when_its_tree_is_gone(sqlite_url, hold):
    first = hold("--ttl", "1h")
    os.kill(first.supervisor, signal.SIGKILL)
    token = taken(nightlatch(sqlite_url, "lock", "job", "--wait", "50s", *TOKEN))  # shorter than the TTL
    assert token > first.token
    assert not alive(first.command)


@pytest.mark.parametrize("trouble", ["OSError(5, 'Input/output error')", "KeyboardInterrupt()"])
def test_a_grant_that_its_process_never_heard_of_keeps_nobody_waiting(sqlite_url, trouble):
    """It stands in the store, and the process ends without a lease: a disk that reports an error, a Ctrl-C."""
    program = f"""
import nightlatch
from nightlatch.system import durable

store = nightlatch.connect()
assert store.id
def flush(fd):
    raise {trouble}
durable.flush = flush
nightlatch.lease("job", ttl="1h", store=store).acquire()
"""
    first = python(sqlite_url, program)
    assert "acquire" in first.communicate()[1]
    assert first.returncode
    assert taken(nightlatch(sqlite_url, "lock", "job", *TOKEN))


def test_a_killed_holder_is_not_followed_while_a_part_of_it_lives(sqlite_url):
    """A forked child has the lifetime lock too: its parent's death proves nothing."""
    program = """
import os, nightlatch
lease = nightlatch.lease("job").acquire()
child = os.fork()
if not child:
    os.read(0, 1)
    os._exit(0)
print(child, flush=True)
os.wait()
"""
    first = python(sqlite_url, program, stdin=subprocess.PIPE)
    assert first.stdout and first.stdin
    child = int(first.stdout.readline())
    first.kill()
    first.wait()
    assert alive(child)
    assert nightlatch(sqlite_url, "lock", "job", *TOKEN).returncode == 75
    first.stdin.close()
    until(lambda: not alive(child))
    assert nightlatch(sqlite_url, "lock", "job", *TOKEN).returncode == 0


def test_supervisor_and_warden_killed_at_once_leave_nothing_when_the_lease_moves(sqlite_url, hold):
    first = hold("--ttl", "1h")
    os.kill(first.supervisor, signal.SIGSTOP)  # so that neither can act on the other's death
    os.kill(first.warden, signal.SIGKILL)
    os.kill(first.supervisor, signal.SIGKILL)
    until(lambda: not alive(first.supervisor))
    assert alive(first.command)
    assert taken(nightlatch(sqlite_url, "lock", "job", "--wait", "50s", *TOKEN)) > first.token
    assert not alive(first.command)


def test_a_stopped_holder_keeps_its_lease_for_the_ttl_and_loses_it_then(sqlite_url, hold):
    first = hold("--ttl", "6s")
    os.kill(first.supervisor, signal.SIGSTOP)
    assert nightlatch(sqlite_url, "lock", "job", *TOKEN).returncode == 75
    token = taken(nightlatch(sqlite_url, "lock", "job", "--wait", "50s", *TOKEN))
    assert token > first.token
    assert not alive(first.command), "the warden ends the tree by its own clock"
    os.kill(first.supervisor, signal.SIGCONT)
    assert first.process.wait(60) == 123
    assert "another" in first.process.communicate()[1]


def test_a_wholly_stopped_tree_is_ended_before_the_lease_moves(sqlite_url, hold):
    first = hold("--ttl", "2s")
    for pid in (first.supervisor, first.warden, first.command):
        os.kill(pid, signal.SIGSTOP)
    assert taken(nightlatch(sqlite_url, "lock", "job", "--wait", "50s", *TOKEN)) > first.token
    assert not alive(first.command)
    os.kill(first.warden, signal.SIGCONT)
    os.kill(first.supervisor, signal.SIGCONT)
    assert first.process.wait(60) == 123


HOLD_IN_PYTHON = """
import sys, nightlatch
with nightlatch.lease("job", ttl="2s") as lease:
    print(lease.token, flush=True)
    sys.stdin.readline()
    try:
        lease.check()
        print("held", flush=True)
    except nightlatch.LeaseLost as lost:
        print(lost.reason, flush=True)
"""


def test_a_python_holder_stopped_past_its_ttl_knows_it_on_waking(sqlite_url):
    first = python(sqlite_url, HOLD_IN_PYTHON, stdin=subprocess.PIPE)
    assert first.stdout and first.stdin
    token = int(first.stdout.readline())
    os.kill(first.pid, signal.SIGSTOP)
    until(lambda: state(first.pid) == "T")
    assert taken(nightlatch(sqlite_url, "lock", "job", "--wait", "50s", *TOKEN)) > token
    first.stdin.write("\n")
    first.stdin.flush()
    os.kill(first.pid, signal.SIGCONT)
    assert first.communicate()[0].strip() in ("expired", "taken")


def test_a_killed_python_holder_is_followed_at_once_and_its_children_are_gone(sqlite_url):
    program = HOLD_IN_PYTHON.replace(
        "print(lease.token,", "import subprocess; p = subprocess.Popen(['sleep', '600']); print(lease.token, p.pid,"
    ).replace("2s", "60s")
    first = python(sqlite_url, program, stdin=subprocess.PIPE)
    assert first.stdout
    token, child = map(int, first.stdout.readline().split())
    first.kill()
    first.wait()
    assert alive(child)
    assert taken(nightlatch(sqlite_url, "lock", "job", "--wait", "50s", *TOKEN)) > token
    assert not alive(child)


def test_a_grant_without_a_living_holder_lasts_for_its_ttl(sqlite_url):
    assert nightlatch(sqlite_url, "lease", "acquire", "job", "--ttl", "5s").returncode == 0
    assert nightlatch(sqlite_url, "lease", "acquire", "job").returncode == 75
    assert nightlatch(sqlite_url, "lease", "acquire", "job", "--wait", "50s").returncode == 0


def test_a_grant_bound_to_a_process_ends_with_it(sqlite_url):
    bound = python(sqlite_url, "import time; time.sleep(600)")
    assert nightlatch(sqlite_url, "lease", "acquire", "job", "--ttl", "1h", "--pid", str(bound.pid)).returncode == 0
    assert nightlatch(sqlite_url, "lease", "acquire", "job").returncode == 75
    bound.kill()
    bound.communicate()
    assert nightlatch(sqlite_url, "lease", "acquire", "job").returncode == 0


def test_a_grant_is_not_bound_to_a_thread_which_ends_before_its_process(sqlite_url):
    bound = python(
        sqlite_url,
        """
import threading, time
def work():
    print(threading.get_native_id(), flush=True)
    time.sleep(600)
threading.Thread(target=work).start()
time.sleep(600)
""",
    )
    assert bound.stdout
    refused = nightlatch(sqlite_url, "lease", "acquire", "job", "--pid", bound.stdout.readline().strip())
    assert refused.returncode == 64 and f"Use {bound.pid}" in refused.stderr, refused
    bound.kill()
    bound.communicate()


def test_a_reused_pid_is_not_taken_for_the_holder(sqlite_url):
    """The start time differs, so the process that has the pid now is somebody else."""
    from nightlatch.core.value import replace
    from nightlatch.runtime.shared.leases.acquire import acquire
    from nightlatch.store.url import connect
    from nightlatch.system import identity

    store = connect(sqlite_url)
    earlier = replace(identity.holder(pid=os.getpid()), start=1)
    acquire(store, "job", identity.new_id(), earlier, 3600, 0)
    assert nightlatch(sqlite_url, "lease", "acquire", "job").returncode == 0
