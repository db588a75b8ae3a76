"""`nightlatch run`, as for an agent that starts at 2 a.m. while everybody sleeps."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path

from tests.support.programs import TOOL, carrying, children, midday, start, until
from tests.support.runs import run_job


def test_one_line_says_what_happened(sqlite_url, tmp_path):
    done = run_job(sqlite_url, "--key", "k", "--", "sh", "-c", "echo work; exit 3")
    assert done.returncode == 3
    assert done.stdout == "work\n"
    line = done.stderr.splitlines()[-1]
    for fact in ("job=job", "run=", "key=k", "attempt=1", "token=", "status=failed", "exit=3", "elapsed=", "head=job:"):
        assert fact in line
    log = Path(sqlite_url.removeprefix("sqlite:///") + ".d") / "runs.log"
    assert log.read_text().splitlines() == [line]


def test_a_key_that_is_done_is_skipped_and_one_that_failed_is_tried_again(sqlite_url):
    assert run_job(sqlite_url, "--key", "k", "--", "false").returncode == 1
    second = run_job(sqlite_url, "--key", "k", "--", "sh", "-c", "echo attempt $NIGHTLATCH_ATTEMPT")
    assert (second.returncode, second.stdout) == (0, "attempt 2\n")
    third = run_job(sqlite_url, "--key", "k", "--", "echo", "never")
    assert (third.returncode, third.stdout) == (0, "")
    assert "status=skipped" in third.stderr
    again = run_job(sqlite_url, "--key", "k", "--again", "--", "echo", "once more")
    assert (again.returncode, again.stdout) == (0, "once more\n")


def test_firings_of_one_slot_agree(sqlite_url):
    words = ("--slot", "0 2 1 1 *", "--tz", "Europe/Berlin", "--", "echo", "ran")
    assert [run_job(sqlite_url, *words).stdout for _ in range(3)] == ["ran\n", "", ""]
    assert re.search(r"slot=20\d\d-01-01T01:00Z", run_job(sqlite_url, *words).stderr)


def test_a_slot_is_named_for_the_time_zone_and_its_daylight_saving():
    import datetime
    import zoneinfo

    from nightlatch.core import schedule

    berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    for day, name in (("2026-07-02", "2026-07-02T00:00Z"), ("2026-12-02", "2026-12-02T01:00Z")):
        noon = datetime.datetime.fromisoformat(f"{day}T12:00+00:00").timestamp()
        assert schedule.name_of(schedule.parse("0 2 * * *", berlin).newest(noon)) == name
    on_time = datetime.datetime.fromisoformat("2026-07-02T00:00+00:00").timestamp()
    assert schedule.name_of(schedule.parse("0 2 * * *", berlin).newest(on_time)) == "2026-07-02T00:00Z"


def test_secrets_do_not_reach_the_kept_output(sqlite_url):
    done = run_job(sqlite_url, "--", "sh", "-c", "printf 'key: %s' $API_KEY; sleep 1; echo; echo $SHORT_KEY $NIGHTLATCH_TOKEN",
               env={"API_KEY": "sk-0123456789", "SHORT_KEY": "abc"})  # fmt: skip
    assert "sk-0123456789" not in done.stdout
    assert "key: [API_KEY]" in done.stdout
    assert "abc" in done.stdout
    assert "[NIGHTLATCH" not in done.stdout
    runs = Path(sqlite_url.removeprefix("sqlite:///") + ".d") / "runs"
    (kept,) = runs.rglob("output")
    assert kept.read_text() == done.stdout
    assert kept.stat().st_mode & 0o077 == 0


def test_kept_output_is_bounded(sqlite_url):
    done = run_job(sqlite_url, "--timeout", "150s", "--", "sh", "-c", "head -c 60000000 /dev/zero", timeout=170)
    assert done.returncode == 0
    folder = Path(sqlite_url.removeprefix("sqlite:///") + ".d") / "runs"
    assert sum(path.stat().st_size for path in folder.rglob("output*")) < 40_000_000


def test_a_verdict_tells_a_childs_75_from_ours(sqlite_url, tmp_path):
    path = tmp_path / "verdict"
    assert run_job(sqlite_url, "--verdict", str(path), "--", "sh", "-c", "exit 75").returncode == 75
    report = json.loads(path.read_text())
    assert (report["status"], report["exit_code"], report["version"]) == ("failed", 75, 1)


def test_the_stores_url_is_not_the_commands_business(sqlite_url):
    assert "NIGHTLATCH_STORE" not in run_job(sqlite_url, "--", "env").stdout


def test_the_environment_and_the_folder_are_as_asked(sqlite_url, tmp_path):
    done = run_job(sqlite_url, "--env", "A=b=c", "--cwd", str(tmp_path), "--", "sh", "-c", "echo $A; pwd")
    assert done.stdout.splitlines() == ["b=c", str(tmp_path)]


def test_a_child_in_any_language_speaks_json_lines(sqlite_url):
    program = """
