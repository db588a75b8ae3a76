"""The large clients behind the gateway, by key and by a made-up login, against a vendor on loopback.

`make test-clients` installs them; they are too large for every `make test`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.budgets import Spent, spent
from tests.support.programs import nightlatch
from tests.support.vendor import Plan, Received, Vendor

HERE = Path(__file__).parents[2] / ".clients"
PYTHON = str(HERE / "venv" / "bin" / "python")
BIN = HERE / "node_modules" / ".bin"
CLAUDE = next(iter(HERE.glob("venv/lib/*/site-packages/claude_agent_sdk/_bundled/claude")), Path("/nowhere"))

pytestmark = pytest.mark.skipif(not os.environ.get("NIGHTLATCH_CLIENTS"), reason="run by make test-clients")


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """A home of its own: no login, no settings, the programs in PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "claude").symlink_to(CLAUDE)
    (tmp_path / "home").mkdir()
    return {
        "HOME": str(tmp_path / "home"),
        "PATH": f"{folder}:{BIN}:{os.environ['PATH']}",
        "CODEX_HOME": str(tmp_path / "home" / ".codex"),
        "DISABLE_TELEMETRY": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }


def main_calls(vendor: Vendor) -> list[Received]:
    return [charge.call for charge in vendor.calls]


def run(
    url: str, vendor: Vendor, env: dict[str, str], budget: str, *command: str, **more: str
) -> tuple[Spent, subprocess.CompletedProcess[str]]:
    done = nightlatch(url, "run", "night", "--budget", budget, "--timeout", "4m", "--", *command,
                      env={**vendor.environment, **env, **more}, timeout=300, stdin=subprocess.DEVNULL)  # fmt: skip
    print(done.stdout[-2000:], done.stderr[-2000:])
    return spent(url, "night"), done


ASK = ["claude", "-p", "Say good night", "--output-format", "json"]


