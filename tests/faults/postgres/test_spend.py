"""What was used while the store is away is counted at once, kept, and recorded once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nightlatch.ledger import open_for
from tests.support.programs import TOOL, alive, children, nightlatch, start, until
from tests.support.servers.postgres import PostgresServer

# It spends on request, prints how that ended, and exits on request.
COMMAND = f"""
touch ready
while [ ! -e go ]; do sleep 0.02; done
for amount in 0.25 0.5; do {TOOL} spend usd=$amount 2>> said || exit; done
touch spent
while [ ! -e end ]; do sleep 0.02; done
"""


@pytest.fixture
def away(server: PostgresServer, url: str, tmp_path: Path, request: pytest.FixtureRequest):
    """A run that has spent while the server was stopped."""
    words = ["run", "job", "--key", "k", *getattr(request, "param", ()), "--", "sh", "-c", COMMAND]
    run = start(url, *words, cwd=tmp_path)
    until((tmp_path / "ready").exists)
    server.stop()
    (tmp_path / "go").touch()
    # With a cap the command may be ended before it says so; its supervisor then waits for the server.
    until(lambda: (tmp_path / "spent").exists() or not any(map(alive, children(run.pid))))
    assert "recorded when it is back" in (tmp_path / "said").read_text()
    yield run
    run.kill()
    run.communicate()


def used(url: str) -> float:
    found = open_for(url).find("job", "k")
    assert found
    return found.usage.usd


def test_it_is_recorded_when_the_store_is_back(away, server, url, tmp_path):
    server.start()
    until(lambda: used(url) == 0.75)
    (tmp_path / "end").touch()
    _, said = away.communicate(timeout=60)
    assert away.returncode == 0 and "usd=0.75" in said, said
    assert used(url) == 0.75


def test_a_killed_supervisor_leaves_it_to_the_next_attempt(away, server, url, tmp_path):
    (warden,) = children(away.pid)
    for pid in (away.pid, warden, *children(warden)):
        os.kill(pid, 9)
    server.start()
    again = nightlatch(url, "run", "job", "--key", "k", "--lost", "again", "--wait", "90s", "--", "true", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert used(url) == 0.75


@pytest.mark.parametrize("away", [("--budget", "usd=0.6", "--meter", "report")], indirect=True)
def test_caps_count_it_at_once(away, server, url):
    server.start()
    _, said = away.communicate(timeout=60)
    assert away.returncode == 121 and "usd=0.75" in said, said
