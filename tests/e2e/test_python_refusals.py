"""What `@nightlatch.job` and `nightlatch.run` refuse, before anything is started."""

from __future__ import annotations

import re

import pytest

import nightlatch
from nightlatch.errors import UsageError


def test_what_cannot_be_carried_to_a_child_is_refused_with_what_to_do():
    @nightlatch.job()
    def local() -> None: ...

    with pytest.raises(UsageError, match="top of a module"):
        local.run()
    with pytest.raises(UsageError, match="JSON"):
        at_top.run(object())
    with pytest.raises(UsageError, match="file's path"):
        at_top.run("x" * 200_000)


@nightlatch.job(key="{missing}")
def keyed(word: str) -> None: ...


@nightlatch.job()
def at_top(word: object) -> None: ...


@pytest.mark.parametrize(
    ("bounds", "hint"),
    [
        ({"timeout": "x"}, "timeout 'x' is not understood"),
        ({"timeout": 30}, "timeout 30 must be a string with a unit"),
        ({"timeout": "0s"}, "timeout 0s leaves no time"),
        ({"stall": "10"}, "stall '10' is ambiguous"),
        ({"ttl": "10ms"}, "ttl: use at least 1s"),
        ({"backoff": "soon"}, "backoff 'soon' is not understood"),
        ({"budget": {"eur": 2}}, "the budget 'eur=2' is not understood"),
        ({"budget": 2}, "budget is 2: write it as"),
        ({"slot": "at night"}, "'at night' is not a schedule"),
        ({"lost": "never"}, "lost 'never' is not known: use one of"),
        ({"publish": ("a=b",)}, "publish takes from a workspace"),
        ({"retries": -1}, "retries is -1"),
    ],
)
def test_a_bound_that_is_not_understood_is_refused_where_it_is_written(bounds, hint):
    with pytest.raises(UsageError, match="^the job night: " + re.escape(hint)):
        nightlatch.job(name="night", **bounds)(lambda: None)


@pytest.mark.parametrize(
    ("key", "hint"),
    [("", "key is empty"), ("{", "cannot be made"), (lambda: None, "is None: return a string"), (5, "pass a string")],
)
def test_a_key_that_cannot_be_made_starts_nothing(key, hint):
    with pytest.raises(UsageError, match=hint):
        nightlatch.job(name="night", key=key)(lambda: None).run()


def test_an_empty_word_is_refused_before_anything_is_started():
    for bounds in ({"key": ""}, {"slot": ""}, {"timeout": ""}):
        with pytest.raises(UsageError, match="is empty"):
            nightlatch.run("night", "true", **bounds)  # type: ignore[arg-type]


def test_a_key_that_names_no_argument_is_refused():
    with pytest.raises(UsageError, match="missing"):
        keyed.run("x")


def test_outside_of_a_run_there_is_no_current_one(monkeypatch):
    monkeypatch.delenv("NIGHTLATCH_RUN", raising=False)
    with pytest.raises(UsageError, match="no run here"):
        nightlatch.current()
