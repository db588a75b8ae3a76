"""Runs as spans: from the journal alone, with ids that every reader makes the same."""

from __future__ import annotations

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

from nightlatch.observe.traces import follow, names, spans
from nightlatch.observe.traces.export import Exporter, NotSent, is_sampled, is_wanted
from nightlatch.runtime.shared import trace
from tests.support.ledgers import ME, begun

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Receiver(Exporter):
    def __init__(self) -> None:
        self.sent: list[spans.Span] = []
        self.broken = False

    def send(self, given) -> int:
        if self.broken:
            raise NotSent("away")
        self.sent += given
        return len(given)


def tree(found) -> dict[str, str]:
    by_id = {span.id: span.name for span in found}
    assert len(by_id) == len(found)
    return {span.name: by_id.get(span.parent, "") for span in found}


def test_a_run_is_a_tree_of_attempts_steps_effects_and_calls(book):
    lost = begun(book, 1)
    writer = book.seal(lost.run.id, token=2, grant="grant-2", holder=ME, facts={"trace": CALLER})
    digest = "ab" * 16
    from nightlatch.ledger.items import ITEM, ItemRow

    item = ItemRow(scope="job", digest=digest, key="one", status="begun", tries=1, run=writer.run.id, attempt=2,
                   exit_code=None, result="", reason="", changed=0.0)  # fmt: skip
    writer.record("steps", [(ITEM, [ITEM.row(item)])], begun="one")
    for kind, tokens in (("input", 10), ("cache_read", 90), ("output", 7)):
        about = {"model": "claude-x", "kind": kind, "source": "gateway", "item": digest}
        writer.take(writer.used({"tokens": tokens, "usd": 0.5}, about, call=1, began=writer.now() - 0.001))
    writer.take(writer.used({"tokens": 5}, {"model": "gpt-9", "kind": "doubt", "source": "gateway"}, call=2, began=1.0))
    writer.record("steps", [], done="one")
    writer.event("effect", key="mail", status="begun")
    writer.event("effect", key="mail", status="done")
    writer.event("publishing", target="s3://x")
    writer.steps.append([("cd" * 16, "fetch", "begun", 1, "", "")])
    run = writer.finish("failed", reason="exit code 3", exit_code=3)
    found = spans.of_run(book, run)
    own, joined = ([span for span in found if (span.trace in CALLER) is joined] for joined in (False, True))
    assert tree(own) == {"run job": "", "attempt 1": "run job"}
    assert tree(joined) == {
        "run job": "", "attempt 2": "run job", "item one": "attempt 2", "effect mail": "attempt 2",
        "publish s3://x": "attempt 2", "step fetch": "attempt 2", "chat claude-x": "item one", "chat gpt-9": "attempt 2",
    }  # fmt: skip
    by_name = {span.name: span for span in joined}
    assert by_name["run job"].parent == CALLER.split("-")[2]
    call = by_name["chat claude-x"]
    assert call.attributes == {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic", "gen_ai.request.model": "claude-x",
        "gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 90, "nightlatch.usage.usd": 1.5,
    }  # fmt: skip
    assert call.calls_out and call.ok and call.end > call.begin
    assert by_name["chat gpt-9"].ok is False and by_name["attempt 2"].ok is False and by_name["item one"].ok
    for span in joined:  # none outside of the one around it
        assert by_name["attempt 2"].begin <= span.end and span.begin <= span.end
    assert by_name["publish s3://x"].end >= by_name["attempt 2"].begin  # nobody reported its end
    assert spans.of_run(book, run) == found
    assert trace.for_command(book.id, run.id, 2, CALLER) == f"00-{joined[0].trace}-{by_name['attempt 2'].id}-01"


def test_what_is_over_is_sent_once_and_what_could_not_be_sent_is_not_lost(book):
    exporter = Receiver()
    follow.send_new(book, exporter)  # begins to read
    writer = begun(book, 1)
    writer.finish("failed", again_at=writer.now() + 60)
    follow.send_new(book, exporter)
    assert exporter.sent == []  # it will be tried again
    exporter.broken = True
    begun(book, 2).finish("succeeded")
    with pytest.raises(NotSent):
        follow.send_new(book, exporter)
    exporter.broken = False
    assert follow.send_new(book, exporter) == 3 and follow.send_new(book, exporter) == 0
    assert sorted(span.name for span in exporter.sent) == ["attempt 1", "attempt 2", "run job"]


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        (CALLER, True), (CALLER[:-2] + "00", True), ("", False), ("00-0-0-0", False), (CALLER.upper(), False),
        ("ff" + CALLER[2:], False), (CALLER + "-x", False), ("01" + CALLER[2:] + "-x", True),
        (CALLER.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32), False), (CALLER + "\n", False),
    ],
)  # fmt: skip
def test_which_traceparent_counts(text, valid):
    assert (trace.read(text) is not None) is valid
    assert trace.of_caller({"TRACEPARENT": text}) == (f"00{text[2:55]}" if valid else "")


def test_otel_variables_say_whether_and_which():
    assert is_wanted({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}) and not is_wanted({})
    assert not is_wanted({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"})
    assert not is_wanted({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_TRACES_EXPORTER": "none"})

    def span(trace_id: str, flags: str = "01") -> spans.Span:
        return spans.Span(trace=trace_id, id="1" * 16, parent="", name="x", begin=0.0, end=0.0, flags=flags)

    low, high = span("f" * 16 + "0" * 16), span("0" * 16 + "f" * 16)
    half = {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.5"}
    assert is_sampled(low, half) and not is_sampled(high, half) and is_sampled(high, {})
    assert not is_sampled(span("a" * 32, "00"), {}) and not is_sampled(low, {"OTEL_TRACES_SAMPLER": "always_off"})


def test_every_name_is_one_of_the_conventions():
    known = {text for name, text in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
    ours = {text for text in vars(names).values() if isinstance(text, str) and text.startswith("gen_ai.")}
    assert len(ours) == 9 and ours <= known
    providers = {one.value for one in gen_ai_attributes.GenAiProviderNameValues}
    assert {*names._PROVIDERS.values(), *names._VENDORS.values()} <= providers
    operations = {one.value for one in gen_ai_attributes.GenAiOperationNameValues}
    assert {names.CHAT, names.INVOKE_AGENT} <= operations
