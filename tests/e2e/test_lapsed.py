"""A run whose holder is gone: every view shows it, and looking changes nothing."""

from __future__ import annotations

import os
import signal

from nightlatch.ledger import open_for
from nightlatch.store import url as stores
from tests.support.programs import children, nightlatch, said, start, until
from tests.support.runs import Running, listed, one


def test_a_run_whose_holder_was_killed_is_shown_as_lapsed(sqlite_url, lapsed):
    assert one(sqlite_url, "crawl")["status"] == "lapsed"
    assert [found["run"] for found in listed(sqlite_url, "--status", "lapsed")] == [lapsed]
    assert listed(sqlite_url, "--status", "running") == []
    assert f"resolve {lapsed[:4]}" in nightlatch(sqlite_url).stdout
    assert "its holder is gone" in nightlatch(sqlite_url, "show", lapsed).stdout


def test_looking_changes_nothing(sqlite_url, lapsed):
    def standing() -> tuple[object, object, object]:
        ledger, store = open_for(sqlite_url), stores.connect(sqlite_url)
        record = store.read("crawl")
        assert record
        return ledger.run(lapsed), list(ledger.journal.of_job("crawl")), (record.token, record.grant, record.version)

    before = standing()
    for words in ([], ["runs"], ["show", lapsed], ["logs", lapsed], ["resolve", lapsed], ["usage"]):
        nightlatch(sqlite_url, *words)
    assert standing() == before


def test_a_run_that_works_is_not_lapsed(sqlite_url, tmp_path):
    running = Running(sqlite_url, tmp_path, "agent")
    assert one(sqlite_url, "agent")["status"] == "running"
    assert running.finish() == 0


def test_a_run_whose_lease_ran_out_is_lapsed_though_its_supervisor_lives(sqlite_url, tmp_path):
    running = Running(sqlite_url, tmp_path, "agent", "--ttl", "5s")
    os.kill(running.process.pid, signal.SIGSTOP)
    try:
        until(lambda: one(sqlite_url, "agent")["status"] == "lapsed")
    finally:
        os.kill(running.process.pid, signal.SIGCONT)
    running.process.communicate(timeout=60)
    assert one(sqlite_url, "agent")["status"] == "in-doubt"


def test_neither_cancel_nor_retry_decides_a_lapsed_run(sqlite_url, lapsed):
    for command in ("cancel", "retry"):
        assert f"nightlatch resolve {lapsed}" in said(nightlatch(sqlite_url, command, lapsed), 76)


def test_a_batch_that_died_is_to_be_started_again_and_its_steps_are_counted(sqlite_url, tmp_path):
    (tmp_path / "items").write_text("".join(f"{number}\n" for number in range(7)))
    stuck = tmp_path / "stuck"
    script = f'[ "$1" != 6 ] || {{ echo $$ > {stuck}; exec sleep 600; }}; echo "wrote $1"'
    batch = ["batch", "posts", str(tmp_path / "items"), "--", "sh", "-c", script, "-", "{}"]
    process = start(sqlite_url, *batch)
    until(lambda: stuck.exists() and stuck.read_text())
    until(lambda: "wrote 5" in nightlatch(sqlite_url, "logs", "posts").stdout)
    for pid in (process.pid, *children(process.pid), int(stuck.read_text())):
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            pass  # the warden was faster
    process.communicate()
    shown = nightlatch(sqlite_url).stdout
    assert "lapsed" in shown and f"batch posts {tmp_path}/items -- sh -c" in shown
    shown = nightlatch(sqlite_url, "show", "posts").stdout
    assert "  command   batch posts -- sh -c" in shown
    assert "  steps: 6 done, the last 5; begun: 6\n" in shown, shown
    assert shown.count("nightlatch batch posts") == 2  # in the timeline, and under next
    assert nightlatch(sqlite_url, "logs", "posts").stdout.splitlines() == [f"wrote {number}" for number in range(6)]
