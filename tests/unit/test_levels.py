"""When a job leaves its usual level: planted changes, with weekends and wild runs, are found and nothing else is."""

from __future__ import annotations

import math
import os
import random

from nightlatch.observe.levels import FEWEST, Levels, Point, levels

JOBS = 40 * int(os.environ.get("NIGHTLATCH_ROUNDS", "1"))
SEED = int(
    os.environ.get("NIGHTLATCH_SEED", random.SystemRandom().randrange(10**9))
)  # others each time: none is tuned to
FOUND = 0.95 - 4 * math.sqrt(0.95 * 0.05 / JOBS)  # 95 of 100, as far as a sample of that size can tell
YEAR = 365


def series(amounts: list[float], *, first_day: int = 0) -> list[Point]:
    """A run a day."""
    return [
        Point(run=f"r{day}", at=day * 86400.0, weekday=(first_day + day) % 7, amount=amount)
        for day, amount in enumerate(amounts)
    ]


def year(rng: random.Random, spread: float, *, changed: int = YEAR, factor: float = 1.0) -> list[Point]:
    """A job with weekends of its own and 2 % wild runs."""
    weekend, first_day = rng.choice([1.0, 0.5, 0.3, 2.0]), rng.randrange(7)
    amounts = []
    for day in range(YEAR):
        amount = 0.8 * math.exp(rng.gauss(0, spread)) * (weekend if (first_day + day) % 7 >= 5 else 1.0)
        amount *= rng.uniform(3, 10) if rng.random() < 0.02 else 1.0
        amounts.append(amount * (factor if day >= changed else 1.0))
    return series(amounts, first_day=first_day)


def found(seen: Levels, changed: int) -> bool:
    return any(
        shift.first.at == changed * 86400 and shift.certain_at.at <= (changed + 2) * 86400 for shift in seen.shifts
    )


def test_planted_changes_are_found_within_three_runs_and_the_first_is_named():
    for spread, factor in ((0.1, 2.0), (0.2, 3.0), (0.1, 0.5)):
        right = alarms = 0
        for seed in range(SEED, SEED + JOBS):
            rng = random.Random(f"{seed} {spread} {factor}")
            changed = rng.randrange(60, 300)
            seen = levels(year(rng, spread, changed=changed, factor=factor))
            right += found(seen, changed)
            alarms += len(seen.shifts) - found(seen, changed)
        assert right / JOBS >= FOUND, (SEED, spread, factor, right)
        assert alarms / JOBS <= 0.5, (SEED, spread, factor, alarms)


def test_a_job_that_does_not_change_raises_no_alarm():
    for spread in (0.1, 0.2, 0.3):
        years = (year(random.Random(f"calm {seed} {spread}"), spread) for seed in range(SEED, SEED + JOBS))
        alarms = sum(len(levels(one).shifts) for one in years)
        assert alarms / JOBS <= 0.5, (SEED, spread, alarms)


def test_one_wild_run_is_told_as_that():
    seen = levels(series([1.0, 1.1, 0.9] * 10 + [9.0] + [1.0, 1.1, 0.9]))
    assert not seen.shifts and [one.point.run for one in seen.outliers] == ["r30"]
    assert round(seen.outliers[0].factor) == 9


def test_too_few_runs_are_silent():
    assert levels(series([1.0] * (FEWEST - 1) + [9.0] * 3)) == Levels(
        usual=levels(series([1.0] * 11 + [9.0] * 3)).usual
    )
    assert levels(series([1.0] * (FEWEST - 1))).usual is None
    assert levels([]) == Levels()


def test_a_level_is_over_or_accepted_or_lasts_until_it_is_the_usual():
    usual, dear = [1.0, 1.05, 0.95] * 7, [3.0, 3.1, 2.9]
    risen = levels(series(usual + dear)).current
    assert risen and risen.first.run == "r21" and risen.last_usual.run == "r20" and round(risen.factor) == 3
    back = levels(series(usual + dear + [1.0] * 4))
    assert not back.current and back.shifts[0].over and back.shifts[0].over.run == "r24"
    accepted = levels(series(usual + dear * 5), accepted=[23.5 * 86400])
    assert not accepted.current and accepted.shifts[0].settled and len(accepted.shifts) == 1
    assert accepted.usual and round(accepted.usual) == 3
    lasting = levels(series(usual + dear * 10))
    assert not lasting.current and lasting.shifts[0].settled


def test_a_fall_to_nothing_is_a_change():
    current = levels(series([100.0, 98.0, 103.0] * 6 + [0.0] * 3)).current
    assert current and current.first.run == "r18" and current.factor < 0.1


def test_what_was_always_nothing_is_not_a_change_and_what_begins_is():
    assert not levels(series([0.0] * 40)).shifts
    assert levels(series([0.0] * 40 + [5.0] * 3)).current
