"""`nightlatch once`: an effect is done once, and after a crash repeated only if somebody decides so."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

import nightlatch as package
from nightlatch.core import effects
from nightlatch.ledger import open_for
from tests.support.programs import NIGHTLATCH, alive, carrying, children, environment, nightlatch, python, start, until
from tests.support.servers.git import git_repository

ACT = 'echo x >> "$0"; echo posted'


@pytest.fixture
def acts(tmp_path: Path) -> Path:
    """A file with a line for each time the world was changed."""
    path = tmp_path / "acts"
    path.touch()
    return path


def count(acts: Path) -> int:
    return acts.read_text().count("x")


def test_a_key_that_is_done_is_skipped_with_its_result(sqlite_url, acts):
    first = nightlatch(sqlite_url, "once", "post/1", "--", "sh", "-c", ACT, str(acts))
    again = nightlatch(sqlite_url, "once", "post/1", "--", "sh", "-c", ACT, str(acts))
    assert (first.returncode, first.stdout) == (0, "posted\n")
    assert (again.returncode, again.stdout) == (0, "posted\n")
    assert "skipped" in again.stderr and "skipped" not in first.stderr
    assert count(acts) == 1


def test_scopes_do_not_know_each_other(sqlite_url, acts):
    for scope in ("a", "b", "a"):
        assert nightlatch(sqlite_url, "once", "k", "--scope", scope, "--", "sh", "-c", ACT, str(acts)).returncode == 0
    assert count(acts) == 2


@pytest.mark.parametrize("end", ["exit 1", "exit 28", "kill -9 $$"])
def test_any_other_end_is_in_doubt_and_not_repeated(sqlite_url, acts, end):
    command = ("once", "k", "--not-done", "6,7", "--", "sh", "-c", f"{ACT}; {end}", str(acts))
    first, again = nightlatch(sqlite_url, *command), nightlatch(sqlite_url, *command)
    assert (first.returncode, again.returncode) == (76, 76)
    assert "nightlatch resolve k done (or failed, or again" in again.stderr
    assert count(acts) == 1


def test_a_code_that_proves_nothing_was_done_may_be_tried_again(sqlite_url, acts):
    words = ("once", "k", "--not-done", "6-7", "--", "sh", "-c")
    assert nightlatch(sqlite_url, *words, "exit 7").returncode == 7
    assert nightlatch(sqlite_url, *words, ACT, str(acts)).returncode == 0
    assert count(acts) == 1


def test_a_command_that_cannot_be_started_did_nothing(sqlite_url):
    assert nightlatch(sqlite_url, "once", "k", "--", "no-such-command").returncode == 127
    assert nightlatch(sqlite_url, "once", "k", "--", "true").returncode == 0


NO_ROOM = """
from nightlatch.cli.main import main
from nightlatch.system.lifetime import Lifetime

def full(lifetime):
    raise OSError(28, "No space left on device", lifetime.path + ".tree")
