"""An agent cannot vouch for itself: what only a person may decide is refused inside a run, however it is called."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nightlatch.ledger import kinds, open_for
from nightlatch.runtime.supervisor.run.rows import read_row
from nightlatch.store import url
from tests.support.programs import nightlatch
from tests.support.staged import Staged

COMMANDS = [
    "approve {run} --yes",
    "approve articles --yes",
    "promote articles --force",
    "unpause articles",
    "resolve {run} done",
    "check --apply",
    "budget {run} usd=100",
    "gate adopt {out}",
    "gate forget {out} --lease articles",
    "lease raise articles",
    "lease release articles --force",
    "slots articles --from 2026-01-01T02:00",
    "agent attach {run} v1_abc",
    "open --print",
]
CALL = f"{sys.executable} -P -m nightlatch"
DAEMON = """
import os, sys
os.closerange(3, 1000)
reading, writing = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(writing, b"%d" % os.waitstatus_to_exitcode(os.system("env -i " + sys.argv[1])))
        os._exit(0)
    os._exit(0)
os.close(writing)
sys.exit(int(os.read(reading, 9)))
"""
WAYS = {
    "directly": "{words}",
    "env -i": 'env -i PATH="$PATH" HOME="$HOME" {words}',
    "setsid": "setsid --wait {words}",
    "a second shell": "sh -c 'env -i sh -c \"setsid --wait {words}\"'",
    "a daemon that closes everything": f"{sys.executable} {{daemon}} '{{words}}'",
}


@pytest.fixture
def job(sqlite_url: str, tmp_path: Path) -> Staged:
    """Paused, with a plan that waits."""
    made = Staged(sqlite_url, tmp_path, command="echo x > page", workspace="scratch", publish=[f"page={tmp_path}/out"])
    made.hold()
    made.ok("pause", "articles")
    (tmp_path / "daemon.py").write_text(DAEMON)
    return made


@pytest.mark.parametrize("way", WAYS)
def test_what_only_a_person_may_decide(sqlite_url: str, job: Staged, way: str, tmp_path: Path) -> None:
    before, run = job.row, job.runs[0]
    named = f"--store {sqlite_url} --config {tmp_path}/nightlatch.toml"
    lines = []
    for words in COMMANDS:
        called = f"{CALL} {words.format(run=run.id, out=tmp_path / 'out')} {named}"
        lines.append(f"{WAYS[way].format(words=called, daemon=tmp_path / 'daemon.py')}; echo $? >> {tmp_path}/codes")
    ran = nightlatch(sqlite_url, "run", "agent", "--", "sh", "-c", "\n".join(lines), cwd=tmp_path)
    codes = dict(zip(COMMANDS, (tmp_path / "codes").read_text().split(), strict=True))
    assert codes == dict.fromkeys(COMMANDS, "77"), ran.stdout + ran.stderr
    assert job.row == before and open_for(sqlite_url).run(run.id) == run and not (tmp_path / "out").exists()
    ledger = open_for(sqlite_url)
    noted = [one.facts["what"] for name in ("articles", "agent", "pages", "nightlatch")
             for one in ledger.journal.of_job(name) if one.kind == kinds.NOT_ALLOWED]  # fmt: skip
    assert len(noted) == len(COMMANDS), noted


def test_outside_of_a_run_they_are_a_persons(sqlite_url: str, job: Staged) -> None:
    for words in ("unpause articles", "promote articles --force", "check --apply"):
        job.ok(*words.split())
    row = read_row(url.connect(sqlite_url), "articles")
    assert row and row.stage == "unattended" and row.change and row.change["forced"]
