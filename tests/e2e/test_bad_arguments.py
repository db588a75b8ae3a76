"""Arguments of the wrong kind, given to every public function: one clear line where they are given, nothing done."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nightlatch
from nightlatch import gates
from nightlatch.errors import UsageError
from nightlatch.ledger import open_for
from tests.support.programs import nightlatch as command


class Chunky:
    def __repr__(self) -> str:
        return "many\nlines"


WRONG: list[Any] = [5, 1.5, b"x", ["x", 5], {"a": 1}, Chunky(), True, "\udc80"]


def work(site: str = "") -> None:
    pass


def a_lease(name: Any, **more: Any) -> None:
    nightlatch.lease(name, **more).acquire().release()


def used(gate: Any) -> None:
    with nightlatch.lease("used") as lease:
        lease.use(gate)


OUTSIDE: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "lease": (a_lease, [None, ""]),
    "lease ttl": (lambda wrong: a_lease("x", ttl=wrong), [""]),
    "lease wait": (lambda wrong: a_lease("x", wait=wrong), [None, ""]),
    "lease gates": (lambda wrong: a_lease("x", gates=wrong), [None, "", "out.html", [None]]),
    "lease store": (lambda wrong: a_lease("x", store=wrong), [[], "x"]),
    "use": (used, [None, "out.html"]),
    "connect": (nightlatch.connect, [[], "x"]),
    "idempotency_header": (nightlatch.idempotency_header, [None, ""]),
    "idempotency_header scope": (lambda wrong: nightlatch.idempotency_header("a", wrong), [None, ""]),
    "gates.open": (gates.open, [None, ""]),
    "gates.Git": (gates.Git, [None, ""]),
    "gates.Git branch": (lambda wrong: gates.Git("/srv/site.git", wrong), [None]),
    "gates.Object": (gates.Object, [None, "", "x", "s3://bucket"]),
    "gates.Sql": (gates.Sql, [None, ""]),
    "gates.Sql url": (lambda wrong: gates.Sql("a", wrong), [""]),
    "run": (lambda wrong: nightlatch.run(wrong, "true"), [None, ""]),
    "run command": (lambda wrong: nightlatch.run("x", wrong), [None, "", [], [None]]),
    "run key": (lambda wrong: nightlatch.run("x", "true", key=wrong), ["", []]),
    "run slot": (lambda wrong: nightlatch.run("x", "true", slot=wrong), ["", []]),
    "run timeout": (lambda wrong: nightlatch.run("x", "true", timeout=wrong), ["", []]),
    "run budget": (lambda wrong: nightlatch.run("x", "true", budget=wrong), [[], {"frogs": 1}]),
    **{
        f"run {option}": (lambda wrong, option=option: nightlatch.run("x", "true", **{option: wrong}), more)  # type: ignore[misc]
        for option, more in {
            "tz": ["", []],
            "ttl": ["", []],
            "wait": ["", []],
            "stall": ["", []],
            "progress": [None, [""]],
            "grace": ["", []],
            "meter": ["", []],
            "env": [None, "A", [""]],
            "cwd": ["", [], "/nowhere"],
            "workspace": ["", []],
            "publish": [None, [""]],
            "input": [None, [""]],
            "lost": ["", []],
            "keep_awake": [None, "", 1],
            "retries": [None, "", -1],
            "backoff": ["", []],
            "again": [None, ""],
            "new": [None, ""],
            "frogs": [None],
        }.items()
    },
    "run store": (lambda wrong: nightlatch.run("x", "true", store=wrong), [[]]),
    "job": (nightlatch.job, [None, work]),
    "job function": (nightlatch.job(), [None, "work"]),
    **{
        f"job {option}": (lambda wrong, option=option: nightlatch.job(**{option: wrong})(work), more)  # type: ignore[misc]
        for option, more in {
            "name": ["", []],
            "key": [""],
            "slot": ["", []],
            "ttl": ["", []],
            "timeout": ["", []],
            "stall": ["", []],
            "budget": [[], {"frogs": 1}],
            "workspace": [[]],
            "publish": [None, [""]],
            "lost": [[]],
            "retries": [None, "", -1],
            "backoff": ["", []],
            "store": [[]],
        }.items()
    },
}  # fmt: skip
RIGHT = [
    *((f"{where} retries", 5) for where in ("job", "run")),
    *((f"run {flag}", True) for flag in ("keep_awake", "again", "new")),
    ("run progress", "\udc80"),  # names a file
]
PATHS: dict[str, Callable[[Any], Any]] = {"gates.at": gates.at, "gates.File": gates.File, "gates.Folder": gates.Folder}


@pytest.mark.parametrize("what", OUTSIDE)
def test_what_is_wrong_is_said_in_one_line(what, sqlite_url, tmp_path, monkeypatch):
    monkeypatch.setenv("NIGHTLATCH_STORE", sqlite_url)
    call, more = OUTSIDE[what]
    for wrong in [*WRONG, *more]:
        if any(what == there and wrong is right for there, right in RIGHT):
            continue
        with pytest.raises(UsageError) as error:
            call(wrong)
        assert "\n" not in str(error.value), (wrong, str(error.value))
    assert not (tmp_path / "state").exists() or what == "use", "something was begun"


@pytest.mark.parametrize("what", PATHS)
def test_a_path_is_a_text_or_a_path(what):
    assert PATHS[what]("out").url == PATHS[what](Path("out")).url
    for wrong in (None, 5, b"out", ["out"], "", "o\0ut", Chunky()):
        with pytest.raises(UsageError) as error:
            PATHS[what](wrong)
        assert "\n" not in str(error.value)


INSIDE = """
import nightlatch

