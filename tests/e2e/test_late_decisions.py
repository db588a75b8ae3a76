"""A decision that waited for the lease is about what the person saw, not about what was begun meanwhile."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from nightlatch.errors import RunEnded, UsageError
from nightlatch.ledger import items as items_module
from nightlatch.ledger import open_for
from nightlatch.runtime.shared import effect_records
from nightlatch.runtime.supervisor.afterwards import decide
from nightlatch.runtime.supervisor.batches import batch
from nightlatch.store.url import connect
from tests.support.programs import children, faketime, nightlatch, start, until


def meanwhile(monkeypatch: pytest.MonkeyPatch, module: ModuleType, do: Callable[[], object]) -> None:
    """Between the look and the lease."""
    real = module.Lease

    def late(*args: object, **more: object) -> object:
        monkeypatch.setattr(module, "Lease", real)
        do()
        return real(*args, **more)

    monkeypatch.setattr(module, "Lease", late)


def test_an_effect(monkeypatch: pytest.MonkeyPatch, sqlite_url: str):
    def try_it() -> None:
        assert nightlatch(sqlite_url, "once", "k", "--", "false").returncode == 76

    def decide_and_try_it() -> None:
        assert nightlatch(sqlite_url, "resolve", "k", "again").returncode == 0
        try_it()

    try_it()
    meanwhile(monkeypatch, effect_records, decide_and_try_it)
    with pytest.raises(UsageError, match="Look at it again"):
        effect_records.resolve("k", "failed", store=sqlite_url)
    assert nightlatch(sqlite_url, "once", "k", "--", "true").returncode == 76
    effect_records.resolve("k", "failed", store=sqlite_url)
    assert nightlatch(sqlite_url, "once", "k", "--", "true").returncode == 0


@pytest.mark.parametrize("clock", ["steady", "set back"])
@pytest.mark.parametrize("key", ["a", ""])
def test_an_item(monkeypatch: pytest.MonkeyPatch, ledger_url: str, tmp_path: Path, key: str, clock: str):
    items = tmp_path / "items"
    items.write_text("a\n")
    later = faketime("-1h") if clock == "set back" else {}

    def try_it(**env: str) -> None:
        done = nightlatch(ledger_url, "batch", "posts", str(items), "--", "sh", "-c", "exit 70", env=env)
        assert done.returncode == 1, done.stderr

    def decide_and_try_it() -> None:
        assert nightlatch(ledger_url, "resolve", "a", "again", "--batch", "posts").returncode == 0
        try_it(**later)

    try_it()
    meanwhile(monkeypatch, batch, decide_and_try_it)
    with pytest.raises(UsageError, match="Look at it again"):
        batch.resolve("posts", key, "done", store=ledger_url)
    assert batch.resolve("posts", key, "done", store=ledger_url) == ["a"]


def test_items_that_nothing_has_happened_to_are_decided(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """Others of the batch were decided meanwhile: that is about those."""
    items, many = tmp_path / "items", [f"item-{number}" for number in range(6)]
    items.write_text("\n".join(many))
    assert nightlatch(sqlite_url, "batch", "posts", str(items), "-j", "3", "--", "sh", "-c", "exit 70").returncode == 1
    monkeypatch.setattr(items_module, "_AT_ONCE", 2)
    meanwhile(monkeypatch, batch, lambda: batch.resolve("posts", many[3], "give-up", store=sqlite_url))
    assert batch.resolve("posts", "", "done", store=sqlite_url) == [key for key in many if key != many[3]]


def test_a_run_that_was_left_behind(monkeypatch: pytest.MonkeyPatch, sqlite_url: str, tmp_path: Path):
    def die() -> None:
        at_work = tmp_path / "at-work"
        at_work.unlink(missing_ok=True)
        words = ["run", "job", "--key", "k", "--lost", "again", "--", "sh", "-c", 'touch "$0"; sleep 600', str(at_work)]
        running = start(sqlite_url, *words)
        until(at_work.exists)
        for pid in (*children(running.pid), running.pid):
            os.kill(pid, signal.SIGKILL)
        running.communicate()

    die()
    ledger = open_for(sqlite_url)
    run = ledger.find("job", "k")
    assert run
    meanwhile(monkeypatch, decide, die)
    with pytest.raises(RunEnded, match="moved on"):
        decide.resolve(run, "failed", "ann", ledger=ledger, store=connect(sqlite_url), wait=20)
    now = ledger.find("job", "k")
    assert now and decide.resolve(now, "failed", "ann", ledger=ledger, store=connect(sqlite_url), wait=20).attempt == 2


def test_two_decisions_at_once_of_which_one_settles_the_key(monkeypatch: pytest.MonkeyPatch, ledger_url: str):
    """The other one would be told that the work is tried again, and it would be skipped for ever."""
    where = ledger_url
    words = ["run", "job", "--key", "k", "--", "sh", "-c", "kill -9 $(ps -o ppid= -p $PPID) $PPID; sleep 600"]
    nightlatch(where, *words)
    assert nightlatch(where, "run", "job", "--key", "k", "--wait", "20s", "--", "true").returncode == 76
    ledger, store = open_for(where), connect(where)
    run = ledger.find("job", "k")
    assert run
    real: Any = type(store).settle
    others: list[Any] = []

    def settle(*args: object, **more: object) -> object:
        others.append(start(where, "resolve", run.id, "failed"))
        time.sleep(3.0)  # enough for a decision that waits for nothing
        return real(*args, **more)

    monkeypatch.setattr(type(store), "settle", settle)
    assert decide.resolve(run, "done", "ann", ledger=ledger, store=store, wait=20).status == "succeeded"
    others[0].communicate()
    assert others[0].returncode == 64
    assert nightlatch(where, "run", "job", "--key", "k", "--", "false").returncode == 0
