"""`nightlatch lock`, as somebody with flock and timeout in a crontab would use it."""

from __future__ import annotations

import os
import pty
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.programs import NIGHTLATCH, TOOL, Held, alive, environment, nightlatch, start, until

TOKEN = ("--", "sh", "-c", "echo $NIGHTLATCH_TOKEN")


def test_tokens_rise(sqlite_url):
    first, second = (int(nightlatch(sqlite_url, "lock", "x", *TOKEN).stdout) for _ in range(2))
    assert second > first


@pytest.mark.parametrize("code", [0, 1, 7, 75, 123, 124, 255])
def test_the_commands_own_exit_code_is_passed_on(sqlite_url, code):
    assert nightlatch(sqlite_url, "lock", "x", "--", "sh", "-c", f"exit {code}").returncode == code


def test_a_command_ended_by_a_signal_gives_128_and_its_number(sqlite_url):
    assert nightlatch(sqlite_url, "lock", "x", "--", "sh", "-c", "kill -KILL $$").returncode == 137


def test_a_held_lease_exits_75_and_names_holder_and_expiry(sqlite_url, tmp_path):
    held = Held(sqlite_url, tmp_path, "x", "--ttl", "60s")
    refused = nightlatch(sqlite_url, "lock", "x", "--", "true")
    held.end()
    assert refused.returncode == 75
    for word in ("x is held by", f"pid {held.supervisor}", "until", f"token {held.token}", "--wait"):
        assert word in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_held_ok_turns_75_into_0_without_running_the_command(sqlite_url, tmp_path):
    held = Held(sqlite_url, tmp_path, "x")
    refused = nightlatch(sqlite_url, "lock", "x", "--held-ok", "--", "echo", "ran")
    held.end()
    assert (refused.returncode, refused.stdout, refused.stderr) == (0, "", "")  # cron mails whatever is printed


def test_a_waiter_gets_the_lease_when_it_is_released(sqlite_url, tmp_path):
    go = tmp_path / "go"
    waiting = Held.COMMAND.replace("exec sleep 600", f"while [ ! -e {go} ]; do sleep 0.01; done")
    held = Held(sqlite_url, tmp_path, "x", command=waiting)
    waiter = start(sqlite_url, "lock", "x", "--wait", "50s", "--", "date", "+%s.%N")
    until((tmp_path / "state" / "nightlatch.db.d" / "line" / "x").exists)
    go.touch()
    held.process.wait(60)
    released = time.time()
    out, _ = waiter.communicate(timeout=60)
    assert waiter.returncode == 0
    assert float(out) - released < 30, "woken by the release, not by the TTL"


def test_waiting_in_vain_ends_with_75(sqlite_url, tmp_path):
    held = Held(sqlite_url, tmp_path, "x")
    assert nightlatch(sqlite_url, "lock", "x", "--wait", "300ms", "--", "true").returncode == 75
    held.end()


def test_the_command_gets_the_leases_environment(sqlite_url):
    shown = nightlatch(sqlite_url, "lock", "x", "--", "env").stdout
    for name in ("NIGHTLATCH_LEASE=x", "NIGHTLATCH_TOKEN=", "NIGHTLATCH_GRANT=", "NIGHTLATCH_LINEAGE="):
        assert name in shown


def test_standard_streams_are_the_commands_own(sqlite_url):
    done = nightlatch(sqlite_url, "lock", "x", "--", "sh", "-c", "cat; echo err >&2", input="words\n")
    assert (done.stdout, done.stderr) == ("words\n", "err\n")


def test_a_name_inside_itself_is_an_error_and_no_endless_wait(sqlite_url):
    inner = [*NIGHTLATCH, "lock", "x", "--wait", "1h", "--", "true"]
    done = nightlatch(sqlite_url, "lock", "x", "--", *inner)
    assert done.returncode == 75
    assert "held already by this program, or by the run it was started in" in done.stderr


def test_another_name_inside_is_fine(sqlite_url):
    inner = [*NIGHTLATCH, "lock", "y", "--", "sh", "-c", "echo $NIGHTLATCH_LEASE"]
    assert nightlatch(sqlite_url, "lock", "x", "--", *inner).stdout == "y\n"


