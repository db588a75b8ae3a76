"""Jobs of nightlatch.toml, started from the command line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs import NIGHTLATCH, TOOL, environment

Done = subprocess.CompletedProcess[str]


class Site:
    """A folder with a file, whose store is the one that counts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = environment("", HOME=str(folder / "home"), XDG_CONFIG_HOME="", XDG_STATE_HOME="")
        del self.env["NIGHTLATCH_STORE"]

    def write(self, text: str, store: str = 'store = "sqlite:///state/nightlatch.db"\n') -> None:
        (self.folder / "nightlatch.toml").write_text(store + text)

    def nightlatch(self, *words: str, cwd: str = ".", **env: str) -> Done:
        place = self.folder / cwd
        return subprocess.run(
            [*NIGHTLATCH, *words], cwd=place, env={**self.env, **env}, text=True, capture_output=True, timeout=120
        )

    def runs(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.nightlatch("runs", "--json").stdout.splitlines()]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    (tmp_path / "deep" / "down").mkdir(parents=True)
    return Site(tmp_path)


def test_a_job_runs_in_the_folder_of_its_file_wherever_it_is_started(site: Site) -> None:
    site.write('[jobs.night]\ncommand = ["sh", "-c", "pwd; echo $COLOUR $NIGHTLATCH_CONFIG"]\nenv.COLOUR = "red"\n')
    done = site.nightlatch("run", "night", cwd="deep/down")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(site.folder), f"red {site.folder}/nightlatch.toml"]
    assert "no --timeout" not in done.stderr
    assert (site.folder / "state" / "nightlatch.db").exists(), "the file's store counts, from the file's folder"
    assert [run["job"] for run in site.runs()] == ["night"]


def test_flags_go_before_the_file_and_name_files_as_seen_from_here(site: Site) -> None:
    site.write('[jobs.night]\ncommand = "pwd; echo $A $B; exit 0"\nenv = { A = "1", B = "1" }\ntimeout = "1ms"\n')
    done = site.nightlatch(
        "run", "night", "--timeout", "1m", "--cwd", "down", "--env", "A=2", "--verdict", "v", cwd="deep"
    )
    assert done.stdout.splitlines() == [f"{site.folder}/deep/down", "2"], done.stderr
    assert json.loads((site.folder / "deep" / "v").read_text())["status"] == "succeeded"
    assert site.nightlatch("run", "nigth").returncode == 78
    assert "did you mean night?" in site.nightlatch("run", "nigth").stderr


def test_a_name_with_a_command_is_not_the_files_job(site: Site) -> None:
    site.write('[jobs.night]\ncommand = "exit 3"\n')
    assert site.nightlatch("run", "night", "--", "true").returncode == 0
    assert site.nightlatch("run", "night").returncode == 3


def test_a_broken_file_says_everything_and_starts_nothing_but_looking_goes_on(site: Site) -> None:
    site.write('[jobs.night]\ncommand = "true"\ntime_out = "1h"\n')
    done = site.nightlatch("run", "night")
    assert (
        done.returncode == 78
        and "nightlatch.toml:4: jobs.night.time_out is not a key: did you mean timeout?" in done.stderr
    )
    assert site.nightlatch("runs").returncode == 0
    site.write("[jobs.night\n")
    assert (
        site.nightlatch("lock", "x", "--", "true").returncode,
        site.nightlatch("--store", "sqlite:///s.db", "lock", "x", "--", "true").returncode,
    ) == (78, 0)


def test_the_environments_store_goes_before_the_files(site: Site) -> None:
    site.write('[jobs.night]\ncommand = "true"\n')
    site.nightlatch("run", "night", NIGHTLATCH_STORE="sqlite:///other.db", cwd="deep")
    assert (site.folder / "deep" / "other.db").exists() and not (site.folder / "state").exists()


