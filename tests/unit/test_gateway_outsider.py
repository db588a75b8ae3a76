"""Bodies and paths that try to cost more than was counted for them: refused, or made to ask for no more."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from nightlatch.core.metering.call import Call
from nightlatch.core.metering.price import Price
from nightlatch.gateway import routes, server
from nightlatch.gateway.body import BadBody, Body
from nightlatch.gateway.requested import TOOL_TOKENS, ReplyUsage

MESSAGES, CHAT, RESPONSES = routes.MESSAGES, routes.CHAT, routes.RESPONSES
GENERATE, EMBED = routes.GENERATE, routes.EMBED
PATH = "v1beta/models/gemini-3.6-flash:generateContent"


def read(dialect: Any, path: str = "", /, **fields: Any) -> Any:
    return dialect.read(Body(json.dumps({"model": "m", **fields}).encode()), path)


@pytest.mark.parametrize("stated", ["9000", 9000.0, -1, True, [9000], {"value": 9000}])
@pytest.mark.parametrize(
    ("dialect", "path", "names"),
    [
        (MESSAGES, "", ("max_tokens",)),
        (CHAT, "", ("max_tokens",)),
        (CHAT, "", ("max_completion_tokens",)),
        (CHAT, "", ("n",)),
        (RESPONSES, "", ("max_output_tokens",)),
        (GENERATE, PATH, ("generationConfig", "maxOutputTokens")),
        (GENERATE, PATH, ("generation_config", "candidate_count")),
    ],
)
def test_a_limit_that_is_not_a_whole_number_is_refused(dialect, path, names, stated):
    for name in reversed(names):
        stated = {name: stated}
    with pytest.raises(BadBody, match="whole number"):
        read(dialect, path, **stated)


@pytest.mark.parametrize(
    ("dialect", "fields"),
    [
        (MESSAGES, {"max_tokens": sys.maxsize}),
        (MESSAGES, {"tools": [{"type": "web_search_20250305", "max_uses": sys.maxsize}]}),
        (CHAT, {"n": 10**20}),
        (RESPONSES, {"max_output_tokens": 10**25}),
        (RESPONSES, {"max_tool_calls": 10**25, "tools": [{"type": "web_search"}]}),
        (GENERATE, {"generationConfig": {"candidateCount": 10**9}}),
    ],
)
def test_a_limit_whose_cost_no_ledger_can_keep_is_refused(dialect, fields):
    with pytest.raises(BadBody, match="at most"):
        read(dialect, PATH, **fields)


def test_a_search_tool_with_a_limit_that_is_not_a_number_is_refused():
    with pytest.raises(BadBody):
        read(MESSAGES, max_tokens=9, tools=[{"type": "web_search_20250305", "max_uses": "50"}])


def test_no_limit_is_made_one():
    asked = read(MESSAGES, messages=[])
    assert asked.output is None


@pytest.mark.parametrize(
    ("dialect", "path", "fields"),
    [
        (CHAT, "", {"max_tokens": 10, "max_completion_tokens": 100_000}),
        (
            GENERATE,
            PATH,
            {"generationConfig": {"maxOutputTokens": 9}, "generation_config": {"maxOutputTokens": 90_000}},
        ),
        (GENERATE, PATH, {"generationConfig": {"maxOutputTokens": 9, "max_output_tokens": 90_000}}),
        (GENERATE, PATH, {"generationConfig": {"candidateCount": 1, "candidate_count": 8}}),
        (GENERATE, PATH, {"serviceTier": "standard", "service_tier": "priority"}),
    ],
)
def test_two_names_for_one_thing_are_refused(dialect, path, fields):
    with pytest.raises(BadBody):
        read(dialect, path, **fields)


def test_every_name_of_a_limit_is_lowered():
    body = Body(b'{"model": "m", "max_tokens": 9000, "max_completion_tokens": 9000}')
    CHAT.read(body, "")
    CHAT.limit(body, 500)
    assert json.loads(body.data) == {"model": "m", "max_tokens": 500, "max_completion_tokens": 500}


FALLBACKS = [{"model": "b", "max_tokens": 64_000, "thinking": {"type": "enabled", "budget_tokens": 9000}}]
ADVISOR = {"type": "advisor_20260301", "name": "advisor", "model": "dear", "max_uses": 3, "max_tokens": 8000}
COMPACTION = {"edits": [{"type": "compact_20260112"}]}


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"fallbacks": FALLBACKS}, {"models": ("m", "b"), "output": 64_000, "passes": 2, "lowest": 10_024}),
        ({"fallbacks": [{"model": "b"}, {"model": "c"}]}, {"models": ("m", "b", "c"), "output": 9, "passes": 3}),
        ({"tools": [ADVISOR]}, {"models": ("m", "dear"), "output": 8000, "uses": 3, "consults": True}),
        ({"tools": [{**ADVISOR, "max_tokens": None}]}, {"output": None}),
        ({"context_management": COMPACTION}, {"passes": 2}),
        ({"context_management": COMPACTION, "fallbacks": [{"model": "b"}]}, {"passes": 4}),
        ({"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}, {"passes": 1}),
        ({"inference_geo": "us"}, {"surcharge": 10}),
        ({"inference_geo": "global"}, {"surcharge": 0}),
        ({"mcp_servers": [{"type": "url", "url": "https://example.org"}]}, {"uses": 8}),
    ],
)
def test_other_models_that_one_request_may_pay_are_counted(fields, wanted):
    asked = read(MESSAGES, max_tokens=9, **fields)
    assert {name: getattr(asked, name) for name in wanted} == wanted


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"fallbacks": "default"}, "name the models"),
        ({"fallbacks": [{"model": "b", "speed": "fast"}]}, "state one for all"),
    ],
)
def test_a_model_or_a_speed_that_the_vendor_chooses_is_refused(fields, why):
    assert why in read(MESSAGES, max_tokens=9, **fields).refused


def test_every_models_limit_is_lowered():
    fields = {"model": "m", "max_tokens": 500, "fallbacks": FALLBACKS, "tools": [ADVISOR, {"name": "mine"}]}
    body = Body(json.dumps(fields).encode())
    MESSAGES.limit(body, 2000)
    MESSAGES.allow_uses(body, 1)
    assert json.loads(body.data) == {
        "model": "m",
        "max_tokens": 500,
        "fallbacks": [{**FALLBACKS[0], "max_tokens": 2000}],
        "tools": [{**ADVISOR, "max_tokens": 2000, "max_uses": 1}, {"name": "mine"}],
    }


def test_each_pass_over_the_input_is_bounded_and_fewer_uses_are_fewer_passes():
    asked = read(MESSAGES, max_tokens=1000, tools=[ADVISOR])
    price = Price(model="m", rates={"input": ((0, 10),), "output": ((0, 10),)})
    plain = Call(input=100, input_rate=10, output=1000, output_rate=10)
    bounds = {uses: server._with_uses(plain, asked, [price], uses).bound(1000)["tokens"] for uses in (3, 1)}
    assert bounds == {3: 4 * (100 + 1000) + 3 * TOOL_TOKENS, 1: 2 * (100 + 1000) + TOOL_TOKENS}


@pytest.mark.parametrize(
    ("dialect", "fields"),
    [
        (MESSAGES, {"thread": {"id": "t1"}}),
        (RESPONSES, {"something_stored": {"id": "s1"}}),
    ],
)
def test_a_count_that_leaves_something_out_is_no_bound(dialect, fields):
    body = Body(json.dumps({"model": "m", "messages": [], **fields}).encode())
    assert dialect.read(body, "").uncounted and dialect.counting(body, "") is None


def test_a_stored_prompt_is_refused():
    assert read(RESPONSES, prompt={"id": "pmpt_1"}).refused


@pytest.mark.parametrize("environment", [{"type": "container_auto"}, {"type": "container_reference"}])
def test_a_shell_in_the_vendors_container_is_not_the_clients(environment):
    assert read(RESPONSES, tools=[{"type": "shell", "environment": environment}]).refused
    assert not read(RESPONSES, tools=[{"type": "shell", "environment": {"type": "local"}}]).refused


def test_a_compaction_reads_the_input_once_more():
    assert read(RESPONSES, context_management=[{"type": "compaction", "compact_threshold": 200_000}]).passes == 2


@pytest.mark.parametrize("model", ["gpt-4o-search-preview", "gpt-5-search-api"])
def test_a_model_that_always_searches_pays_for_it(model):
    asked = CHAT.read(Body(json.dumps({"model": model}).encode()), "")
    assert asked.tools == ("web_search",) and asked.uses
    seen = ReplyUsage()
    CHAT.read_usage({"model": model, "usage": {"prompt_tokens": 9, "completion_tokens": 2}}, seen)
    assert seen.counts == {"input": 9, "output": 2, "web_search": 1}


def test_what_was_predicted_may_be_charged_as_output():
    assert "output" in read(CHAT, prediction={"type": "content", "content": "x"}).inputs


@pytest.mark.parametrize(
    ("tools", "kinds"),
    [
        ({"google_search": {}}, ("web_search",)),
        ([{"google_search": {}}], ("web_search",)),
        ([{"codeExecution": {}}], ("call",)),
        ([{"functionDeclarations": []}], ()),
        ({"functionDeclarations": [{"name": "search_the_web"}]}, ()),
    ],
)
def test_a_vendors_tool_is_seen_with_or_without_a_list(tools, kinds):
    asked = read(GENERATE, PATH, tools=tools)
    assert asked.tools == kinds and bool(asked.uses) == bool(kinds)


def test_the_other_spelling_of_an_interactions_limit_is_read_and_lowered():
    body = Body(b'{"model": "m", "generationConfig": {"maxOutputTokens": 90000}}')
    assert routes.INTERACTIONS.read(body, "").output == 90_000
    routes.INTERACTIONS.limit(body, 500)
    assert json.loads(body.data) == {"model": "m", "generationConfig": {"max_output_tokens": 500}}
    with pytest.raises(BadBody):
        read(routes.INTERACTIONS, generationConfig={}, generation_config={})


@pytest.mark.parametrize(
    "text",
    [
        '{"max_tokens": 9, "max_tokens": 90000}',
        '{"generationConfig": {"maxOutputTokens": 90000, "maxOutputTokens": 9}}',
        '{"tools": [{"type": "web_search_20250305", "max_uses": 50, "max_uses": 1}]}',
        '{"a": [[{"b": {"c": 1, "\\u0063": 2}}]]}',
    ],
)
def test_what_is_said_twice_at_any_depth_is_refused(text):
    with pytest.raises(BadBody, match="twice"):
        Body(text.encode())


@pytest.mark.parametrize("kind", ["image", "\\u0069mage", "im\\u0061ge"])
def test_media_are_seen_however_their_name_is_written(kind):
    text = '{"model": "m", "max_tokens": 9, "messages": [{"content": [{"type": "image", "source": {}}]}]}'
    text = text.replace("image", kind)
    assert MESSAGES.read(Body(text.encode()), "").uncounted == "media"


def test_a_cache_is_seen_however_its_name_is_written():
    body = Body(b'{"messages": [{"content": [{"\\u0063ache_control": {"ttl": "\\u0031h"}}]}]}')
    assert "cache_write_1h" in " ".join(MESSAGES.read(body, "").inputs)


def test_embedded_media_are_not_bounded_by_their_address():
    assert read(EMBED, PATH, content={"parts": [{"fileData": {"fileUri": "gs://x"}}]}).uncounted


@pytest.mark.parametrize(
    "path",
    [
        "v1/messages%2fbatches", "V1/Messages", "v1/./messages", "v1/x/../messages", "v1/messages;a=b", "v1/messages%00",
        "v1/messages/batches", "v1/%6dessages", "v1/messages\\", "v1/messages.",
    ],
)  # fmt: skip
def test_a_path_that_only_looks_like_a_metered_one_is_neither_metered_nor_free(path):
    assert routes.metered("anthropic", path) is None
    assert not routes.is_free("POST", path) and not routes.is_free("GET", path)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "v1beta/models/gemini%3AgenerateContent%3F:countTokens"),
        ("POST", "v1beta/models/x%2f..%2fgemini:countTokens"),
        ("GET", "v1/models/../files"),
        ("GET", "v1/models/%2e%2e/files"),
        ("HEAD", "v1beta/models/gemini%3AgenerateContent"),
    ],
)
def test_an_encoded_path_is_not_free(method, path):
    assert not routes.is_free(method, path)


def test_what_is_free_stays_free():
    assert routes.is_free("POST", "v1beta/models/gemini-3.6-flash:countTokens")
    assert routes.is_free("POST", "v1/messages/count_tokens")
    assert routes.is_free("GET", "v1/models/claude-opus-5-5") and routes.is_free("HEAD", "api/hello")
    assert routes.metered("google", PATH) is GENERATE
