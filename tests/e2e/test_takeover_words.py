"""What people read about takeovers is true: from when a lease can be taken, why not yet, and what a stale holder does."""

from __future__ import annotations

import json
import os
import re
import signal

from nightlatch import connect
from nightlatch.core import duration
from nightlatch.core.value import replace
from nightlatch.system import identity
from tests.support.programs import Held, nightlatch, said, start, until


def _elsewhere(url: str, name: str, ttl: float) -> None:
    """A holder on another machine, which is never heard of again."""
    holder = replace(identity.holder(pid=1), machine="another", host="macbook", lifetime="")
    connect(url).acquire(name, identity.new_id(), holder, ttl, None)


def test_on_a_git_store_the_advice_is_the_time_that_watching_takes(git_url):
    _elsewhere(git_url, "reports", ttl=4.0)
    shown = nightlatch(git_url, "lease", "show", "reports").stdout
    assert re.search(r"taken +5s after a start on this machine has found it held, if it is not renewed", shown), shown
    busy = said(nightlatch(git_url, "lock", "reports", "--", "true"), 75)
    assert "this store has no clock, so a machine has to see the lease unchanged for 1.25 TTL, 5s" in busy
    wait = re.search(r"--wait (\S+),", busy)
    assert wait and 4 < duration.parse(wait[1]) <= 5
    assert re.search(
        r"taken +from \S+ \(in \ds\) if it is not renewed", nightlatch(git_url, "lease", "show", "reports").stdout
    )
    assert nightlatch(git_url, "lock", "reports", "--wait", wait[1], "--", "true").returncode == 0, "as it was advised"


def test_a_lease_whose_holder_is_gone_is_shown_as_free_to_take(git_url, tmp_path):
    held = Held(git_url, tmp_path, "reports")
    assert "taken" in nightlatch(git_url, "lease", "show", "reports").stdout
    held.end()
    assert (
        "at once, by the next start here: its holder is gone" in nightlatch(git_url, "lease", "show", "reports").stdout
    )


def test_a_stale_holder_is_told_to_stop_and_not_to_acquire_again(any_store):
    acquired = nightlatch(any_store, "lease", "acquire", "reports", "--json")
    grant = json.loads(acquired.stdout)["grant"]
    assert nightlatch(any_store, "lease", "release", "reports", "--force").returncode == 0
    lost = said(nightlatch(any_store, "lease", "renew", "reports", "--grant", grant), 123)
    assert "acquire" not in lost and "Stop what you are doing under it" in lost and "had it last" in lost
    assert nightlatch(any_store, "lease", "acquire", "reports").returncode == 0
    taken = said(nightlatch(any_store, "lease", "renew", "reports", "--grant", grant), 123)
    assert "acquire" not in taken and "has it since" in taken


def test_a_lease_that_could_not_be_renewed_names_what_kept_the_store_from_it(git_url, tmp_path):
    process = start(git_url, "lock", "reports", "--ttl", "3s", "--", "sh", "-c", f"touch {tmp_path}/in; sleep 60")
    until((tmp_path / "in").exists)
    os.rename(tmp_path / "store.git", tmp_path / "away")
    try:
        _, printed = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
    assert process.returncode == 123, printed
    assert re.search(r"could not be renewed in time \(.*store\.git.*\); another may", printed), printed