def test_a_command_that_is_not_there_gives_127_and_the_path_that_was_tried(sqlite_url):
    done = nightlatch(sqlite_url, "lock", "x", "--", "no-such-command", env={"PATH": "/usr/bin:/bin"})
    assert done.returncode == 127
    assert "looked in /usr/bin:/bin" in done.stderr


def test_a_file_that_cannot_be_executed_gives_126(sqlite_url, tmp_path):
    (tmp_path / "data").write_text("no program")
    assert nightlatch(sqlite_url, "lock", "x", "--", str(tmp_path / "data")).returncode == 126
    assert nightlatch(sqlite_url, "lock", "x", "--", str(tmp_path)).returncode == 126


def test_a_script_without_a_first_line_is_given_to_the_shell(sqlite_url, tmp_path):
    script = tmp_path / "script"
    script.write_text("echo from $0 $1\n")
    script.chmod(0o755)
    assert nightlatch(sqlite_url, "lock", "x", "--", str(script), "me").stdout == f"from {script} me\n"


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_the_tree_and_gives_the_lease_back(sqlite_url, tmp_path, signum):
    held = Held(sqlite_url, tmp_path, "x")
    held.process.send_signal(signum)
    assert held.process.wait(60) == 128 + signum
    assert not alive(held.command)
    assert nightlatch(sqlite_url, "lease", "show", "x", "--json").stdout.count('"held": false') == 1


def test_a_command_may_tidy_up_when_it_is_asked_to_end(sqlite_url, tmp_path):
    tidy = 'trap "echo tidy; exit 9" TERM; echo "$$ 1 g" > "$1.part"; mv "$1.part" "$1"; while :; do sleep 0.05; done'
    held = Held(sqlite_url, tmp_path, "x", command=tidy)
    held.process.terminate()
    out, _ = held.process.communicate(timeout=60)
    assert (held.process.returncode, out) == (9, "tidy\n")


def test_signals_that_mean_something_to_the_command_are_passed_on(sqlite_url, tmp_path):
    command = 'trap "exit 8" USR1; echo "$$ 1 g" > "$1.part"; mv "$1.part" "$1"; while :; do sleep 0.05; done'
    held = Held(sqlite_url, tmp_path, "x", command=command)
    held.process.send_signal(signal.SIGUSR1)
    assert held.process.wait(60) == 8


def test_what_nohup_ignores_stays_ignored(sqlite_url):
    done = nightlatch(sqlite_url, "lock", "x", "--", "sh", "-c", "kill -HUP $$; echo alive", preexec_fn=ignore_hangup)
    assert done.stdout == "alive\n"


def ignore_hangup() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def test_ctrl_c_at_a_terminal_is_the_commands_to_handle(sqlite_url, tmp_path):
    """The terminal sends SIGINT to the command itself; the supervisor must not end it as well."""
    ready = tmp_path / "ready"
    script = f"trap 'echo caught' INT; touch {ready}; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; echo finished"
    pid, terminal = pty.fork()
    if pid == 0:
        program = [*NIGHTLATCH, "lock", "x", "--", "sh", "-c", script]
        os.execve(program[0], program, environment(sqlite_url))
    until(ready.exists)
    os.write(terminal, b"\x03")
    shown = b""
    while b"caught" not in shown:
        shown += os.read(terminal, 1000)
    (tmp_path / "go").touch()
    while b"finished" not in shown:
        shown += os.read(terminal, 1000)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_on_a_terminal_each_that_waits_says_once_for_whom(sqlite_url, tmp_path):
    """Also one that queues behind another."""
    work = f"until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    holder = start(sqlite_url, "lock", "x", "--", "sh", "-c", f"touch {tmp_path}/held; {work}")
    until((tmp_path / "held").exists)
    waiters = []
    for _ in range(2):
        pid, terminal = pty.fork()
        if pid == 0:
            program = [*NIGHTLATCH, "lock", "x", "--wait", "90s", "--", "echo", "worked"]
            os.execve(program[0], program, environment(sqlite_url))
        shown = b""
        while b"\n" not in shown:
            shown += os.read(terminal, 1000)
        assert b"nightlatch: waiting for x, held by " in shown and f"(pid {holder.pid})".encode() in shown
        waiters.append((pid, terminal))
    (tmp_path / "go").touch()
    for pid, terminal in waiters:
        shown = b""
        while b"worked" not in shown:
            shown += os.read(terminal, 1000)
        assert b"waiting" not in shown
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert holder.wait(60) == 0


