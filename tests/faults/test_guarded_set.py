"""No acknowledged add is lost though holders are stopped past their TTL and killed; without the fence some are."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.workloads import guarded_set

SECONDS = float(os.environ.get("NIGHTLATCH_SECONDS", "20"))
SEED = int(os.environ.get("NIGHTLATCH_SEED", random.SystemRandom().randrange(10**6)))


@pytest.mark.timeout(SECONDS + 120)
def test_no_acknowledged_add_is_lost(sqlite_url: str, tmp_path: Path) -> None:
    course = guarded_set.run(sqlite_url, tmp_path / "set", seconds=SECONDS, seed=SEED)
    print(course)
    course.check()


def test_without_the_fence_acknowledged_adds_are_lost(sqlite_url: str, tmp_path: Path) -> None:
    """So the test above can fail, and the lease alone is not what makes it pass."""
    courses = []
    for seed in range(SEED, SEED + 12):
        courses.append(guarded_set.run(sqlite_url, tmp_path / str(seed), seconds=6, seed=seed, fenced=False))
        assert not courses[-1].repeated and not courses[-1].fallen, courses[-1]
        if courses[-1].lost:
            return
    pytest.fail("nothing was lost:\n" + "\n".join(map(str, courses)))
