"""`nightlatch serve` and `nightlatch tick` with a nightlatch.toml, as a person has them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs import NIGHTLATCH, children, environment, until

SOURCE = Path(__file__).parents[2] / "src"


class Place:
    """A folder with a nightlatch.toml, and its commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file, self.log = folder / "nightlatch.toml", folder / "serve.log"
        self.env = environment("") | {
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CONFIG_HOME": str(folder / "config"),
        }
        del self.env["NIGHTLATCH_STORE"]
        self.processes: list[subprocess.Popen[bytes]] = []

    def write(self, jobs: str) -> None:
        new = self.folder / "new"
        new.write_text(f'store = "sqlite:///state.db"\n{jobs}')
        new.rename(self.file)

    def serve(self, *before: str, **env: str) -> subprocess.Popen[bytes]:
        with open(self.log, "ab") as log:
            process = subprocess.Popen(
                [*before, *NIGHTLATCH, "serve"], cwd=self.folder, env=self.env | env, stderr=log, stdout=log
            )
        self.processes.append(process)
        until(lambda: "serving" in self.said)
        return process

    @property
    def said(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*NIGHTLATCH, *words], cwd=self.folder, env=self.env, text=True, capture_output=True, timeout=120
        )

    def seen(self, name: str = "seen") -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    for process in made.processes:
        process.kill()
        process.wait()


SEEN = 'command = "echo $NIGHTLATCH_SLOT >> seen"\ntimeout = "1m"\n'


def test_edits_count_and_a_broken_one_leaves_the_file_before_in_force(place: Place) -> None:
    place.write(f'[jobs.job]\nschedule = "every 1s"\n{SEEN}')
    place.serve()
    until(lambda: len(place.seen()) >= 2)
    place.write("[jobs.job]\nschedul = 3\n")
    until(lambda: "cannot be used, so" in place.said)
    before = len(place.seen())
    until(lambda: len(place.seen()) >= before + 2)
    place.write(f'[jobs.other]\nschedule = "every 1s"\n{SEEN.replace("seen", "others")}')
    until(lambda: place.seen("others"))
    assert place.said.count("cannot be used, so") == 1


@pytest.mark.parametrize("broken", ["[budget]\nusd = ", "[prices]\n[prices]\n", ""])
def test_while_the_file_is_broken_runs_have_the_settings_before(place: Place, broken: str) -> None:
    place.write(f'budget = {{ "tokens/day" = 1000000 }}\n[jobs.job]\nschedule = "every 1s"\n{SEEN}')
    place.serve()
    until(place.seen)
    place.file.unlink()
    place.file.write_text(broken) if broken else place.file.mkdir()
    until(lambda: "cannot be used, so" in place.said)
    before = len(place.seen())
    until(lambda: len(place.seen()) >= before + 3)
    assert "exit code 78" not in place.said