Lifetime.enclose = full
main()
"""


def test_a_disk_without_room_for_the_locks_of_its_tree_leaves_no_doubt(sqlite_url, acts):
    """Nothing was started."""
    command = ("once", "k", "--", "sh", "-c", ACT, str(acts))
    full = python(sqlite_url, NO_ROOM, *command)
    said = full.communicate()[1]
    assert full.returncode == 69 and said.count("\n") == 1 and "No space left" in said, said
    assert nightlatch(sqlite_url, *command).returncode == 0
    assert count(acts) == 1


def test_a_timeout_is_in_doubt(sqlite_url, acts):
    command = ("once", "k", "--timeout", "2s", "--", "sh", "-c", f"{ACT}; sleep 600", str(acts))
    assert [nightlatch(sqlite_url, *command).returncode for _ in range(2)] == [76, 76]
    assert count(acts) == 1


def test_an_ended_supervisor_leaves_a_doubt(sqlite_url, acts):
    process = start(sqlite_url, "once", "k", "--", "sh", "-c", f"{ACT}; sleep 60", str(acts))
    until(lambda: count(acts))
    process.terminate()
    assert process.wait(60) == 76
    assert nightlatch(sqlite_url, "once", "k", "--", "sh", "-c", ACT, str(acts)).returncode == 76


def kill_tree(process) -> None:
    wardens = children(process.pid)
    below = [pid for warden in wardens for pid in children(warden)]
    for pid in (process.pid, *wardens, *below):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()
    until(lambda: not any(map(alive, below)))


@pytest.mark.parametrize(("probe", "code", "in_all"), [("exit 0", 0, 1), ("exit 1", 0, 2), ("exit 2", 76, 1)])
def test_a_probe_decides_what_a_killed_tree_left_in_doubt(sqlite_url, acts, probe, code, in_all):
    words = ("once", "k", "--timeout", "2s", "--settle", "0s", "--wait", "50s", "--probe", f"sh -c '{probe}'")
    process = start(sqlite_url, *words, "--", "sh", "-c", f"{ACT}; sleep 60", str(acts))
    until(lambda: count(acts))
    kill_tree(process)
    after = nightlatch(sqlite_url, *words, "--", "sh", "-c", ACT, str(acts))
    assert after.returncode == code, after.stderr
    assert count(acts) == in_all


def test_not_done_is_believed_only_after_the_deadline_and_the_settling_time_and_done_at_once(sqlite_url, acts):
    nightlatch(sqlite_url, "once", "k", "--", "sh", "-c", f"{ACT}; exit 1", str(acts))  # it may take 10m
    for probe in ("false", "sh -c 'exit 3'"):
        early = nightlatch(sqlite_url, "once", "k", "--settle", "0s", "--probe", probe, "--", "touch", f"{acts}.late")
        assert early.returncode == 76
        assert "may be under way for another 10m" in early.stderr
    assert not Path(f"{acts}.late").exists()
    seen = nightlatch(sqlite_url, "once", "k", "--probe", "true", "--", "touch", f"{acts}.late")
    assert seen.returncode == 0 and "skipped" in seen.stderr
    assert not Path(f"{acts}.late").exists()


FULL = """
import os, resource, sys
warden = os.getppid()
once = int(open(f"/proc/{warden}/stat").read().rpartition(")")[2].split()[1])
resource.prlimit(once, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))  # as a disk that is full from now on
with open(sys.argv[1], "a") as acts:
    acts.write("x")