def test_waiting_for_the_lease_of_the_run_around_it_is_refused_at_once(sqlite_url, tmp_path):
    """Although another, which was first, waits for it too."""
    nested = f"until [ -e {tmp_path}/go ]; do sleep 0.05; done; {TOOL} lock x --wait 10m -- true"
    holder = start(sqlite_url, "lock", "x", "--", "sh", "-c", f"touch {tmp_path}/held; {nested}")
    until((tmp_path / "held").exists)
    other = start(sqlite_url, "lock", "x", "--wait", "5m", "--", "true")
    line = Path(sqlite_url.removeprefix("sqlite:///") + ".d") / "line"
    until(lambda: line.is_dir() and any(line.iterdir()))
    time.sleep(0.5)
    (tmp_path / "go").touch()
    assert holder.wait(60) == 75
    assert other.wait(60) == 0


def test_the_store_is_private(sqlite_url):
    nightlatch(sqlite_url, "lock", "x", "--", "true")
    place = Path(sqlite_url.removeprefix("sqlite:///"))
    for path in (place.parent, *place.parent.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_the_default_store_is_a_file_in_the_state_folder(tmp_path):
    env = environment("")
    del env["NIGHTLATCH_STORE"]
    import subprocess

    done = subprocess.run([*NIGHTLATCH, "lock", "x", "--", "true"], env={**env, "XDG_STATE_HOME": str(tmp_path)})
    assert done.returncode == 0
    assert (tmp_path / "nightlatch" / "nightlatch.db").exists()


def test_many_grants_leave_no_files_behind(sqlite_url):
    for _ in range(5):
        nightlatch(sqlite_url, "lock", "x", "--", "true")
    live = Path(sqlite_url.removeprefix("sqlite:///") + ".d") / "live"
    assert list(live.iterdir()) == []


@pytest.mark.parametrize("words", [("lock", "job"), ("once", "key"), ("run", "job")], ids=["lock", "once", "run"])
def test_a_lock_file_that_cannot_be_removed_does_not_make_what_was_done_look_undone(sqlite_url, tmp_path, words):
    """As on a disk that has become read-only. Here a folder stands in the file's place."""
    script = 'rm "$0/$NIGHTLATCH_GRANT" && mkdir "$0/$NIGHTLATCH_GRANT"'
    live = tmp_path / "state" / "nightlatch.db.d" / "live"
    done = nightlatch(sqlite_url, *words, "--", "sh", "-c", script, str(live))
    assert done.returncode == 0, done.stderr
    assert "nightlatch:" not in done.stderr
    assert nightlatch(sqlite_url, *words, "--", "true").returncode == 0


def test_what_the_command_calls_asks_the_store_that_was_named(sqlite_url, tmp_path):
    other = f"sqlite:///{tmp_path}/other/nightlatch.db"
    (tmp_path / "new").write_text("new")
    publish = ["lock", "x", "--", *NIGHTLATCH, "publish", "new", "out"]
    done = nightlatch(other, "--store", sqlite_url, *publish, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out").read_text() == "new"


def test_a_lease_that_was_acquired_names_its_store(sqlite_url, tmp_path):
    other = f"sqlite:///{tmp_path}/other/nightlatch.db"
    script = f'eval "$({TOOL} --store {sqlite_url} lease acquire x)" && {TOOL} lease renew && {TOOL} lease release'
    done = subprocess.run(["sh", "-c", script], env=environment(other), text=True, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_ctrl_c_while_the_warden_is_forked_is_not_lost(sqlite_url, tmp_path):
    """What a fork calls swallows exceptions: an interrupt that came just then started the command all the same."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal\nos.register_at_fork(before=lambda: os.kill(os.getpid(), signal.SIGINT))\n"
    )
    done = nightlatch(sqlite_url, "lock", "a", "--", "echo", "started", env={"PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (130, "")
