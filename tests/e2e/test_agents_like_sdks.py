"""What our adapters send is what the vendors' own SDKs send for the same calls: a new SDK that differs shows here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from nightlatch.agents import providers
from nightlatch.agents.seam import Ask
from tests.support.vendor.managed import ManagedVendor

HEADERS = ("authorization", "x-goog-api-key", "anthropic-version", "anthropic-beta", "content-type")
LABELS = {"nightlatch_run": "r1", "nightlatch_launch": "l1"}
SINCE = "2026-11-10T00:00:00Z"


@pytest.fixture
def vendor(monkeypatch: pytest.MonkeyPatch) -> Iterator[ManagedVendor]:
    with ManagedVendor() as made:
        for name, text in made.environment().items():
            monkeypatch.setenv(name, text)
        yield made


def sent(vendor: ManagedVendor, call: Callable[[], Any]) -> list[tuple[Any, ...]]:
    """(method, path, query, headers that matter, body) of what a call sends."""
    before = len(vendor.requests)
    try:
        call()
    except Exception as error:  # noqa: BLE001 - an SDK may not like the reply; what it sent is what counts
        print(type(error), error)
    found = []
    for method, path, headers, body in vendor.requests[before:]:
        where = urlsplit(path)
        kept = {
            name: headers[name] for name in HEADERS if name in headers and (method != "GET" or name != "content-type")
        }
        found.append((method, where.path, sorted(parse_qsl(where.query)), kept, body))
    return found


def same(vendor: ManagedVendor, ours: Callable[[], Any], theirs: Callable[[], Any]) -> None:
    mine, sdk = sent(vendor, ours), sent(vendor, theirs)
    assert mine and mine == sdk


def ask(agent: str, **more: Any) -> Ask:
    return Ask(agent=agent, input="write it", labels=LABELS, since=SINCE, **{"fields": {}, **more})


def test_sessions_as_the_sdk_of_anthropic_makes_them(vendor: ManagedVendor, tmp_path: Path):
    import anthropic

    sdk = anthropic.Anthropic(max_retries=0).beta.sessions
    fields = {"environment_id": "env_1", "title": "night"}
    adapter: Any = providers.load("anthropic", fields)
    asked = ask("agent_1", fields=fields, usd=2.5)
    same(
        vendor,
        lambda: list(adapter.every(SINCE)),
        lambda: sdk.list(created_at_gte=SINCE, limit=100),
    )
    (_, *made) = sent(vendor, lambda: adapter.prepare(asked))  # it lists what an earlier attempt prepared
    assert made == sent(
        vendor,
        lambda: sdk.create(
            agent="agent_1",
            metadata=LABELS,
            title="night",
            environment_id="env_1",
            budget={"type": "limit", "max_list_cost": {"amount": "250", "currency": "USD"}},
        ),
    )
    handle = next(iter(vendor.agents))
    same(
        vendor,
        lambda: adapter.launch(asked, handle),
        lambda: sdk.events.send(
            handle, events=[{"type": "user.message", "content": [{"type": "text", "text": "write it"}]}]
        ),
    )
    same(
        vendor,
        lambda: adapter.poll(handle),
        lambda: (sdk.retrieve(handle), sdk.events.list(handle, limit=100, order="asc")),
    )
    same(vendor, lambda: adapter.cancel(handle), lambda: sdk.events.send(handle, events=[{"type": "user.interrupt"}]))
    vendor.files = {"a.txt": b"a"}
    files = anthropic.Anthropic(max_retries=0).beta.files
    beta = {"anthropic-beta": "managed-agents-2026-04-01"}
    same(
        vendor,
        lambda: adapter.fetch(handle, tmp_path),
        lambda: (
            files.list(scope_id=handle, limit=100, extra_headers=beta),
            files.download("file_0", extra_headers=beta),
        ),
    )
    theirs = sent(vendor, lambda: sdk.archive(handle))
    assert theirs == sent(vendor, lambda: adapter._client.post(f"/v1/sessions/{handle}/archive"))


@pytest.mark.filterwarnings("ignore:Environments usage is experimental")
def test_interactions_as_the_sdk_of_google_makes_them(vendor: ManagedVendor, tmp_path: Path):
    from google import genai

    client = genai.Client(http_options={"retry_options": {"attempts": 1}})
    sdk: Any = client.interactions
    adapter: Any = providers.load("google", {})
    agent = "antigravity-preview-09-2026"
    same(
        vendor,
        lambda: adapter.launch(ask(agent, fields={"environment": "remote"}, tokens=1000), ""),
        lambda: sdk.create(
            agent=agent, input="write it", background=True, store=True, environment="remote", labels=LABELS,
            agent_config={"type": "antigravity", "max_total_tokens": 1000},
        ),
    )  # fmt: skip
    handle = next(iter(vendor.agents))
    same(vendor, lambda: adapter.poll(handle), lambda: sdk.get(handle))
    vendor.files = {"src/a b.txt": b"a"}
    files: Any = client.environments.files
    same(
        vendor,
        lambda: adapter.fetch(handle, tmp_path),
        lambda: (
            sdk.get(handle),
            files.list("environment_1", "", recursive=True),
            files.download(environment="environment_1", path="src/a%20b.txt"),
        ),
    )
    same(vendor, lambda: adapter.cancel(handle), lambda: sdk.cancel(handle))


def test_responses_as_the_sdk_of_openai_makes_them(vendor: ManagedVendor):
    import openai

    sdk = openai.OpenAI(max_retries=0).responses
    adapter: Any = providers.load("openai", {})
    same(
        vendor,
        lambda: adapter.launch(ask("gpt-5.4", fields={"max_tool_calls": 9}, tokens=1000), ""),
        lambda: sdk.create(
            model="gpt-5.4", input="write it", background=True, store=True, metadata=LABELS, max_output_tokens=1000,
            max_tool_calls=9,
        ),
    )  # fmt: skip
    handle = next(iter(vendor.agents))
    same(vendor, lambda: adapter.poll(handle), lambda: sdk.retrieve(handle))
    same(vendor, lambda: adapter.cancel(handle), lambda: sdk.cancel(handle))