import json, os, socket
line = socket.socket(socket.AF_UNIX); line.connect(os.environ["NIGHTLATCH_SOCKET"])
file = line.makefile("rw")
def ask(**request):
    file.write(json.dumps(request) + "\\n"); file.flush()
    return json.loads(file.readline())
grant = os.environ["NIGHTLATCH_GRANT"]
assert ask(grant=grant, do="progress", done=1, total=2)["ok"]
assert ask(grant=grant, do="check")["token"] == int(os.environ["NIGHTLATCH_TOKEN"])
assert ask(grant=grant, do="spend", usd=0.5)["used"] == {"usd": 0.5}
for bad in ({"do": "check"}, {"grant": "wrong", "do": "check"}, {"grant": grant, "do": "dance"}, {"grant": grant, "do": "spend", "usd": -1}):
    assert not ask(**bad)["ok"], bad
file.write("no json\\n"); file.flush()
assert not json.loads(file.readline())["ok"]
print("fine")
"""
    done = run_job(sqlite_url, "--", sys.executable, "-c", program)
    assert done.stdout == "fine\n", done.stdout + done.stderr


def test_what_is_not_begun_leaves_no_lifetime_behind(sqlite_url):
    words, noon = ("--key", "k", "--budget", "usd/day=1", "--meter", "report", "--"), midday()
    assert run_job(sqlite_url, *words, "sh", "-c", f"{TOOL} spend usd=1; exit 1", env=noon).returncode == 1
    assert run_job(sqlite_url, *words, "true", env=noon).returncode == 121
    assert not list((Path(sqlite_url.removeprefix("sqlite:///") + ".d") / "live").iterdir())


def test_dry_run_claims_and_starts_nothing(sqlite_url):
    done = run_job(sqlite_url, "--key", "k", "--dry-run", "--", "echo", "hello")
    assert done.returncode == 0
    assert "would run job (key k" in done.stdout
    assert not Path(sqlite_url.removeprefix("sqlite:///")).exists()


def test_a_run_by_hand_goes_on_with_the_unfinished_one(sqlite_url):
    run_job(sqlite_url, "--", "false")
    assert run_job(sqlite_url, "--", "sh", "-c", "echo $NIGHTLATCH_ATTEMPT").stdout == "2\n"
    assert run_job(sqlite_url, "--", "sh", "-c", "echo $NIGHTLATCH_ATTEMPT").stdout == "1\n"


def test_a_run_by_hand_does_not_go_on_with_one_that_has_a_key(sqlite_url):
    run_job(sqlite_url, "--key", "january", "--", "false")
    assert run_job(sqlite_url, "--", "sh", "-c", "echo $NIGHTLATCH_KEY").stdout.startswith("by-hand-")
    assert run_job(sqlite_url, "--key", "january", "--", "echo", "not done yet").stdout == "not done yet\n"


def test_what_a_run_calls_asks_the_store_of_the_run(sqlite_url):
    script = f"{TOOL} lock inner -- true && {TOOL} run inner2 --timeout 1m -- true && {TOOL} lease list"
    listed = run_job(sqlite_url, "--", "sh", "-c", script).stdout
    assert [line.split()[0] for line in listed.splitlines()] == ["inner", "inner2", "job"]


def test_a_machine_is_kept_awake_while_it_runs(sqlite_url, tmp_path):
    """With a stand-in for systemd-inhibit that says how it was called."""
    tool = tmp_path / "systemd-inhibit"
    tool.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/called\nwhile [ "$1" != tail ]; do shift; done\nexec "$@"\n')
    tool.chmod(0o755)
    mark = f"AWAKE-{os.urandom(6).hex()}"
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "MARK": mark}
    done = run_job(
        sqlite_url, "--keep-awake", "--", "sh", "-c", f"while [ ! -e {tmp_path}/called ]; do sleep 0.02; done", env=env
    )
    assert done.returncode == 0, done.stderr
    assert "--what=sleep:idle" in (tmp_path / "called").read_text()
    until(lambda: not carrying(mark))


def test_a_supervisor_at_rest_costs_little(sqlite_url):
    """Not a timed assertion: time on a CPU and pages of memory, over seconds in which nothing happens. `make bench` has
    the figures over a minute; here a tenth of a percent more is left for what the kernel counts on a busy machine."""
    running = start(sqlite_url, "run", "job", "--timeout", "60s", "--", "sleep", "60")
    try:
        (warden,) = until(
            lambda: children(running.pid) and children(children(running.pid)[0]) and children(running.pid)
        )
        pids = (running.pid, warden)
        until(lambda: _used_in(0.5, pids) < 0.001)  # what it does at its start is not what it does at rest
        used = _used_in(4, pids)
        memory = sum(_resident(pid) for pid in pids)
    finally:
        running.terminate()
        running.communicate()
    assert used < 4 * 0.003
    assert memory < 40_000_000


def _used_in(seconds: float, pids: tuple[int, ...]) -> float:
    before = sum(map(_used, pids))
    time.sleep(seconds)
    return sum(map(_used, pids)) - before


def _used(pid: int) -> float:
    """Seconds on a CPU, all threads."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir()) / 1e9


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
