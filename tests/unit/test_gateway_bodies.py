"""Bodies that are read and changed at their top, and replies that are looked at as they pass."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightlatch.gateway import routes
from nightlatch.gateway.body import BadBody, Body
from nightlatch.gateway.events import Events, WholeReply
from nightlatch.gateway.requested import ReplyUsage
from tests.support.vendor.plan import Plan
from tests.support.vendor.shapes import Came, chat, generate, interactions, messages, responses

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=8), JSON, max_size=5), st.sampled_from((None, 2)), st.text(max_size=6), JSON)
def test_a_field_is_changed_or_added_and_nothing_else(fields, indent, name, value):
    body = Body(json.dumps(fields, indent=indent).encode())
    assert body.fields == fields
    body.set(name, value)
    assert json.loads(body.data) == body.fields == {**fields, name: value}


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{", b'{"a":1}x', b'{"a" 1}', b'{"a":1,}', b'{"a":}', b"\xff{}", b'{"a":1,"a":2}']
)
def test_what_is_not_an_object_or_says_something_twice_is_refused(data):
    with pytest.raises(BadBody):
        Body(data)


SHAPES: dict[str, Any] = {
    "messages": (messages, routes.MESSAGES),
    "chat": (chat, routes.CHAT),
    "responses": (responses, routes.RESPONSES),
    "generate": (generate, routes.GENERATE),
    "interactions": (interactions, routes.INTERACTIONS),
}
WANTED = {"input": 88, "cache_read": 12, "output": 345}


@pytest.mark.parametrize("shape", SHAPES)
@given(cuts=st.lists(st.integers(0, 5000), max_size=6))
def test_usage_is_seen_however_the_bytes_come(shape, cuts):
    make, dialect = SHAPES[shape]
    came = Came("1", "m", 100, 345, Plan(cache_read=12, reasoning=45), {"stream_options": {"include_usage": True}})
    whole, events = make(came)
    for reader, data in ((WholeReply, json.dumps(whole).encode()), (Events, b"".join(events))):
        seen = ReplyUsage()
        looking = reader(dialect, seen) if reader is WholeReply else Events(dialect, seen, drop_ours=False)
        places = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
        passed = b"".join(looking.feed(data[a:b]) for a, b in pairwise(places)) + looking.finish()
        assert passed == data
        assert seen.ended and {kind: n for kind, n in (seen.counts or {}).items() if n} == WANTED


def test_the_chunk_that_only_the_gateway_asked_for_is_not_passed_on():
    came = Came("1", "m", 100, 345, Plan(), {"stream_options": {"include_usage": True}})
    data = b"".join(chat(came)[1])
    without = b"".join(chat(Came("1", "m", 100, 345, Plan(), {}))[1])
    for size in (1, 7, 50, len(data)):
        seen = ReplyUsage()
        events = Events(routes.CHAT, seen, drop_ours=True)
        passed = b"".join(events.feed(data[at : at + size]) for at in range(0, len(data), size)) + events.finish()
        assert passed == without and seen.ended


def test_compaction_and_other_models_stand_apart():
    seen = ReplyUsage()
    usage = {
        "input_tokens": 10, "output_tokens": 5, "cache_creation_input_tokens": 30, "cache_read_input_tokens": 2,
        "cache_creation": {"ephemeral_1h_input_tokens": 20}, "server_tool_use": {"web_search_requests": 3},
        "iterations": [{"type": "message", "input_tokens": 10, "output_tokens": 5},
                       {"type": "compaction", "input_tokens": 900, "output_tokens": 80}],
    }  # fmt: skip
    routes.MESSAGES.read_usage({"type": "message", "model": "m", "id": "1", "usage": usage}, seen)
    assert seen.counts == {
        "input": 10,
        "cache_read": 2,
        "output": 5,
        "cache_write": 10,
        "cache_write_1h": 20,
        "web_search": 3,
    }
    assert seen.more == [("", {"input": 900, "output": 80})]


def test_a_declined_attempt_and_its_fallback_are_charged_each_to_its_model():
    seen = ReplyUsage()
    iterations = [
        {"type": "message", "model": "dear", "input_tokens": 408, "output_tokens": 3000},
        {"type": "fallback_message", "model": "cheap", "input_tokens": 412, "output_tokens": 264},
    ]
    usage = {"input_tokens": 412, "output_tokens": 264, "inference_geo": "us", "iterations": iterations}
    routes.MESSAGES.read_usage({"type": "message", "model": "cheap", "id": "1", "usage": usage}, seen)
    assert seen.counts == {"input": 412, "output": 264} and seen.surcharge == 10
    assert seen.more == [("dear", {"input": 408, "output": 3000})]


def test_what_a_model_reads_again_after_its_advisor_is_charged():
    seen = ReplyUsage()
    start = {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 412, "output_tokens": 1}}}
    iterations = [
        {"type": "message", "input_tokens": 412, "output_tokens": 89},
        {"type": "advisor_message", "model": "dear", "input_tokens": 823, "output_tokens": 1612},
        {"type": "message", "input_tokens": 1348, "cache_read_input_tokens": 400, "output_tokens": 442},
    ]
    routes.MESSAGES.read_usage(start, seen)
    routes.MESSAGES.read_usage(
        {"type": "message_delta", "usage": {"output_tokens": 531, "iterations": iterations}}, seen
    )
    assert seen.counts == {"input": 1760, "cache_read": 400, "output": 531} and seen.ended
    assert seen.more == [("dear", {"input": 823, "output": 1612})]


@pytest.mark.parametrize(
    ("vendor", "method", "path", "what"),
    [
        ("anthropic", "POST", "v1/messages", "metered"),
        ("anthropic", "POST", "v1/messages/count_tokens", "free"),
        ("anthropic", "POST", "v1/messages/batches", "refused"),
        ("anthropic", "GET", "v1/models", "free"),
        ("anthropic", "HEAD", "api/hello", "free"),
        ("anthropic", "POST", "v1/files", "refused"),
        ("anthropic", "POST", "v1/sessions", "refused"),
        ("openai", "POST", "responses", "metered"),
        ("openai", "POST", "responses/compact", "metered"),
        ("openai", "POST", "responses/input_tokens", "free"),
        ("openai", "POST", "v1/chat/completions", "metered"),
        ("openai", "POST", "embeddings", "metered"),
        ("openai", "GET", "responses", "refused"),  # a websocket: codex falls back
        ("openai", "POST", "images/generations", "refused"),
        ("openai", "POST", "audio/speech", "refused"),
        ("chatgpt", "POST", "responses", "metered"),
        ("google", "POST", "v1beta/models/gemini-3:streamGenerateContent", "metered"),
        ("google", "POST", "v1/interactions", "metered"),
        ("google", "POST", "v1beta/models/gemini-3:countTokens", "free"),
        ("google", "POST", "v1beta/cachedContents", "refused"),
    ],
)
def test_a_path_is_metered_free_or_refused(vendor, method, path, what):
    found = (
        "metered"
        if method == "POST" and routes.metered(vendor, path)
        else "free"
        if routes.is_free(method, path)
        else "refused"
    )
    assert found == what


@pytest.mark.parametrize(
    ("dialect", "path", "body", "wanted"),
    [
        (routes.MESSAGES, "", {"max_tokens": 9, "thinking": {"type": "enabled", "budget_tokens": 5000}}, {"lowest": 6024, "output": 9}),
        (routes.MESSAGES, "", {"max_tokens": 9, "thread": "t"}, {"uncounted": "thread"}),
        (routes.MESSAGES, "", {"messages": [{"content": [{"type": "image"}]}]}, {"uncounted": "media"}),
        (routes.MESSAGES, "", {"speed": "fast"}, {"tier": "fast"}),
        (routes.MESSAGES, "", {"fallbacks": [{"model": "b"}], "model": "a"}, {"models": ("a", "b")}),
        (routes.MESSAGES, "", {"tools": [{"type": "web_search_20250305", "max_uses": 3}, {"name": "x"}]}, {"uses": 3}),
        (routes.CHAT, "", {"n": 4, "max_tokens": 7}, {"times": 4, "output": 7}),
        (routes.RESPONSES, "", {"previous_response_id": "r1"}, {"after": "r1", "output": None}),
        (routes.RESPONSES, "", {"new": {"id": "p"}}, {"uncounted": "new"}),
        (routes.RESPONSES, "", {"tools": [{"type": "function"}, {"type": "web_search"}]}, {"uses": 8}),
        (routes.GENERATE, "v1/models/g:generateContent", {"cachedContent": "c"}, {"uncounted": "cachedContent", "models": ("g",)}),
        (routes.GENERATE, "v1/models/g:streamGenerateContent", {"generationConfig": {"candidateCount": 2, "maxOutputTokens": 5}},
         {"times": 2, "output": 5, "stream": True}),
        (routes.INTERACTIONS, "", {"previous_interaction_id": "i1", "model": "g"}, {"after": "i1"}),
    ],
)  # fmt: skip
def test_a_request_is_read_for_what_it_may_cost(dialect, path, body, wanted):
    asked = dialect.read(Body(json.dumps(body).encode()), path)
    assert {name: getattr(asked, name) for name in wanted} == wanted


@pytest.mark.parametrize(
    "body", [{"background": True}, {"tools": [{"type": "image_generation"}]}, {"tools": [{"type": "mcp"}]}]
)
def test_what_is_charged_after_its_reply_is_refused(body):
    assert routes.RESPONSES.read(Body(json.dumps(body).encode()), "").refused


def test_an_agent_at_the_vendor_is_refused():
    assert routes.INTERACTIONS.read(Body(b'{"agent":"antigravity"}'), "").refused
