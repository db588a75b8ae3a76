"""As under cron: a session without a terminal, whose process group nobody's job control looks after."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.programs import NIGHTLATCH, TOOL, environment, until

NIGHT = f"""
sleep 600 &
kill -STOP $!
{TOOL} {{command}} -- true
echo "ended $?, the script goes on, beside it: $(ps -o state= -p $!)"
kill -KILL $!
"""


@pytest.mark.parametrize("command", ["lock job", "run job", "once key"])
def test_the_end_of_a_command_neither_hangs_up_on_its_script_nor_wakes_what_is_stopped(sqlite_url, command):
    script = ["sh", "-c", NIGHT.format(command=command)]
    done = subprocess.run(
        script, env=environment(sqlite_url), text=True, capture_output=True, start_new_session=True, timeout=60
    )
    assert done.stdout.strip() == "ended 0, the script goes on, beside it: T", done.stderr


# The demo in a process group that becomes orphaned while a worker of it is stopped, as when a shell that has started it
# in the background ends.
ORPHANING = """
import pathlib, subprocess, sys, time
demo = subprocess.Popen(sys.argv[2:], stdout=open(sys.argv[1], "w"), stderr=subprocess.STDOUT, process_group=0)
def stopped():
    stats = (pathlib.Path(f"/proc/{pid}/stat") for pid in open(f"/proc/{demo.pid}/task/{demo.pid}/children").read().split())
    return any(stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "T" for stat in stats)
while not stopped():
    time.sleep(0.005)
"""


def test_the_demo_comes_to_its_end_in_an_orphaned_process_group(sqlite_url, tmp_path):
    out = tmp_path / "out"
    words = [sys.executable, "-c", ORPHANING, str(out), *NIGHTLATCH, "demo"]
    subprocess.run(words, env=environment(sqlite_url), start_new_session=True, timeout=60, check=True)
    until(lambda: "nothing was left running" in out.read_text(), timeout=30)