def test_what_an_env_file_holds_reaches_the_command_and_nothing_else(site: Site) -> None:
    site.write('[jobs.night]\ncommand = "echo got $COLOUR $SHAPE"\nenv_file = "secrets.env"\nenv.SHAPE = "round"\n')
    (site.folder / "secrets.env").write_text("# mine\nexport COLOUR='crimson-17'\n\nSHAPE=square\n")
    done = site.nightlatch("run", "night")
    assert done.stdout == "got crimson-17 round\n" or "[COLOUR]" in done.stdout, done.stderr
    kept = site.nightlatch("logs", site.runs()[0]["run"]).stdout
    assert "[COLOUR]" in kept and "crimson-17" not in kept
    (site.folder / "secrets.env").write_text("COLOUR")
    done = site.nightlatch("run", "night", "--new")
    assert done.returncode == 78 and "secrets.env:1: write NAME=VALUE" in done.stderr
    os.remove(site.folder / "secrets.env")
    assert "env_file secrets.env cannot be read" in site.nightlatch("run", "night", "--new").stderr
    assert site.runs()[0]["status"] == "failed", "it is recorded, and shown in the morning"


def test_a_slot_by_name(site: Site) -> None:
    site.write('timezone = "Europe/Berlin"\n[jobs.night]\nschedule = "0 2 * * *"\ncommand = "echo $NIGHTLATCH_SLOT"\n')
    last = site.nightlatch("run", "night", "--slot", "last")
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT0[01]:00Z\n", last.stdout), last.stderr
    assert "status=skipped" in site.nightlatch("run", "night", "--slot", "last").stderr
    upcoming = site.nightlatch("run", "night", "--slot", "next").stdout
    assert upcoming > last.stdout
    assert site.nightlatch("run", "night", "--slot", "2026-07-02 02:00").stdout == "2026-07-02T00:00Z\n"
    assert site.nightlatch("run", "night", "--slot", "2026-07-03T00:00Z").stdout == "2026-07-03T00:00Z\n"
    wrong = site.nightlatch("run", "night", "--slot", "2026-07-02 03:00")
    assert wrong.returncode == 64 and "2026-07-02T00:00Z and 2026-07-03T00:00Z" in wrong.stderr
    assert "last, next" in site.nightlatch("run", "night", "--slot", "0 3 * * *").stderr


def test_a_slot_is_given_up_after_three_attempts_and_retry_allows_more(site: Site) -> None:
    words = ["run", "night", "--timeout", "1m", "--slot", "0 0 1 1 *", "--", "sh", "-c", "echo tried; exit 5"]
    site.write("")
    made = [site.nightlatch(*words) for _ in range(5)]
    assert [done.stdout for done in made] == ["tried\n"] * 3 + [""] * 2
    assert {done.returncode for done in made} == {5}
    assert "3 attempts were made at this slot" in made[3].stderr
    run = site.runs()[0]["run"]
    assert site.nightlatch("retry", run, "--later").returncode == 0
    assert [site.nightlatch(*words).stdout for _ in range(4)] == ["tried\n"] * 3 + [""]
    more = site.nightlatch(*words[:2], "--retries", "3", "--backoff", "1ms", *words[2:])
    assert more.stdout == "tried\n", "a start may make four in all, and three were made"


def test_retry_starts_a_job_of_the_file(site: Site) -> None:
    site.write('[jobs.night]\nschedule = "@yearly"\ncommand = "echo $NIGHTLATCH_SLOT $NIGHTLATCH_ATTEMPT; exit 4"\n')
    first = site.nightlatch("run", "night", "--slot", "last")
    slot = first.stdout.split()[0]
    site.write('[jobs.night]\nschedule = "@yearly"\ncommand = "echo $NIGHTLATCH_SLOT $NIGHTLATCH_ATTEMPT"\n')
    done = site.nightlatch("retry", site.runs()[0]["run"], cwd="deep")
    assert (done.returncode, done.stdout) == (0, f"{slot} 2\n"), done.stderr
    assert [run["status"] for run in site.runs()] == ["succeeded"]


