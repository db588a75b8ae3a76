"""The vendors' own SDKs behind the gateway: what they get, what is counted, and that a refusal makes them stop."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.support.budgets import spent
from tests.support.programs import nightlatch
from tests.support.vendor import Plan, Vendor

OPENAI = """
import openai, sys
client = openai.OpenAI()
api, how, calls = sys.argv[1], sys.argv[2], int(sys.argv[3])
for _ in range(calls):
    if api == "responses":
        ask = dict(model="gpt-5.4", input="Say good night", max_output_tokens=2000)
        if how == "json":
            text = client.responses.create(**ask).output_text
        else:
            with client.responses.stream(**ask) as stream:
                text = stream.get_final_response().output_text
    elif api == "chat":
        ask = dict(model="gpt-5.4", messages=[{"role": "user", "content": "Say good night"}], max_completion_tokens=2000)
        if how == "json":
            text = client.chat.completions.create(**ask).choices[0].message.content
        else:
            chunks = list(client.chat.completions.create(**ask, stream=True))
            assert all(chunk.choices for chunk in chunks), "a chunk that only the gateway asked for was passed on"
            text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    else:
        text = str(client.embeddings.create(model="text-embedding-3-small", input="night night night").data[0].index)
    print(text)
"""
GOOGLE = """
import sys
from google import genai
client = genai.Client(http_options=genai.types.HttpOptions(retry_options=genai.types.HttpRetryOptions(attempts=1)))
api, how, calls = sys.argv[1], sys.argv[2], int(sys.argv[3])
config = genai.types.GenerateContentConfig(max_output_tokens=2000)
for _ in range(calls):
    if api == "interactions":
        ask = dict(model="gemini-3.6-flash", input="Say good night", generation_config={"max_output_tokens": 2000})
        if how == "json":
            print(client.interactions.create(**ask).steps[0].content[0].text)
        else:
            print([event.event_type for event in client.interactions.create(**ask, stream=True)][-1], "night night night")
    elif how == "json":
        print(client.models.generate_content(model="gemini-3.6-flash", contents="Say good night", config=config).text)
    else:
        parts = client.models.generate_content_stream(model="gemini-3.6-flash", contents="Say", config=config)
        print("".join(part.text or "" for part in parts))