"""


def test_what_has_acted_and_cannot_be_recorded_is_in_doubt(sqlite_url, acts):
    words = ("once", "k", "--", sys.executable, "-c", FULL, str(acts))
    full, again = nightlatch(sqlite_url, *words), nightlatch(sqlite_url, *words)
    assert full.returncode == 76 and "could not be recorded, so it is in doubt" in full.stderr
    assert (again.returncode, count(acts)) == (76, 1)


def test_how_it_ended_is_recorded_when_there_is_room_again(sqlite_url, acts):
    process = start(sqlite_url, "once", "k", "--", sys.executable, "-c", FULL, str(acts))
    until(lambda: count(acts) and not children(process.pid))
    time.sleep(0.7)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert process.wait(60) == 0
    assert "skipped" in nightlatch(sqlite_url, "once", "k", "--", "false").stderr


@pytest.mark.parametrize("apart", [False, True], ids=["here", "in a container"])
def test_what_a_crash_left_begun_needs_you_when_its_holder_is_gone_or_its_time_is_over(sqlite_url, acts, apart):
    """Whether a process in another pid namespace is gone is not known from here."""
    alone = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"] if apart else []
    words = ("once", "k", "--timeout", "1s" if apart else "1h", "--", "sh", "-c", f"{ACT}; exec sleep 600", str(acts))
    process = subprocess.Popen([*alone, *NIGHTLATCH, *words], env=environment(sqlite_url), start_new_session=True)
    until(lambda: count(acts))
    if not apart:
        assert "resolve k" not in nightlatch(sqlite_url).stdout, "it is at work"
    process.kill()
    process.wait()
    (row,) = until(lambda: [line for line in nightlatch(sqlite_url).stdout.splitlines() if "resolve k" in line])
    reason = "its end was not reported" if apart else "is gone"
    assert row.split()[0] == "?" and "begun" in row and reason in row
    assert nightlatch(sqlite_url, "status", "--exit-code").returncode == 1


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("before", [True, False])
def test_who_waits_for_a_probe_is_told_so_and_ends_when_asked(sqlite_url, acts, before, signum):
    words = ("once", "k", "--wait", "1h", "--probe", "false", "--", "sh", "-c", f"{ACT}; exit 5", str(acts))
    if before:
        nightlatch(sqlite_url, "once", "k", *words[-5:])
    waiting = start(sqlite_url, *words)
    assert waiting.stderr and "Waiting; Ctrl-C" in waiting.stderr.readline()
    early = nightlatch(sqlite_url, "resolve", "k", "done", "--wait", "0s")
    assert early.returncode == 75 and "a process does the effect k, or waits for its probe" in early.stderr
    waiting.send_signal(signum)
    _, said = waiting.communicate(timeout=60)
    assert waiting.returncode == 76
    assert "asked to end while it waited" in said and "nightlatch resolve k done" in said
    assert count(acts) == 1


def test_a_probe_is_ended_with_who_waits_for_it(sqlite_url, acts):
    words = ("once", "k", "--wait", "1h", "--probe", f"sh -c 'echo $$ > {acts}.probe; exec sleep 600'")
    waiting = start(sqlite_url, *words, "--", "sh", "-c", f"{ACT}; exit 5", str(acts))
    place = Path(f"{acts}.probe")
    probe = int(until(lambda: place.exists() and place.read_text()))
    waiting.terminate()
    assert waiting.wait(60) == 76
    assert not alive(probe)


LEAVING = "sh -c '(setsid sleep 600 &); sleep 600 & exit 0'"


@pytest.mark.parametrize("before", [True, False], ids=["in doubt before", "in doubt now"])
def test_what_a_probe_leaves_running_does_not_outlive_once(sqlite_url, before):
    mark = f"PROBE-{os.urandom(8).hex()}"
    if before:
        assert nightlatch(sqlite_url, "once", "k", "--", "false").returncode == 76
    probed = nightlatch(sqlite_url, "once", "k", "--probe", LEAVING, "--", "false", env={"PROBE": mark})
    assert probed.returncode == 0, probed.stderr
    assert not carrying(mark)


def test_a_probe_does_not_outlive_a_killed_once(sqlite_url, acts):
    mark = f"PROBE-{os.urandom(8).hex()}"
    assert nightlatch(sqlite_url, "once", "k", "--", "false").returncode == 76
    probe = f"sh -c '(setsid sleep 600 &); touch {acts}.probed; sleep 600'"
    waiting = start(sqlite_url, "once", "k", "--probe", probe, "--", "true", env={"PROBE": mark})
    until(Path(f"{acts}.probed").exists)
    waiting.kill()
    waiting.communicate()
    until(lambda: not carrying(mark))


def test_a_probe_is_not_asked_every_second(sqlite_url, acts):
    words = (
        "once",
        "k",
        "--timeout",
        "3s",
        "--settle",
        "0s",
        "--wait",
        "1h",
        "--probe",
        f"sh -c 'echo p >> {acts}; exit 1'",
    )
    assert nightlatch(sqlite_url, *words, "--", "sh", "-c", "exit 5").returncode == 5
    # At once, and after 1, 2 and 3 s more of the 6 that it may take; fewer where each of them takes long.
    assert 2 <= acts.read_text().count("p") <= 4


def test_a_command_is_not_started_when_its_time_is_over_before_its_intent_is_recorded(sqlite_url, acts):
    nightlatch(sqlite_url, "once", "another", "--", "true")
    store = package.connect(sqlite_url)
    ledger = sqlite3.connect(open_for(sqlite_url).address, isolation_level=None)
    ledger.execute("BEGIN IMMEDIATE")
    words = ("once", "k", "--timeout", "300ms", "--", "sh", "-c", ACT, str(acts))
    late = start(sqlite_url, *words)
    until(lambda: (record := store.read(effects.lease_name(effects.STORE_WIDE, "k"))) and record.grant)
    time.sleep(1.2)  # it waits for the ledger now, and its time goes by
    ledger.execute("ROLLBACK")
    _, said = late.communicate(timeout=60)
    assert (late.returncode, count(acts)) == (124, 0), said
    assert "not started" in said
    assert nightlatch(sqlite_url, "once", "k", "--", "sh", "-c", ACT, str(acts)).returncode == 0
    assert count(acts) == 1


@pytest.mark.parametrize(("word", "codes"), [("done", 0), ("failed", 0), ("again", 0)])
def test_a_person_resolves_it(sqlite_url, acts, word, codes):
    nightlatch(sqlite_url, "once", "k", "--", "sh", "-c", f"{ACT}; exit 1", str(acts))
    assert nightlatch(sqlite_url, "resolve", "k", word).returncode == 0
    assert nightlatch(sqlite_url, "once", "k", "--", "sh", "-c", ACT, str(acts)).returncode == codes
    assert count(acts) == (1 if word == "done" else 2)


def test_only_what_is_in_doubt_can_be_resolved(sqlite_url):
    nightlatch(sqlite_url, "once", "k", "--", "true")
    for key in ("k", "never"):
        assert nightlatch(sqlite_url, "resolve", key, "again").returncode == 64


def test_the_same_key_with_other_input_is_65(sqlite_url, tmp_path, acts):
    file = tmp_path / "input"
    file.write_text("one")
    words = ("--", "sh", "-c", ACT, str(acts))
    assert nightlatch(sqlite_url, "once", "k", "--input", "one", *words).returncode == 0
    assert nightlatch(sqlite_url, "once", "k", "--input", f"@{file}", *words).returncode == 0
    file.write_text("two")
    assert nightlatch(sqlite_url, "once", "k", "--input", f"@{file}", *words).returncode == 65
    assert count(acts) == 1


def test_a_second_one_at_the_same_time_is_refused(sqlite_url, acts):
    first = start(sqlite_url, "once", "k", "--", "sh", "-c", f"{ACT}; while [ ! -e $0.go ]; do sleep 0.02; done", acts)
    until(lambda: count(acts))
    second = nightlatch(sqlite_url, "once", "k", "--", "sh", "-c", ACT, str(acts))
    Path(f"{acts}.go").touch()
    assert first.wait(60) == 0
    assert second.returncode == 75
    assert "the effect k is being done right now" in second.stderr
    assert count(acts) == 1


def test_the_idempotency_key_is_the_same_at_every_try_and_holds_no_token(sqlite_url):
    show = 'echo "$NIGHTLATCH_KEY $NIGHTLATCH_IDEMPOTENCY_KEY $NIGHTLATCH_TOKEN $NIGHTLATCH_GRANT"; exit 7'
    tries = [nightlatch(sqlite_url, "once", "k", "--not-done", "7", "--", "sh", "-c", show) for _ in range(2)]
    (key, first, token, grant), (_, second, *_) = (done.stdout.split() for done in tries)
    assert key == "k" and first == second == package.idempotency_header("k")["Idempotency-Key"]
    assert token not in first and grant not in first


def test_inside_a_run_it_uses_the_runs_store(sqlite_url, acts, tmp_path):
    inner = [*NIGHTLATCH, "once", "k", "--", "sh", "-c", ACT, str(acts)]
    env = {"XDG_STATE_HOME": str(tmp_path / "elsewhere")}
    assert nightlatch(sqlite_url, "run", "job", "--", *inner, env=env).returncode == 0
    assert nightlatch(sqlite_url, "once", "k", "--", "sh", "-c", ACT, str(acts)).returncode == 0
    assert count(acts) == 1


def test_what_another_machine_has_begun_is_in_doubt_here_too(tmp_path, acts):
    """Two machines share a git store; each has a ledger of its own."""
    git_repository(tmp_path / "shared.git")
    store = f"git+file://{tmp_path}/shared.git"
    here, there = ({"XDG_STATE_HOME": str(tmp_path / machine)} for machine in ("here", "there"))
    act = ("--", "sh", "-c", ACT, str(acts))
    assert nightlatch(store, "once", "k", "--", "sh", "-c", f"{ACT}; exit 1", str(acts), env=here).returncode == 76
    assert nightlatch(store, "once", "k", *act, env=there).returncode == 76
    assert count(acts) == 1
    assert nightlatch(store, "resolve", "k", "again", env=there).returncode == 0
    assert nightlatch(store, "once", "k", *act, env=there).returncode == 0
    assert count(acts) == 2
    skipped = nightlatch(store, "once", "k", *act, env=here)
    assert (skipped.returncode, skipped.stdout) == (0, "posted\n")
    assert count(acts) == 2


def test_a_probe_decides_what_another_machine_has_begun(tmp_path, acts):
    git_repository(tmp_path / "shared.git")
    store = f"git+file://{tmp_path}/shared.git"
    here, there = ({"XDG_STATE_HOME": str(tmp_path / machine)} for machine in ("here", "there"))
    words = ("once", "k", "--timeout", "5s", "--settle", "0s", "--wait", "50s")
    assert nightlatch(store, *words, "--", "sh", "-c", "exit 1", env=here).returncode == 76
    probed = nightlatch(store, *words, "--probe", "false", "--", "sh", "-c", ACT, str(acts), env=there)
    assert (probed.returncode, count(acts)) == (0, 1), probed.stderr
    assert "skipped" in nightlatch(store, *words, "--", "sh", "-c", ACT, str(acts), env=here).stderr
    assert count(acts) == 1


def test_on_postgresql_all_machines_share_one_ledger(postgres_url, acts):
    act = ("--", "sh", "-c", ACT, str(acts))
    doubtful = ("--", "sh", "-c", f"{ACT}; exit 1", str(acts))
    assert nightlatch(postgres_url, "once", "k", *doubtful).returncode == 76
    assert nightlatch(postgres_url, "once", "k", *act).returncode == 76
    assert nightlatch(postgres_url, "resolve", "k", "again").returncode == 0
    assert [nightlatch(postgres_url, "once", "k", *act).returncode for _ in range(2)] == [0, 0]
    assert count(acts) == 2
    assert not open_for(postgres_url).journal.verify().breaks


def test_it_all_stands_in_the_journal(sqlite_url):
    nightlatch(sqlite_url, "once", "k", "--", "false")
    nightlatch(sqlite_url, "resolve", "k", "done")
    ledger = open_for(sqlite_url)
    kinds = [entry.kind for entry in ledger.journal.of_job(effects.STORE_WIDE)]
    assert kinds == ["effect-begun", "effect-in-doubt", "effect-resolved"]
    assert not ledger.journal.verify().breaks


@pytest.mark.parametrize(
    "words",
    [("k",), ("k", "--not-done", "x", "--", "true"), ("k", "--not-done", "0", "--", "true"), ("", "--", "true"),
     ("k", "--scope", "../x", "--", "true"), ("k", "--timeout", "5", "--", "true"), ("k", "--input", "@no", "--", "a"),
     ("k", "--probe", "'", "--", "true"), ("k", "--probe", "./no-such-probe", "--", "true"), ("k", "--unknown", "--", "true")],
)  # fmt: skip
def test_words_that_make_no_sense_are_refused(sqlite_url, words):
    assert nightlatch(sqlite_url, "once", *words).returncode == 64


@pytest.mark.parametrize(("probe", "code", "again"), [("exit 0", 0, 1), ("exit 1", 5, 2), ("exit 2", 76, 1)])
def test_with_time_to_wait_the_same_call_asks_the_probe(sqlite_url, acts, probe, code, again):
    words = ("once", "k", "--timeout", "2s", "--settle", "200ms", "--wait", "50s", "--probe", f"sh -c '{probe}'")
    done = nightlatch(sqlite_url, *words, "--", "sh", "-c", f"{ACT}; exit 5", str(acts))
    assert (done.returncode, count(acts)) == (code, 1), done.stderr
    nightlatch(sqlite_url, *words, "--", "sh", "-c", ACT, str(acts))
    assert count(acts) == again


def test_what_the_command_calls_asks_the_store_that_was_named(sqlite_url, tmp_path):
    other = f"sqlite:///{tmp_path}/other/nightlatch.db"
    nightlatch(other, "--store", sqlite_url, "once", "outer", "--", *NIGHTLATCH, "once", "inner", "--", "true")
    assert "skipped" in nightlatch(sqlite_url, "once", "inner", "--", "true").stderr