def test_a_batch_and_a_function_are_jobs_too(site: Site) -> None:
    site.write(
        '[jobs.posts]\nitems = "posts.jsonl"\nkey = "{slug}"\ncommand = ["echo", "did {slug}"]\n'
        '[jobs.nightly]\npython = "nightly:main"\nargs = { n = 2 }\n'
    )
    (site.folder / "posts.jsonl").write_text('{"slug": "a"}\n{"slug": "b"}\n')
    (site.folder / "nightly.py").write_text("import os\ndef main(n):\n    print('n is', n, os.getcwd())\n")
    assert sorted(site.nightlatch("run", "posts", cwd="deep").stdout.splitlines()) == ["did a", "did b"]
    assert site.nightlatch("run", "posts").stdout == "", "what is done is done"
    assert site.nightlatch("run", "nightly", cwd="deep").stdout == f"n is 2 {site.folder}\n"
    assert "is a batch" in site.nightlatch("run", "posts", "--timeout", "1m").stderr


def test_inside_a_run_its_own_store_and_file_count(site: Site) -> None:
    (site.folder / "deep" / "nightlatch.toml").write_text(
        'store = "sqlite:///agents.db"\n[jobs.night]\ncommand = "echo agents"\n'
    )
    inside = f"cd deep && {TOOL} lock inner -- true && {TOOL} run other; python3 -c 'print(1)'"
    site.write(f'[jobs.night]\ncommand = """{inside}"""\n[jobs.other]\ncommand = "echo ours"\n')
    done = site.nightlatch("run", "night")
    assert "ours" in done.stdout and not (site.folder / "deep" / "agents.db").exists(), done.stderr
    assert {run["job"] for run in site.runs()} == {"night", "other"}


def test_inside_a_run_python_uses_the_runs_store(site: Site) -> None:
    inside = "import nightlatch; print(nightlatch.connect().url)"
    site.write(f"[jobs.night]\ncommand = ['{sys.executable}', '-c', '{inside}']\ncwd = 'deep'\n")
    assert site.nightlatch("run", "night").stdout == f"sqlite:///{site.folder}/state/nightlatch.db\n"
    chosen = site.nightlatch("run", "night", "--new", "--store", f"sqlite:///{site.folder}/other.db")
    assert chosen.stdout == f"sqlite:///{site.folder}/other.db\n"


def test_a_remote_is_that_of_the_repository_that_the_file_is_in(site: Site, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "--bare", tmp_path / "remote.git"], check=True)
    subprocess.run(["git", "init", "-q", site.folder], check=True)
    subprocess.run(["git", "-C", site.folder, "remote", "add", "origin", tmp_path / "remote.git"], check=True)
    site.write('[jobs.night]\ncommand = "echo ran"\n', store='store = "git+origin"\ntimezone = "UTC"\n')
    (tmp_path / "home").mkdir()
    done = site.nightlatch("--config", str(site.folder / "nightlatch.toml"), "run", "night", "--key", "k", cwd="home")
    assert done.stdout == "ran\n", done.stderr
    refs = subprocess.run(["git", "-C", tmp_path / "remote.git", "for-each-ref"], capture_output=True, text=True).stdout
    assert "refs/nightlatch/" in refs


def test_what_to_type_next_names_the_file_that_was_named(site: Site) -> None:
    site.write('[jobs.night]\nschedule = "@yearly"\ncommand = "exit 5"\n')
    for _ in range(3):
        site.nightlatch("run", "night", "--slot", "last", "--config", "../nightlatch.toml", cwd="deep")
    done = site.nightlatch("run", "night", "--slot", "last", "--config", "../nightlatch.toml", cwd="deep")
    assert "allow another: nightlatch --config ../nightlatch.toml retry " in done.stderr