@pytest.mark.parametrize("whose", ["everybody's", "another user's"])
def test_a_version_that_others_may_have_written_is_not_put_into_force(place: Place, whose: str) -> None:
    if whose == "another user's" and os.geteuid():
        pytest.skip("only root can make a file another user's")

    def give_away(file: Path) -> None:
        os.chmod(file, 0o666) if whose == "everybody's" else os.chown(file, 12345, -1)

    place.write(f'[jobs.job]\nschedule = "every 1s"\n{SEEN}')
    serving = place.serve()
    until(place.seen)
    edited = place.folder / "edited"
    edited.write_text(place.file.read_text() + f'[jobs.other]\nschedule = "every 1s"\n{SEEN.replace("seen", "others")}')
    give_away(edited)
    edited.rename(place.file)
    until(lambda: "cannot be used, so" in place.said)
    before = len(place.seen())
    until(lambda: len(place.seen()) >= before + 5)
    assert not place.seen("others") and place.said.count("cannot be used, so") == 1
    os.chmod(place.file, 0o600)
    os.chown(place.file, os.geteuid(), -1)
    until(lambda: place.seen("others"))
    give_away(place.file)  # and nothing else
    until(lambda: place.said.count("cannot be used, so") == 2)
    (pages,) = [pid for pid in children(serving.pid) if b"--only-pages" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(pages, signal.SIGKILL)
    until(lambda: "was killed by signal 9; it is started again in" in place.said)
    before = len(place.seen())
    until(lambda: len(place.seen()) >= before + 5)
    assert serving.poll() is None


def test_a_file_that_is_empty_for_a_moment_while_it_is_saved_ends_no_schedule(place: Place) -> None:
    place.write(f'[jobs.job]\nschedule = "every 1s"\n{SEEN}')
    place.serve()
    until(place.seen)
    text = place.file.read_text()
    for _ in range(20):  # each for most of the time between two looks
        place.file.write_text("")
        time.sleep(0.3)
        place.file.write_text(text)
        time.sleep(0.1)
    assert "no longer due" not in place.said and "serving anew" not in place.said
    assert "edited" not in place.run("slots", "job").stdout


def test_an_edit_of_the_store_counts_for_the_next_slot(place: Place) -> None:
    """Otherwise another machine with the new file starts each slot a second time."""
    place.write(f'[jobs.job]\nschedule = "every 1s"\n{SEEN}')
    process = place.serve()
    until(lambda: len(place.seen()) >= 2)
    (place.folder / "new").write_text(place.file.read_text().replace("state.db", "shared.db"))
    (place.folder / "new").rename(place.file)
    until(lambda: "serving 1 job on sqlite:///" in place.said.partition("serving anew")[2])
    until(lambda: "ran" in place.run("slots", "job").stdout)  # in the store that the file names now
    assert process.poll() is None and len(place.seen()) == len(set(place.seen()))


def test_a_log_on_a_full_disk_stops_no_job(place: Place) -> None:
    place.write(f'[jobs.job]\nschedule = "every 1s"\n{SEEN}')
    with open("/dev/full", "w") as full:
        process = subprocess.Popen([*NIGHTLATCH, "serve"], cwd=place.folder, env=place.env, stdout=full, stderr=full)
    place.processes.append(process)
    until(lambda: len(place.seen()) >= 2)
    assert process.poll() is None


@pytest.mark.parametrize("unwritable", ["served.json", "claims.json"])
def test_a_disk_that_takes_no_notes_of_the_scheduler_stops_no_job(place: Place, unwritable: str) -> None:
    (place.folder / "state.db.d" / unwritable).mkdir(parents=True)
    place.write(f'[jobs.job]\nschedule = "every 1s"\n{SEEN}')
    process = place.serve()
    until(lambda: len(place.seen()) >= 2)
    assert process.poll() is None
    assert place.said.count("served.json cannot be written: Is a directory") == (unwritable == "served.json")
    (place.folder / "state.db.d" / unwritable).rmdir()
    until((place.folder / "state.db.d" / unwritable).is_file)


def test_alerts_that_are_added_later_are_sent_and_their_process_does_not_stay_dead(place: Place) -> None:
    job = f'[jobs.job]\nschedule = "every 1h"\n{SEEN}'
    place.write(job)
    serving = place.serve()

    def senders() -> list[int]:
        return [pid for pid in children(serving.pid) if b"\0alerts\0" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    assert not senders()
    place.write(f'{job}[alerts.webhook]\nurl = "http://127.0.0.1:1/"\n')
    until(senders)
    (first,) = senders()
    os.kill(first, signal.SIGKILL)
    until(lambda: senders() not in ([], [first]))
    assert "`nightlatch alerts send --follow` was killed by signal 9; it is started again in" in place.said


@pytest.mark.parametrize("again", ["reload", "tick"])
def test_a_job_that_was_removed_from_the_file_has_nothing_due(place: Place, again: str) -> None:
    place.write(f'[jobs.job]\nschedule = "every 1s"\n{SEEN}[jobs.gone]\nschedule = "every 1h"\n{SEEN}')
    serving = place.serve()
    until(place.seen)
    if again == "tick":
        serving.kill()
        serving.wait()
    place.write(f'[jobs.job]\nschedule = "every 1s"\n{SEEN}')
    if again == "tick":
        assert "gone is no longer in nightlatch.toml" in place.run("tick").stderr
    until(lambda: {"job": "gone", "next": None}.items() <= _slots(place)["gone"].items())
    assert _slots(place)["job"]["next"]


def _slots(place: Place) -> dict[str, dict[str, Any]]:
    return {line["job"]: line for line in map(json.loads, place.run("slots", "--json").stdout.splitlines())}


def test_what_is_due_next_is_said_and_a_row_is_shown_for_each_job(place: Place) -> None:
    place.write(f'[jobs.job]\nschedule = "every 1s"\n{SEEN}[jobs.by-hand]\n{SEEN}')
    place.serve()
    assert "serving 2 jobs" in place.said and "next: job at" in place.said
    until(lambda: len(place.seen()) >= 2)
    shown = _slots(place)
    assert shown["by-hand"]["next"] is None and shown["job"]["next"]
    records = [json.loads(line) for line in place.run("slots", "job", "--json").stdout.splitlines()]
    assert records[0].keys() == {
        "version", "job", "slot", "first", "count", "outcome", "reason", "run", "host", "at",
    }  # fmt: skip
    assert records[0]["outcome"] == "ran" and records[0]["slot"] == place.seen()[0]
    assert " slots: " in place.run("slots", "job").stdout


def test_a_pause_counts_at_once_and_unpause_goes_on(place: Place) -> None:
    place.write(f'[jobs.job]\nschedule = "every 1s"\n{SEEN}')
    place.serve()
    until(place.seen)
    assert place.run("pause", "job", "--reason", "moving").returncode == 0
    until(lambda: "(paused)" in place.said)
    before = len(place.seen())
    shown = place.run("slots").stdout.splitlines()[1]
    assert shown.split()[:3] == ["job", "unattended", "paused"] and "paused by" in shown
    assert "next: none, paused by" in place.run("slots", "job").stdout and _slots(place)["job"]["next"] is None
    assert place.run("unpause", "job").returncode == 0
    until(lambda: len(place.seen()) > before)
    assert place.run("unpause", "job").returncode == 64
    assert place.run("pause", "nobody").returncode == 64


def test_a_tick_does_what_is_due_and_waits_for_it(place: Place) -> None:
    place.write('[jobs.job]\nschedule = "every 1s"\ncommand = "sleep 0.5; echo $NIGHTLATCH_MISSED >> seen; exit 3"\n')
    assert place.run("tick").returncode == 0  # it begins with its next slot
    ticked = until(lambda: _worked(place.run("tick"), place))
    assert ticked.returncode == 3
    # The next slot may not be due yet.
    until(lambda: place.run("tick", "--detach").returncode == 0 and len(place.seen()) >= 2)


def _worked(ticked: Any, place: Place) -> Any:
    return ticked if place.seen() else None


def test_how_a_start_ended_is_said_and_one_that_is_held_is_not_called_ended(place: Place) -> None:
    place.write(
        '[jobs.held]\nschedule = "every 1s"\nstage = "supervised"\nhold = "start"\ncommand = "true"\n'
        '[jobs.fails]\nschedule = "every 1s"\ncommand = "exit 3"\n[jobs.works]\nschedule = "every 1s"\ncommand = "true"\n'
    )
    place.serve()
    until(lambda: all(f"nightlatch: {job} 20" in place.said for job in ("held", "fails", "works")))
    said = {line.split()[1]: line.split(": ", 2)[2] for line in place.said.splitlines() if "Z: " in line}
    assert said["held"] == "needs your approval: nightlatch approve held"
    assert (said["fails"], said["works"]) == ("failed, exit code 3", "succeeded")


def test_no_file_says_what_to_type(place: Place) -> None:
    missing = place.run("serve")
    assert missing.returncode == 78 and "nightlatch init" in missing.stderr


def test_an_upgrade_is_taken_up_before_the_next_start(place: Place, tmp_path: Path) -> None:
    """The forking process looks at the package's files, and is executed anew when one has changed."""
    shutil.copytree(SOURCE, tmp_path / "package", ignore=shutil.ignore_patterns("__pycache__"))
    place.write(f'[jobs.job]\nschedule = "every 1s"\n{SEEN}')
    place.serve(PYTHONPATH=str(tmp_path / "package"))
    until(place.seen)
    module = tmp_path / "package" / "nightlatch" / "scheduler" / "forks.py"
    marker = tmp_path / "upgraded"
    module.write_text(
        module.read_text().replace("\nimport gc\n", f"\nimport gc\nopen({str(marker)!r}, 'w').close()\n", 1)
    )
    before = len(place.seen())
    until(lambda: marker.exists() and len(place.seen()) > before + 1)
    assert "exit code 125" not in place.said


def test_an_upgrade_between_two_looks_is_taken_up_before_the_first_run_with_a_workspace(
    place: Place, tmp_path: Path
) -> None:
    """What such runs need is loaded then: it must not be another version's. The order is sent again, and not lost."""
    shutil.copytree(SOURCE, tmp_path / "package", ignore=shutil.ignore_patterns("__pycache__"))
    module = tmp_path / "package" / "nightlatch" / "scheduler" / "forks.py"
    module.write_text(module.read_text().replace("\n_LOOK = 1.0", "\n_LOOK = 1e9", 1))
    slots = tmp_path / "package" / "nightlatch" / "core" / "slots.py"  # a lost order would be made up for
    slots.write_text(slots.read_text().replace("\nUNBEGUN = 30.0", "\nUNBEGUN = 1e9", 1))
    plain = f'[jobs.job]\nschedule = "every 1s"\n{SEEN}'
    place.write(plain)
    place.serve(PYTHONPATH=str(tmp_path / "package"))
    until(place.seen)
    marker = tmp_path / "upgraded"
    module.write_text(
        module.read_text().replace("\nimport gc\n", f"\nimport gc\nopen({str(marker)!r}, 'w').close()\n", 1)
    )
    before = len(place.seen())
    until(lambda: len(place.seen()) > before + 1)
    assert not marker.exists()
    place.write(f'{plain}[jobs.made]\nschedule = "every 1s"\nworkspace = "scratch"\ncommand = "true"\ntimeout = "1m"\n')
    until(lambda: any(" made 2" in line and line.endswith(": succeeded") for line in place.said.splitlines()))
    assert marker.exists() and "exit code 125" not in place.said


@pytest.mark.parametrize("when", ["while the new program loads", "later"])
def test_the_end_of_a_run_that_was_going_on_in_an_upgrade_is_reported(place: Place, tmp_path: Path, when: str) -> None:
    shutil.copytree(SOURCE, tmp_path / "package", ignore=shutil.ignore_patterns("__pycache__"))
    module = tmp_path / "package" / "nightlatch" / "scheduler" / "forks.py"
    begun, loaded, over = (tmp_path / name for name in ("begun", "loaded", "over"))
    place.write(
        f'[jobs.slow]\nschedule = "every {int(time.time()) + 2}s"\ntimeout = "1m"\n'
        f'command = "echo >> seen; while [ ! -e {over} ]; do sleep 0.1; done"\n'
        '[jobs.quick]\nschedule = "every 1s"\ntimeout = "1m"\ncommand = "true"\n'
    )
    place.serve(PYTHONPATH=str(tmp_path / "package"))
    until(place.seen)
    still = f"os.getppid() > 1 and not os.path.exists({str(loaded)!r})"
    wait = f"import time\nopen({str(begun)!r}, 'w')\nwhile {still}:\n    time.sleep(0.1)\n"
    module.write_text(module.read_text().replace("\nimport select\n", f"\n{wait}import select\n", 1))
    until(begun.exists)
    if when == "later":
        loaded.touch()
    over.touch()
    until(lambda: " job=slow " in (place.folder / "state.db.d" / "supervisors.log").read_text())
    loaded.touch()
    until(lambda: " slow 2" in place.said, 15)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_few_supervisors_do_many_runs_and_none_sees_what_another_was_given(place: Place) -> None:
    """The command's parent is its warden, and that one's parent is the supervisor."""
    above = "$(cut -d' ' -f4 /proc/$PPID/stat)"
    jobs = [
        f'[jobs.job-{number}]\nschedule = "every {int(time.time()) + 4}s"\nenv = {{ ONLY{number} = "{number}" }}\n'
        f'command = "echo {above} $(env | grep -c ^ONLY) $NIGHTLATCH_JOB $NIGHTLATCH_GRANT >> seen"\ntimeout = "1m"\n'
        for number in range(24)
    ]
    place.write("at_once = 2\n" + "".join(jobs))
    place.serve()
    until(lambda: place.said.count(": succeeded") == 24)
    supervisors, given, names, grants = zip(*map(str.split, place.seen()), strict=True)
    assert len(set(supervisors)) <= 8, "each run got a supervisor of its own"
    assert set(given) == {"1"} and len(set(names)) == len(set(grants)) == 24


@pytest.mark.parametrize("workspace", ["", 'workspace = "scratch"\n'])
def test_a_forked_supervisor_loads_nothing_of_the_package_and_does_not_parse_the_file(
    place: Place, workspace: str
) -> None:
    """What is loaded later may be another version's by then; and it is most of the time that a short run takes."""
    place.write(f'[jobs.job]\nschedule = "every 1s"\n{workspace}{SEEN}')
    place.serve(PYTHONPROFILEIMPORTTIME="1")
    log = place.folder / "state.db.d" / "supervisors.log"
    until(lambda: log.exists() and log.read_text().count("status=succeeded") >= 2)
    loaded = [
        line.rpartition("|")[2].strip() for line in log.read_text().splitlines() if line.startswith("import time")
    ]
    assert [name for name in loaded if name.startswith(("nightlatch", "tomllib"))] == []


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="a pid namespace takes root")
def test_as_process_1_the_end_of_serve_ends_runs_by_their_grace(place: Place) -> None:
    place.write(
        '[jobs.job]\nschedule = "every 1s"\ngrace = "5s"\nlost = "again"\n'
        "command = \"trap 'echo asked >> seen; exit 1' TERM; echo began >> seen; sleep 60 & wait\"\n"
    )
    probe = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("no pid namespaces here")
    outer = place.serve("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    until(place.seen)
    (inner,) = map(int, Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split())
    os.kill(inner, signal.SIGTERM)
    until(lambda: "asked" in place.seen())
    assert outer.wait(60) == 0
