"""Traces from a plain command line, sent to a real receiver by a process that the run leaves behind."""

from __future__ import annotations

import json
import shlex
from typing import Any

from tests.support.otlp import SpanTree
from tests.support.programs import NIGHTLATCH, nightlatch, until
from tests.support.receivers import http_receiver

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_batch_of_parallel_items_is_one_tree_and_the_same_when_it_is_sent_twice(sqlite_url, tmp_path):
    items, seen = tmp_path / "items.jsonl", tmp_path / "seen"
    items.write_text("".join(f'{{"id": "{name}"}}\n' for name in "abcd"))
    command = f'echo "$NIGHTLATCH_KEY $TRACEPARENT" >> {seen}; test "$NIGHTLATCH_KEY" != d'
    with http_receiver() as receiver:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}
        nightlatch(
            sqlite_url, "batch", "posts", str(items), "--key", "{id}", "-j", "4", "--", "sh", "-c", command, env=env
        )
        first = until(lambda: tree if len((tree := SpanTree(receiver)).spans) == 6 else None)
        (run,) = {span["attributes"]["nightlatch.run"] for span in spans(sqlite_url) if span["name"] == "run posts"}
        again = nightlatch(sqlite_url, "traces", "send", run, env=env)
        assert again.stdout == "6 spans sent\n", again.stderr
        second = SpanTree(receiver)
    assert first
    assert first.parents() == {
        "run posts": "", "attempt 1": "run posts", **{f"item {name}": "attempt 1" for name in "abcd"},
    }  # fmt: skip
    assert len(first.traces) == 1 and first.services == {"nightlatch"}
    assert second.spans.keys() == first.spans.keys() and second.sent == 2 * first.sent
    given = dict(line.split() for line in seen.read_text().splitlines())
    for name in "abcd":  # what the item's command got is the span that was sent
        _, trace, span, _ = given[name].split("-")
        assert first.name(span) == f"item {name}" and {trace} == first.traces
    failed = {span.name for span in first.spans.values() if span.status.code == 2}
    assert failed == {"run posts", "attempt 1", "item d"}


def test_a_callers_trace_is_joined_and_what_could_not_be_sent_is_sent_later(sqlite_url):
    answers = [400]
    with http_receiver(lambda _: answers[-1]) as receiver:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "TRACEPARENT": CALLER}
        inner = [*NIGHTLATCH, "--store", sqlite_url, "run", "inner", "--", "sh", "-c", "echo $TRACEPARENT"]
        command = f"echo $TRACEPARENT; {shlex.join(inner)}"
        printed = nightlatch(sqlite_url, "run", "outer", "--", "sh", "-c", command, env=env)
        outer, inside = printed.stdout.split()
        until(lambda: receiver.requests)
        answers.append(200)

        def sent() -> SpanTree | None:
            nightlatch(sqlite_url, "traces", "send", env=env)
            return tree if len((tree := SpanTree(receiver)).spans) == 4 else None

        tree = until(sent)
    assert tree
    assert tree.traces == {CALLER.split("-")[1]}
    assert [tree.name(text.split("-")[2]) for text in (outer, inside)] == ["attempt 1", "attempt 1"]
    assert tree.parents()["run inner"] == "attempt 1"
    (root,) = [span for span in tree.spans.values() if span.name == "run outer"]
    assert root.parent_span_id.hex() == CALLER.split("-")[2]


def test_without_a_receiver_nothing_is_sent_and_a_command_says_what_to_set(sqlite_url):
    nightlatch(sqlite_url, "run", "job", "--", "true")
    refused = nightlatch(sqlite_url, "traces", "send")
    assert refused.returncode == 64 and "OTEL_EXPORTER_OTLP_ENDPOINT" in refused.stderr
    assert "attempt 1" in nightlatch(sqlite_url, "traces", newest(sqlite_url)).stdout


def newest(url: str) -> str:
    return str(json.loads(nightlatch(url, "runs", "--json").stdout.splitlines()[0])["run"])


def spans(url: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in nightlatch(url, "traces", newest(url), "--json").stdout.splitlines()]
