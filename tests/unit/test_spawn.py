"""Processes that are started inside a cgroup."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import nightlatch
from nightlatch.system import cgroup, spawn, tree

needs_cgroup = pytest.mark.skipif(not cgroup.possible(), reason="needs root or a delegated cgroup v2")


@pytest.fixture
def group():
    folder = cgroup.make(f"spawn-{os.getpid()}")
    yield folder
    cgroup.end(folder, 5.0)
    cgroup.remove(folder)


def start(group: str, words: list[str], stdout: int, **changes) -> int:
    options = {"streams": [(stdout, 1)], "group": 0, "default_signals": [signal.SIGPIPE], **changes}
    return spawn.spawn(group, words[0], words, {"PATH": os.defpath}, **options)


@needs_cgroup
def test_it_is_in_the_cgroup_from_its_first_instruction_in_a_group_with_default_signals(group, tmp_path):
    with open(tmp_path / "out", "wb") as out:
        pid = start(group, ["/bin/cat", "/proc/self/cgroup", "/proc/self/status", "/proc/self/stat"], out.fileno())
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    text = Path(tmp_path / "out").read_text()
    (own,) = [line for line in text.splitlines() if line.startswith("0::")]
    assert own.endswith("/" + os.path.basename(group))
    ignored = int(text.split("SigIgn:")[1].split()[0], 16)
    assert not ignored >> (signal.SIGPIPE - 1) & 1
    assert text.splitlines()[-1].split()[4] == str(pid), "a process group of its own"


@needs_cgroup
@pytest.mark.parametrize(("path", "error"), [("/nowhere/nothing", FileNotFoundError), ("/etc/passwd", PermissionError)])
def test_a_program_that_cannot_be_started_is_reported_as_posix_spawn_does_and_leaves_nothing(group, path, error):
    with pytest.raises(error) as raised:
        start(group, [path], 1)
    assert raised.value.filename == path
    assert cgroup.is_empty(group)


IN_A_WARDEN = """
import os, sys
from nightlatch.system import cgroup, spawn, tree
from nightlatch.system.lifetime import Lifetime, cgroup_of
from nightlatch.system.warden import Warden
if sys.argv[2] == "unsupported":
    spawn._SYS_CLONE3 = 100_000  # no such system call
if sys.argv[2] == "not joined":
    cgroup.join = lambda folder: False
if sys.argv[2] == "full":
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # files can be made, and nothing can be written into them
life = Lifetime(sys.argv[1])
guard = Warden(life.grant, lifetime=life, frugal=sys.argv[2] in ("frugal", "not joined"))
guard.start(["cat", "/proc/self/cgroup"], dict(os.environ), grace=1.0)
print(type(guard.report(60)).__name__, guard.report(60).status, flush=True)
guard.dismiss()
print("recorded", os.path.basename(cgroup_of(life.path)))
life.end()
assert not os.path.exists(f"{cgroup.own()}/nightlatch-{life.grant}")
"""


@needs_cgroup
@pytest.mark.parametrize("how", ["supported", "unsupported", "frugal"])
def test_a_warden_starts_its_command_in_the_cgroup_also_where_it_has_to_move_there(tmp_path, how):
    words = [sys.executable, "-c", IN_A_WARDEN, str(tmp_path), how]
    done = subprocess.run(words, text=True, capture_output=True, timeout=60)
    *groups, started, recorded = done.stdout.splitlines()
    name = recorded.split()[1]
    assert started == "Started 0" and name.startswith("nightlatch-"), done.stderr
    assert any(line.startswith("0::") and line.endswith(f"/{name}") for line in groups)


@needs_cgroup
def test_a_cgroup_that_cannot_be_recorded_on_a_full_disk_is_not_used(tmp_path):
    """A challenger would not find it."""
    words = [sys.executable, "-c", IN_A_WARDEN, str(tmp_path), "full"]
    done = subprocess.run(words, text=True, capture_output=True, timeout=60)
    *groups, started, recorded = done.stdout.splitlines()
    assert (started, recorded, done.stderr) == ("Started 0", "recorded ", "")
    assert not any(line.rpartition("/")[2].startswith("nightlatch-") for line in groups)


@needs_cgroup
def test_a_cgroup_that_the_warden_cannot_join_is_removed(tmp_path):
    words = [sys.executable, "-c", IN_A_WARDEN, str(tmp_path), "not joined"]
    done = subprocess.run(words, text=True, capture_output=True, timeout=60)
    assert (done.stdout.splitlines()[-2:], done.stderr) == (["Started 0", "recorded "], "")


WITHOUT_A_LEASE = """
import os, sys
from nightlatch import gates
from nightlatch.errors import Error
from nightlatch.runtime.supervisor.supervision import Supervision
from nightlatch.store import url
from nightlatch.system import cgroup, lifetime
store = url.connect(sys.argv[1])
supervision = Supervision(["true"], store.folder, frugal=True)
path = os.path.join(store.folder, "live", supervision.grant)
while not cgroup.members(lifetime.cgroup_of(path)):
    pass
group = lifetime.cgroup_of(path)
try:
    with supervision:
        supervision.hold(store, sys.argv[2], ttl=60.0, wait=0.0, gates=[gates.File("/dev/null/page")])
except Error as error:
    print(type(error).__name__, os.path.exists(group), os.path.exists(path))
"""


@needs_cgroup
@pytest.mark.parametrize(("name", "error"), [("held", "Busy"), ("free", "GateUnreachable")])
def test_a_start_that_gets_no_lease_leaves_no_cgroup_although_its_warden_was_in_it(tmp_path, name, error):
    store = f"sqlite:///{tmp_path}/store.db"
    words = [sys.executable, "-c", WITHOUT_A_LEASE, store, name]
    with nightlatch.lease("held", store=store):
        alone = os.environ | {tree.LINEAGE: ""}  # not nested in what holds the lease
        done = subprocess.run(words, env=alone, text=True, capture_output=True, timeout=60)
    assert done.stdout.split() == [error, "False", "False"], done.stderr
