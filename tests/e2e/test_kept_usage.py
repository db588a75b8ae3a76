"""The file of usage that the store could not take, as the next attempt of the run finds it."""

from __future__ import annotations

import json
import os

import pytest

from tests.support.programs import nightlatch

FINE = {"id": "kept-1", "heads": [], "amounts": {"usd": 2}, "about": {}}


def line(**other: object) -> str:
    return json.dumps({**FINE, "id": "odd", **other})


@pytest.mark.parametrize(
    "odd",
    [line(amounts={"usd": -100}), line(amounts={"usd": float("nan")}), line(about=[]), line(id=5)[:20], "\x00\udcff"],
)
def test_a_damaged_line_of_kept_usage_does_not_keep_the_run_from_being_done(sqlite_url, tmp_path, odd):
    path = kept_by_a_failed_run(sqlite_url, tmp_path)
    path.write_bytes(f"{odd}\n{json.dumps(FINE)}\n".encode(errors="surrogateescape"))
    done = nightlatch(sqlite_url, "run", "job", "--key", "k", "--", "true")
    assert done.returncode == 0 and f"{path} holds a line" in done.stderr, done
    assert shown(sqlite_url)["usage"]["usd"] == 2, "what is whole in it is counted"
    assert not path.exists()


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_kept_usage_that_is_not_a_file_does_not_keep_the_run_from_being_done(sqlite_url, tmp_path, make):
    path = kept_by_a_failed_run(sqlite_url, tmp_path)
    make(path)
    done = nightlatch(sqlite_url, "run", "job", "--key", "k", "--", "true", timeout=30)
    assert done.returncode == 0 and f"{path} cannot be read" in done.stderr, done


def kept_by_a_failed_run(store, tmp_path):
    assert nightlatch(store, "run", "job", "--key", "k", "--", "false").returncode == 1
    folder = tmp_path / "state" / "nightlatch.db.d" / "runs" / shown(store)["run"]
    folder.mkdir(parents=True)
    return folder / "unwritten"


def shown(store):
    return json.loads(nightlatch(store, "show", "job", "--json").stdout)
