"""Bodies and paths that try to cost more than was counted for them: refused, or made to ask for no more."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nightlatch.gateway import routes
from nightlatch.gateway.body import BadBody, Body

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
