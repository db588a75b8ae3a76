"""No acknowledged add is lost though holders are stopped past their TTL and killed; without the fence some are."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from tests.workloads import guarded_set

SECONDS = float(os.environ.get("NIGHTLATCH_SECONDS", "20"))
SEED = int(os.environ.get("NIGHTLATCH_SEED", random.SystemRandom().randrange(10**6)))


# A git store's verbs are pushes, and its expiry is 1.25 TTL of watching: it needs longer TTLs.
TTL = {"sqlite": 1.0, "postgres": 2.0, "git": 4.0}


@pytest.mark.timeout(SECONDS + guarded_set.PATIENCE + 90)
@pytest.mark.parametrize("kind", TTL)
def test_no_acknowledged_add_is_lost(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if kind == "git":
        subprocess.run(["git", "init", "-q", "--bare", tmp_path / "remote.git"], check=True)
        url = f"git+file://{tmp_path}/remote.git"
    else:
        url = request.getfixturevalue(f"{kind}_url")
    course = guarded_set.run(url, tmp_path / "set", seconds=SECONDS, seed=SEED, ttl=TTL[kind])
    print(course)
    course.check()


@pytest.mark.timeout(400)
def test_without_the_fence_acknowledged_adds_are_lost(sqlite_url: str, tmp_path: Path) -> None:
    """So the test above can fail, and the lease alone is not what makes it pass."""
    courses = []
    for seed in range(SEED, SEED + 12):
        courses.append(guarded_set.run(sqlite_url, tmp_path / str(seed), seconds=6, seed=seed, fenced=False))
        assert not courses[-1].repeated and not courses[-1].fallen, courses[-1]
        if courses[-1].lost:
            return
    pytest.fail("nothing was lost:\n" + "\n".join(map(str, courses)))
