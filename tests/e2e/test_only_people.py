"""An agent cannot vouch for itself: what only a person may decide is refused inside a run, however it is called."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nightlatch.ledger import kinds, open_for
from nightlatch.runtime.supervisor.run.rows import read_row
from nightlatch.store import url
from tests.support.programs import nightlatch

FILE = """
[jobs.articles]
schedule = "0 2 * * *"
command = ["true"]
stage = "manual"
"""
COMMANDS = {
    "promote": "promote articles --force",
    "unpause": "unpause articles",
    "check --apply": "check --apply",
    "slots --from": "slots articles --from 2026-01-01T02:00",
    "lease raise": "lease raise articles",
    "lease release": "lease release articles --force",
}
WAYS = {
    "directly": "{words}",
    "env -i": 'env -i PATH="$PATH" HOME="$HOME" {words}',
    "setsid": "setsid --wait {words}",
    "a second shell": "sh -c 'env -i sh -c \"setsid --wait {words}\"'",
}


@pytest.fixture
def job(sqlite_url: str, tmp_path: Path) -> Path:
    (tmp_path / "nightlatch.toml").write_text(FILE)
    made = nightlatch(sqlite_url, "tick", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert nightlatch(sqlite_url, "pause", "articles", cwd=tmp_path).returncode == 0
    return tmp_path


@pytest.mark.parametrize("way", WAYS)
def test_what_only_a_person_may_decide(sqlite_url: str, job: Path, way: str) -> None:
    before = read_row(url.connect(sqlite_url), "articles")
    lines = []
    for words in COMMANDS.values():
        called = f"{sys.executable} -P -m nightlatch {words} --store {sqlite_url} --config {job}/nightlatch.toml"
        lines.append(f"{WAYS[way].format(words=called)}; echo $? >> {job}/codes")
    ran = nightlatch(sqlite_url, "run", "agent", "--", "sh", "-c", "\n".join(lines), cwd=job)
    assert (job / "codes").read_text().split() == ["77"] * len(COMMANDS), ran.stderr
    assert read_row(url.connect(sqlite_url), "articles") == before
    noted = [one.facts["what"] for one in open_for(sqlite_url).job_entries("articles") if one.kind == kinds.NOT_ALLOWED]
    assert len(noted) == len(COMMANDS), noted


def test_outside_of_a_run_they_are_a_persons(sqlite_url: str, job: Path) -> None:
    for words in ("unpause articles", "promote articles --force", "check --apply"):
        done = nightlatch(sqlite_url, *words.split(), cwd=job)
        assert done.returncode == 0, done.stderr
    row = read_row(url.connect(sqlite_url), "articles")
    assert row and row.stage == "supervised" and row.change and row.change["forced"]
