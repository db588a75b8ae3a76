"""What a command says, prints or does badly, and a store that is away, end no supervisor; what is asked to end, ends."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.programs import NIGHTLATCH, TOOL, environment, nightlatch, start, until
from tests.support.runs import Running, listed, one, run_job

WORDS = """
import os, socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect(os.environ["NIGHTLATCH_SOCKET"])
for words in sys.argv[1:]:
    line.sendall(words.replace("GRANT", os.environ["NIGHTLATCH_GRANT"]).encode() + b"\\n")
    assert b'"ok": false' in line.recv(1 << 16), words
"""


def test_what_a_command_says_does_not_end_its_supervisor(ledger_url: str) -> None:
    words = [
        "[" * 100_000,
        '{"grant": "GRANT", "do": "progress", "done": 1e400}',
        '{"grant": "GRANT", "do": "progress", "done": 99999999999999999999}',
        '{"grant": "GRANT", "do": "progress", "done": -1}',
        '{"grant": "GRANT", "do": "retry-after", "seconds": NaN}',
        '{"grant": "GRANT", "do": "retry-after", "seconds": -1}',
    ]
    done = run_job(ledger_url, "--", sys.executable, "-c", WORDS, *words)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("cost", ["-100", "NaN", "1e400", "1" + "0" * 400, '"much"'])
def test_an_amount_that_is_none_counts_nothing_and_fails_nothing(sqlite_url: str, cost: str) -> None:
    result = f'{{"type": "result", "total_cost_usd": {cost}, "usage": {{"in": 3, "out": -4}}}}'
    done = run_job(sqlite_url, "--meter", "output", "--", "echo", result)
    assert done.returncode == 0 and "usd" not in done.stderr.partition("reason")[0], done.stderr


def test_a_budget_that_nothing_was_counted_against_is_told(sqlite_url: str) -> None:
    metered = ("--meter", "output", "--budget", "usd=1")
    assert "its budget was not counted" in run_job(sqlite_url, *metered, "--", "echo", "done").stderr
    result = '[{"type": "system"}, {"type": "result", "total_cost_usd": 0.5}]'
    counted = run_job(sqlite_url, *metered, "--", "echo", result)
    assert "usd=0.5" in counted.stderr and "not counted" not in counted.stderr


def test_three_times_a_tenth_is_within_a_budget_of_three_tenths(sqlite_url: str) -> None:
    script = f"for i in 1 2 3; do {TOOL} spend usd=0.1 || exit; done; {TOOL} progress 1"
    done = run_job(sqlite_url, "--budget", "usd=0.3", "--meter", "report", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr


def test_secrets_are_taken_out_of_the_recorded_command_and_of_what_is_reported(sqlite_url: str) -> None:
    script = f"{TOOL} progress 1/2 'with opensesame1'"
    env = {"SITE_KEY": "opensesame1"}
    done = run_job(sqlite_url, "--env", "MY_TOKEN=opensesame2", "--", "sh", "-c", script, "opensesame2", env=env)
    assert done.returncode == 0, done.stderr
    shown = nightlatch(sqlite_url, "show", "job", "--json").stdout
    assert "opensesame" not in shown and "with [SITE_KEY]" in shown and "[MY_TOKEN]" in shown


def test_a_secret_need_not_be_text(sqlite_url: str) -> None:
    env = {"SITE_KEY": os.fsdecode(b"\xff\xfe-opensesame")}
    done = run_job(sqlite_url, "--", "printenv", "SITE_KEY", env=env)
    assert (done.returncode, done.stdout) == (0, "[SITE_KEY]\n"), done.stderr


def test_between_two_attempts_a_signal_ends_it(sqlite_url: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("w") as stderr:
        waits = start(sqlite_url, "run", "job", "--retries", "3", "--backoff", "10d", "--", "false", stderr=stderr)
    until(lambda: "attempt=1" in log.read_text())
    waits.terminate()
    assert waits.wait(timeout=30) == 128 + signal.SIGTERM


def test_attempts_leave_no_descriptors_behind(sqlite_url: str) -> None:
    supervisor = "/proc/$(sed -n 's/^PPid:\t//p' /proc/$PPID/status)/fd"
    retries = ("--retries", "5", "--backoff", "1ms")
    done = run_job(sqlite_url, *retries, "--", "sh", "-c", f"ls {supervisor} | wc -l; exit 1")
    counts = done.stdout.split()
    assert len(counts) == 6 and counts[5] == counts[1], counts


def test_who_is_interrupted_has_not_succeeded_however_well_the_command_took_it(sqlite_url: str, tmp_path: Path) -> None:
    polite = "trap 'exit 0' TERM INT; while :; do sleep 0.05; done"
    for key, signum in ("a", signal.SIGTERM), ("b", signal.SIGINT):
        running = Running(sqlite_url, tmp_path, "job", key=key, script=polite)
        running.process.send_signal(signum)
        running.process.communicate(timeout=30)
        assert running.process.returncode == 128 + signum


def test_a_log_that_cannot_be_written_fails_no_run(sqlite_url: str, tmp_path: Path) -> None:
    log, verdict = tmp_path / "state/nightlatch.db.d/runs.log", tmp_path / "verdict.json"
    log.parent.mkdir(parents=True)
    log.symlink_to("/dev/full")
    done = run_job(sqlite_url, "--verdict", str(verdict), "--", "true")
    assert done.returncode == 0, done.stderr
    said, line = done.stderr.splitlines()
    assert said.startswith(f"nightlatch: {log} ") and "No space left" in said
    assert "status=succeeded" in line and verdict.exists()


def test_a_fault_in_the_middle_is_recorded(sqlite_url: str, tmp_path: Path) -> None:
    """A file stands where the runs' folders should be: there is no place for the gateway's programs."""
    folder = tmp_path / "state" / "nightlatch.db.d"
    folder.mkdir(parents=True)
    (folder / "runs").write_text("not a folder")
    done = run_job(sqlite_url, "--budget", "calls=5", "--", "true")
    assert done.returncode == 125 and "could not go on" in done.stderr, done.stderr
    assert one(sqlite_url, "job")["status"] == "failed"


@pytest.mark.parametrize("screen", [os.pipe, pty.openpty])
def test_a_screen_that_takes_nothing_more_lifts_no_bound_and_loses_nothing(
    sqlite_url: str, screen: Callable[[], tuple[int, int]]
) -> None:
    """As after Ctrl-S, or in a pager: nobody reads. The run ends in time and is recorded; what is left is shown then."""
    reader, writer = screen()
    run = start(sqlite_url, "run", "job", "--timeout", "1s", "--grace", "100ms", "--", "yes", stdout=writer)
    os.close(writer)
    until(lambda: Path(sqlite_url.removeprefix("sqlite:///")).exists() and [*listed(sqlite_url)])
    until(lambda: one(sqlite_url, "job")["status"] == "timed-out")
    assert run.poll() is None
    shown = b"".join(read_all(reader)).replace(b"\r", b"")
    assert run.wait(timeout=30) == 124
    assert shown.decode() == nightlatch(sqlite_url, "logs", "--raw", "job").stdout


def read_all(fd: int) -> Iterator[bytes]:
    while True:
        try:
            data = os.read(fd, 1 << 16)
        except OSError:
            data = b""  # how a terminal ends
        if not data:
            os.close(fd)
            return
        yield data


def test_standard_streams_may_be_closed(sqlite_url: str) -> None:
    closed = f"{TOOL} run job --timeout 1m -- echo said <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", closed], env=environment(sqlite_url)).returncode == 0
    assert nightlatch(sqlite_url, "logs", "job").stdout == "said\n"


@pytest.mark.parametrize("words", [("run", "job", "--key", "k"), ("lock", "job"), ("once", "k")])
def test_a_caller_that_ignores_the_end_of_its_children_hides_no_exit_code(
    sqlite_url: str, words: tuple[str, ...]
) -> None:
    """Then the kernel keeps none, and an ended child's pid may soon be a stranger's, whom we would kill."""
    ignoring = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    )
    line = [sys.executable, "-c", ignoring, *NIGHTLATCH, *words, "--", "sh", "-c", "exit 3"]
    done = subprocess.run(line, env=environment(sqlite_url), capture_output=True, text=True)
    assert done.returncode == (76 if words[0] == "once" else 3), done.stderr


def test_a_run_without_a_workspace_has_not_that_of_the_run_around_it(sqlite_url: str) -> None:
    inner = f"{TOOL} run inner --timeout 1m -- sh -c 'echo \"<$NIGHTLATCH_WORKSPACE>\"'"
    done = run_job(sqlite_url, "--workspace", "scratch", "--", "sh", "-c", inner)
    assert (done.returncode, done.stdout) == (0, "<>\n"), done.stderr


# A /tmp of its own, in which another user was first to make the folder whose name is known.
SQUATTED = """
mount -t tmpfs -o mode=1777 none /tmp
mkdir -m 0700 /tmp/nightlatch-0
chown 65534 /tmp/nightlatch-0
unset XDG_RUNTIME_DIR
exec "$@"
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make what belongs to another user")
@pytest.mark.skipif(
    os.path.abspath(__file__).startswith("/tmp/"), reason="this clone is in /tmp, which the test covers"
)
def test_a_folder_that_another_user_made_in_tmp_is_in_nobodys_way():
    words = [*NIGHTLATCH, "run", "job", "--", *NIGHTLATCH, "progress", "1"]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", SQUATTED, "sh", *words],
        env=environment("sqlite:////tmp/state/nightlatch.db", XDG_STATE_HOME="/tmp/state"), text=True, capture_output=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
