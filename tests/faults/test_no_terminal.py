"""As under cron: a session without a terminal, whose process group nobody's job control looks after."""

from __future__ import annotations

import subprocess

import pytest

from tests.programs import TOOL, environment

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
