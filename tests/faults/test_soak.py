"""A short round of `make soak`, and that it would have found something."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def soak(*words: str, only: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    seed = ["--seed", os.environ["NIGHTLATCH_SEED"]] if "NIGHTLATCH_SEED" in os.environ else []
    argv = [sys.executable, "-m", "tests.soak", "--only", only, "--at-once", "2", *seed, *words]
    done = subprocess.run(argv, cwd=ROOT, env={**os.environ, **env}, text=True, capture_output=True, timeout=400)
    print(done.stdout, done.stderr)
    return done


@pytest.fixture
def here(tmp_path: Path) -> dict[str, str]:
    """Where it keeps what it finds."""
    return {"TMPDIR": str(tmp_path)}


@pytest.mark.timeout(420)
def test_a_short_soak_finds_nothing(here: dict[str, str]) -> None:
    done = soak("--for", "15s", only="sqlite/folder,postgres/file,git/sqlite,runs/sqlite,once/postgres", env=here)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not os.listdir(here["TMPDIR"]), "something was left behind"
    faults = int(re.search(r"\| all \| (\d+) ", done.stdout)[1])  # type: ignore[index]
    assert faults > 20


@pytest.mark.timeout(420)
@pytest.mark.parametrize(
    ("only", "broken", "finding"),
    [("sqlite/file", "fence", "an acknowledged add is lost"), ("once/git", "memory", "done 2 times")],
)
def test_a_broken_promise_is_found_and_its_folder_is_kept(
    only: str, broken: str, finding: str, here: dict[str, str]
) -> None:
    for _ in range(10):
        done = soak("--for", "6s", "--break", broken, only=only, env=here)
        if done.returncode == 1:
            break
    assert done.returncode == 1 and finding in done.stdout
    kept = Path(done.stdout.splitlines()[-1].strip())
    assert list(kept.rglob("faults")) and (kept / "found.json").exists()
    shutil.rmtree(here["TMPDIR"])