class Chunky:
    def __repr__(self):
        return "many\\nlines"

WRONG = [1.5, b"x", ["x", 5], {"a": 1}, Chunky(), True, "\\udc80"]
run = nightlatch.current()

def called(*_):
    raise AssertionError("it was called")

TRIED = {
    "step": (lambda wrong: run.step(wrong, called), [None, 5, ""]),
    "step function": (lambda wrong: run.step("a", wrong), [None, 5, "called"]),
    "step retry": (lambda wrong: run.step("a", called, retry=wrong), [None, -1, "3"]),
    "map function": (lambda wrong: run.map(wrong, ["a"], name="m"), [None, 5, "called"]),
    "map key": (lambda wrong: run.map(called, ["a"], key=wrong), ["", 5, [], "same"]),
    "map concurrency": (lambda wrong: run.map(called, ["a"], concurrency=wrong), [None, 0, "3"]),
    "map retry": (lambda wrong: run.map(called, ["a"], retry=wrong), [None, -1, "3"]),
    "map failures": (lambda wrong: run.map(called, ["a"], failures=wrong), [None, 5, "", "x"]),
    "map name": (lambda wrong: run.map(called, ["a"], name=wrong), [5, "", []]),
    "handle": (lambda wrong: run.handle(wrong, called), [None, 5, "", "k" * 1001]),
    "handle function": (lambda wrong: run.handle("a", wrong), [None, 5, "called"]),
    "effect": (lambda wrong: run.effect(wrong, do=called), [None, 5, ""]),
    "effect do": (lambda wrong: run.effect("a", do=wrong), [None, 5, "called"]),
    "effect key": (lambda wrong: run.effect("a", do=called, key=wrong), [None, 5, []]),
    "effect probe": (lambda wrong: run.effect("a", do=called, probe=wrong), [5, "called"]),
    "effect not_done": (lambda wrong: run.effect("a", do=called, not_done=wrong), [None, 409, "x", ValueError, (int,)]),
    "effect deadline": (lambda wrong: run.effect("a", do=called, deadline=wrong), [None, 5, "", "0s"]),
    "effect settle": (lambda wrong: run.effect("a", do=called, settle=wrong), [None, 5, ""]),
    "effect retry": (lambda wrong: run.effect("a", do=called, retry=wrong), [None, -1, "3"]),
    "effect scope": (lambda wrong: run.effect("a", do=called, scope=wrong), [None, 5, "a b"]),
    "publish": (lambda wrong: run.publish(wrong, "out"), [None, 5, ""]),
    "publish target": (lambda wrong: run.publish("in", wrong), [None, 5, ""]),
    "publish keep": (lambda wrong: run.publish("in", "out", keep=wrong), [0, "", "3", 1.5]),
    "push": (lambda wrong: run.push(wrong), [None, 5, ""]),
    "push branch": (lambda wrong: run.push("/srv/site.git", wrong), [None, 5]),
    "push folder": (lambda wrong: run.push("/srv/site.git", "main", folder=wrong), [None, 5, ""]),
    "push done": (lambda wrong: run.push("/srv/site.git", "main", done=wrong), [None, 5]),
    "progress": (lambda wrong: run.progress(wrong), [None, "3", -1, float("nan")]),
    "progress total": (lambda wrong: run.progress(1, wrong), [None, "3", -1]),
    "progress message": (lambda wrong: run.progress(1, 2, wrong), [None, 5]),
    "spend": (lambda wrong: run.spend(usd=wrong), [None, "3", -1, float("inf")]),
    "spend frogs": (lambda wrong: run.spend(frogs=wrong), [None, 5]),
}
for what, (call, more) in TRIED.items():
    for wrong in [*WRONG, *more]:
        if wrong == 1.5 and what in ("progress", "progress total", "spend"):
            continue
        if wrong == "\\udc80" and what.startswith("publish") and "keep" not in what:
            continue  # a path may be so
        try:
            call(wrong)
        except nightlatch.Error as error:
            message = str(error)
            if type(error).__name__ != "UsageError" or "\\n" in message or message.startswith("not understood"):
                print(what, repr(wrong), type(error).__name__, message)
        except Exception as error:
            print(what, repr(wrong), type(error).__name__, error)
        else:
            print(what, repr(wrong), "was taken")
"""


def test_inside_a_run_nothing_is_begun_of_what_is_wrong(sqlite_url, tmp_path):
    (tmp_path / "inside.py").write_text(INSIDE)
    done = command(sqlite_url, "run", "walk", "--key", "k", "--", sys.executable, "inside.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
    ledger = open_for(sqlite_url)
    (run,) = ledger.history.runs(job="walk")
    assert not ledger.effects.every()
    assert not list(ledger.history.nested_in(run))
