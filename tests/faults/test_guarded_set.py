"""No acknowledged add is lost though holders are stopped past their TTL and killed; without the fence some are.

The long form is `make soak`: every store with every gate.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.support.workloads import guarded_set
from tests.support.workloads.shared_sets import Setup

SECONDS = float(os.environ.get("NIGHTLATCH_SECONDS", "8"))
SEED = int(os.environ.get("NIGHTLATCH_SEED", random.SystemRandom().randrange(10**6)))


# A git store's verbs are pushes, and its expiry is 1.25 TTL of watching: it needs longer TTLs.
TTL = {"sqlite": 1.0, "postgres": 1.0, "git": 2.0}


@pytest.mark.timeout(SECONDS + guarded_set.PATIENCE + 90)
@pytest.mark.parametrize("kind", TTL)
def test_no_acknowledged_add_is_lost(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    setup = Setup(request.getfixturevalue(f"{kind}_url"), TTL[kind], seed=SEED)
    course = guarded_set.run(setup, tmp_path / "set", seconds=SECONDS)
    print(course)
    course.check()


@pytest.mark.timeout(400)
def test_without_the_fence_acknowledged_adds_are_lost(sqlite_url: str, tmp_path: Path) -> None:
    """So the test above can fail, and the lease alone is not what makes it pass."""
    courses = []
    for seed in range(SEED, SEED + 12):
        setup = Setup(sqlite_url, 1.0, fenced=False, seed=seed)
        courses.append(guarded_set.run(setup, tmp_path / str(seed), seconds=5))
        assert not courses[-1].repeated and not courses[-1].fallen, courses[-1]
        if courses[-1].lost:
            return
    pytest.fail("nothing was lost:\n" + "\n".join(map(str, courses)))