@pytest.mark.parametrize("way", ["key", "login", "script", "proxy", "settings"])
def test_claude_is_metered(sqlite_url, home, way):
    with Vendor(plan=lambda _: Plan(output=30)) as vendor:
        command, more = list(ASK), {}
        if way == "login":
            more = {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-made-up-login-0123456789"}
        elif way == "script":
            command = ["sh", "-c", " ".join(f"'{word}'" for word in ASK)]
        elif way == "proxy":
            more = {"HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
        elif way == "settings":
            (Path(home["HOME"]) / ".claude").mkdir()
            settings = {"env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}}
            (Path(home["HOME"]) / ".claude" / "settings.json").write_text(json.dumps(settings))
        found, done = run(sqlite_url, vendor, home, "usd=2", *command, **more)
        assert done.returncode == 0
        assert found.usd == vendor.charged > 0 and found.calls == len(vendor.calls)
        result = json.loads(done.stdout.strip().splitlines()[-1])
        assert abs(result["total_cost_usd"] - found.usd / 10**9) < 1e-6
        if way == "login":
            assert "made-up-login" in vendor.calls[0].call.headers["authorization"]


def test_claude_stops_at_a_refusal(sqlite_url, home):
    with Vendor(plan=lambda _: Plan(output=30)) as vendor:
        found, done = run(sqlite_url, vendor, home, "usd=0.001", *ASK)
        assert done.returncode == 121 and found.status == "over-budget"
        assert found.usd == vendor.charged == 0 and not vendor.calls
        assert "(1 refused)" in found.reason


def test_claude_in_an_endless_loop_of_tools_ends_within_its_budget(sqlite_url, home):
    def plan(call: Received) -> Plan:
        tool: dict[str, object] = {"name": "Bash", "input": {"command": "true", "description": "nothing"}}
        return Plan(output=600, tool=tool if call.body.get("tools") else None)

    with Vendor(plan=plan) as vendor:
        command = [*ASK, "--dangerously-skip-permissions"]
        found, done = run(sqlite_url, vendor, home, "usd=0.40", *command)
        assert done.returncode == 121
        assert 0.20e9 <= vendor.charged == found.usd <= 0.40e9
        result = json.loads(done.stdout.strip().splitlines()[-1])
        assert abs(result["total_cost_usd"] - found.usd / 10**9) < 1e-6
        print("calls", found.calls, "usd", found.usd / 10**9)


@pytest.mark.parametrize("way", ["key", "login", "script", "proxy"])
def test_codex_is_metered(sqlite_url, home, way):
    with Vendor(plan=lambda _: Plan(output=30)) as vendor:
        command = ["codex", "exec", "--json", "--skip-git-repo-check", "-m", "gpt-5.4", "Say good night"]
        more: dict[str, str] = {}
        Path(home["CODEX_HOME"]).mkdir()
        if way == "login":
            more = {"OPENAI_API_KEY": ""}
            import base64

            claims = {"email": "a@b.c", "https://api.openai.com/auth": {"chatgpt_plan_type": "pro", "chatgpt_account_id": "acc"},
                      "exp": 4_000_000_000}  # fmt: skip
            part = lambda found: base64.urlsafe_b64encode(json.dumps(found).encode()).decode().rstrip("=")  # noqa: E731
            token = f"{part({'alg': 'none'})}.{part(claims)}.{part({})}"
            tokens = {"id_token": token, "access_token": token, "refresh_token": "made-up", "account_id": "acc"}
            auth = {"OPENAI_API_KEY": None, "tokens": tokens, "last_refresh": "2026-11-17T00:00:00Z"}
            (Path(home["CODEX_HOME"]) / "auth.json").write_text(json.dumps(auth))
        elif way == "script":
            command = ["sh", "-c", " ".join(f"'{word}'" for word in command)]
        elif way == "proxy":
            more = {"HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
        found, done = run(sqlite_url, vendor, home, "usd=2", *command, **more)
        assert done.returncode == 0
        assert found.usd == vendor.charged > 0 and found.calls == len(vendor.calls)


def test_codex_stops_at_a_refusal(sqlite_url, home):
    Path(home["CODEX_HOME"]).mkdir()
    with Vendor(plan=lambda _: Plan(output=30)) as vendor:
        command = ["codex", "exec", "--json", "--skip-git-repo-check", "-m", "gpt-5.4", "Say good night"]
        found, done = run(sqlite_url, vendor, home, "usd=0.0001", *command)
        assert done.returncode == 121 and not vendor.calls and found.usd == 0
        assert "(1 refused)" in found.reason


AGENT_SDK = """
import asyncio
from claude_agent_sdk import query
async def main():
    async for message in query(prompt="Say good night"):
        print(type(message).__name__)
asyncio.run(main())
"""


def test_the_claude_agent_sdk_is_metered(sqlite_url, home):
    with Vendor(plan=lambda _: Plan(output=30)) as vendor:
        found, done = run(sqlite_url, vendor, home, "usd=2", PYTHON, "-c", AGENT_SDK)
        assert done.returncode == 0
        assert found.usd == vendor.charged > 0


ANTIGRAVITY = """
import asyncio, os
from google.antigravity import Agent, LocalAgentConfig
async def main():
    async with Agent(LocalAgentConfig(system_instructions="Be brief")) as agent:
        reply = await agent.chat("Say good night")
        print(await reply.text())
asyncio.run(main())
"""


def test_google_antigravity_is_metered(sqlite_url, home):
    with Vendor(plan=lambda _: Plan(output=30)) as vendor:
        found, done = run(sqlite_url, vendor, home, "usd=2", PYTHON, "-c", ANTIGRAVITY)
        assert done.returncode == 0
        assert found.usd == vendor.charged > 0


def gemini_settings(home: dict[str, str]) -> None:
    folder = Path(home["HOME"]) / ".gemini"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}}))


def test_gemini_cli_is_metered(sqlite_url, home):
    gemini_settings(home)
    with Vendor(plan=lambda _: Plan(output=30)) as vendor:
        found, done = run(sqlite_url, vendor, home, "usd=2", "gemini", "-p", "Say good night")
        assert done.returncode == 0
        assert found.usd == vendor.charged > 0


def test_gemini_cli_stops_after_two_refusals(sqlite_url, home):
    gemini_settings(home)
    with Vendor(plan=lambda _: Plan(output=30)) as vendor:
        found, done = run(sqlite_url, vendor, home, "usd=0.0000001", "gemini", "-p", "Say good night")
        assert done.returncode == 121 and not vendor.calls
        assert "(2 refused)" in found.reason


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