"""
PLANNED = Plan(input=100, output=300, cache_read=10, reasoning=40)

WAYS = [(OPENAI, api, how) for api in ("responses", "chat") for how in ("json", "sse")]
WAYS += [(GOOGLE, api, how) for api in ("generate", "interactions") for how in ("json", "sse")]


@pytest.mark.parametrize(("program", "api", "how"), WAYS, ids=[f"{api}-{how}" for _, api, how in WAYS])
def test_what_an_sdk_used_is_what_the_vendor_charged(sqlite_url, program, api, how):
    with Vendor(plan=lambda _: PLANNED) as vendor:
        done = nightlatch(sqlite_url, "run", "night", "--budget", "usd=2", "--",
                          sys.executable, "-c", program, api, how, "2", env=vendor.environment)  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count("night night night") == 2
        found = spent(sqlite_url, "night")
        assert found.usd == vendor.charged > 0
        assert (found.calls, found.doubt) == (2, 0)


@pytest.mark.parametrize(("program", "api"), [(OPENAI, "responses"), (OPENAI, "chat"), (GOOGLE, "generate")])
def test_a_refusal_makes_an_sdk_stop(sqlite_url, program, api):
    with Vendor(plan=lambda _: PLANNED) as vendor:
        done = nightlatch(sqlite_url, "run", "night", "--budget", "calls=1", "--",
                          sys.executable, "-c", program, api, "json", "5", env=vendor.environment)  # fmt: skip
        assert done.returncode == 121, done.stdout + done.stderr
        assert "the budget calls=1 is spent" in done.stderr
        assert len(vendor.calls) == spent(sqlite_url, "night").calls == 1


def test_embeddings_are_metered(sqlite_url):
    with Vendor() as vendor:
        done = nightlatch(sqlite_url, "run", "night", "--budget", "usd=2", "--",
                          sys.executable, "-c", OPENAI, "embeddings", "json", "2", env=vendor.environment)  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert spent(sqlite_url, "night").usd == vendor.charged > 0


# ── what the command can see ──

LOOK = """
import os, subprocess, sys, urllib.request, json
real = sys.argv[1:]
with open("/proc/self/environ") as file: seen = file.read()
seen += open("/proc/self/cmdline").read()
print("REAL" if any(key in seen for key in real) else "clean")
body = json.dumps({"model": "claude-opus-5-5", "max_tokens": 50, "messages": [{"role": "user", "content": "hi"}]}).encode()
headers = {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "content-type": "application/json"}
request = urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", body, headers)
print(urllib.request.urlopen(request).status)
print("leaked?", *[key[:9] + key[9:] for key in real])
"""


def test_the_real_key_is_nowhere_but_at_the_vendor(sqlite_url, tmp_path):
    with Vendor() as vendor:
        key = vendor.environment["ANTHROPIC_API_KEY"]
        code = tmp_path / "look.py"
        halves = f"{key[:12]!r} + {key[12:]!r}"  # not in the file as a whole
        code.write_text(LOOK.replace("real = sys.argv[1:]", f"real = [{halves}]"))
        done = nightlatch(sqlite_url, "run", "night", "--budget", "usd=2", "--", sys.executable, str(code),
                          env=vendor.environment)  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert "clean" in done.stdout and "200" in done.stdout and key not in done.stdout  # redacted although not there
        assert vendor.calls[0].call.headers["x-api-key"] == key
    state = Path(sqlite_url.removeprefix("sqlite:///")).parent
    for folder, _, files in os.walk(state):
        for name in files:
            assert key.encode() not in (Path(folder) / name).read_bytes(), name


def test_a_login_of_the_clients_own_passes_and_is_metered(sqlite_url):
    with Vendor() as vendor:
        env = {**vendor.environment, "ANTHROPIC_API_KEY": ""}
        code = LOOK.replace('os.environ["ANTHROPIC_API_KEY"]', '"login-of-the-client"').replace(
            "x-api-key", "authorization"
        )
        done = nightlatch(sqlite_url, "run", "night", "--budget", "usd=2", "--", sys.executable, "-c", code, env=env)
        assert done.returncode == 0, done.stderr
        assert vendor.calls[0].call.headers["authorization"] == "login-of-the-client"
        assert spent(sqlite_url, "night").usd == vendor.charged > 0
        assert "metered at list price" in done.stderr
        assert "x-api-key" not in vendor.calls[0].call.headers


def test_a_proxy_of_the_parents_does_not_catch_the_way_to_the_gateway(sqlite_url):
    with Vendor() as vendor:
        env = {**vendor.environment, "HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9",
               "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}  # fmt: skip
        done = nightlatch(sqlite_url, "run", "night", "--budget", "usd=2", "--", sys.executable, "-c", LOOK, env=env)
        assert done.returncode == 0, done.stderr


def test_a_proxy_of_the_parents_is_used_to_reach_the_vendor(sqlite_url):
    with Vendor() as vendor:  # as a proxy: it is asked for an absolute address
        env = {**vendor.environment, "ANTHROPIC_BASE_URL": "http://api.vendor.example", "HTTP_PROXY": vendor.url,
               "NO_PROXY": "", "no_proxy": "", "http_proxy": vendor.url}  # fmt: skip
        done = nightlatch(sqlite_url, "run", "night", "--budget", "usd=2", "--", sys.executable, "-c", LOOK, env=env)
        assert done.returncode == 0, done.stdout + done.stderr
        assert vendor.calls[0].call.headers["host"] == "api.vendor.example"


# ── programs that would not find the gateway by themselves ──

SHOWN = '#!/bin/sh\necho "$0"; for word; do echo "$word"; done\n'


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("claude", "codex"):
        (folder / name).write_text(SHOWN)
        (folder / name).chmod(0o755)
    return folder


def test_claude_and_codex_are_pointed_at_the_gateway_also_from_a_script(sqlite_url, programs):
    env = {"PATH": f"{programs}:{os.environ['PATH']}", "OPENAI_API_KEY": "sk-a-key-of-openai"}
    script = (
        'claude -p hello --settings \'{"model":"m","env":{"ANTHROPIC_BASE_URL":"http://past","A":"b"}}\'; codex exec hi'
    )
    done = nightlatch(sqlite_url, "run", "night", "--budget", "usd=2", "--", "sh", "-c", script, env=env)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert f"{programs}/claude" in lines and f"{programs}/codex" in lines
    settings = next(line for line in lines if line.startswith("{"))
    assert '"ANTHROPIC_BASE_URL": "http://127.0.0.1:' in settings and "past" not in settings and '"A": "b"' in settings
    provider = next(line for line in lines if line.startswith("model_providers"))
    assert 'base_url="http://127.0.0.1:' in provider and 'env_key="OPENAI_API_KEY"' in provider
    assert "request_max_retries=0" in provider
    assert "its budget was not counted" in done.stderr


@pytest.mark.parametrize("settings", ["gone.json", "{'model': 'm'}", "[]", "[1]"])
def test_settings_that_cannot_be_read_are_not_dropped_silently(sqlite_url, programs, tmp_path, settings):
    (tmp_path / "[1]").write_text("[1]")
    env = {"PATH": f"{programs}:{os.environ['PATH']}"}
    words = ("run", "night", "--budget", "usd=2", "--", "claude", "-p", "hello", "--settings", settings)
    done = nightlatch(sqlite_url, *words, env=env, cwd=tmp_path)
    assert done.returncode == 64 and "--settings cannot be read" in done.stderr + done.stdout
    assert "claude\n" not in done.stdout, "it was not started"


def test_codex_with_a_login_sends_that(sqlite_url, programs):
    env = {"PATH": f"{programs}:{os.environ['PATH']}", "OPENAI_API_KEY": "", "CODEX_API_KEY": ""}
    done = nightlatch(sqlite_url, "run", "night", "--budget", "usd=2", "--", "codex", "exec", "hi", env=env)
    assert "requires_openai_auth=true" in done.stdout and "/chatgpt" in done.stdout


@pytest.mark.parametrize(
    ("env", "command", "named"),
    [
        ({"CLAUDE_CODE_USE_BEDROCK": "1"}, "true", "Bedrock"),
        ({"GOOGLE_GENAI_USE_VERTEXAI": "true"}, "true", "Vertex"),
        ({}, "agy", "agy cannot be metered"),
    ],
)
def test_what_cannot_be_metered_is_refused_with_what_to_do(sqlite_url, env, command, named):
    done = nightlatch(sqlite_url, "run", "night", "--budget", "usd=2", "--", command, env=env)
    assert done.returncode == 64 and named in done.stderr
