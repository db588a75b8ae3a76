"""`nightlatch fail`: a command says whether trying again helps, and when."""

from __future__ import annotations

import pytest

from tests.support.batches import ids, jsonl
from tests.support.programs import NIGHTLATCH, TOOL, nightlatch


def test_an_item_says_whether_trying_again_helps(sqlite_url, tmp_path, acts):
    """429 is tried again, 404 is not, although --retries would allow it."""
    items = jsonl(tmp_path, {"id": 1, "status": 429}, {"id": 2, "status": 404})
    words = [*NIGHTLATCH, "fail", "--http"]
    line = 'echo "$1" >> "$0"; shift; [ "$2" = 429 ] && [ -e "$1.$2" ] && exit 0; touch "$1.$2"; shift 2; exec "$@"'
    command = ("sh", "-c", line, str(acts), "{id}", str(acts), "{status}", *words, "{status}")
    done = nightlatch(
        sqlite_url, "batch", "b", items, "--key", "{id}", "--retries", "2", "--backoff", "1ms", "--", *command
    )
    assert done.returncode == 1
    assert sorted(acts.read_text().split()) == ["1", "1", "2"], "in which order is a matter of chance"
    assert "2 (HTTP status 404)" in done.stderr


def test_nothing_is_started_before_a_servers_retry_after_is_over(sqlite_url, tmp_path, acts):
    items = jsonl(tmp_path, *ids(1, 2))
    fail = f"{TOOL} fail --http 503 --retry-after 1.5"
    line = f'date +%s.%N >> "$0"; [ -e "$0.told" ] || {{{{ touch "$0.told"; exec {fail}; }}}}'
    options = ("--key", "{id}", "--retries", "1", "--backoff", "1ms")
    done = nightlatch(sqlite_url, "batch", "b", items, *options, "--", "sh", "-c", line, str(acts))
    assert done.returncode == 0
    first, second, third = map(float, acts.read_text().split())
    assert second - first > 1.5, "neither the item itself nor the one after it"
    assert third - first > 1.5


def test_under_once_a_command_still_reaches_its_batch(sqlite_url, tmp_path):
    fail = [*NIGHTLATCH, "fail", "no such page", "--permanent"]
    once = [*NIGHTLATCH, "once", "post/{id}", "--not-done", "70", "--", *fail]
    done = nightlatch(sqlite_url, "batch", "b", jsonl(tmp_path, *ids(1)), "--key", "{id}", "--", *once)
    assert done.returncode == 1
    assert "1 (no such page)" in done.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [(("--http", "429"), 75), (("--http", "529"), 75), (("--http", "501"), 70), (("--http", "401"), 70), ((), 75),
     (("why", "--permanent"), 70), (("--retry-after", "Wed, 21 Oct 2026 07:28:00 GMT"), 75), (("--http", "200"), 64),
     (("--http", "000"), 75), (("--http", "301"), 70), (("--retry-after", "soon"), 75)],
)  # fmt: skip
def test_fail_exits_with_what_it_says(sqlite_url, words, code):
    assert nightlatch(sqlite_url, "fail", *words).returncode == code
