"""`nightlatch agent run` against the vendors on loopback."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.programs import nightlatch, start
from tests.support.vendor.managed import ManagedVendor

PROVIDERS = ("anthropic", "google", "openai", "command")
AGENTS = {"anthropic": "agent_1", "google": "antigravity-preview-09-2026", "openai": "gpt-5.4", "command": ""}
_PLAIN = Path(__file__).parent / "vendor" / "plain_agent.py"


def words(
    provider: str, *more: str, job: str = "article", key: str = "k", find: bool = True, every: str = "200ms"
) -> list[str]:
    """The command line. Polls come often, so that tests are short."""
    found = [
        "agent",
        "run",
        job,
        "--key",
        key,
        "--provider",
        provider,
        "--input",
        "write it",
        "--set",
        f"every={every}",
    ]
    if AGENTS[provider]:
        found += ["--agent", AGENTS[provider]]
    if provider == "anthropic":
        found += ["--set", "environment_id=env_1"]
    if provider == "google":
        found += ["--set", "priced_as=gemini-3.1-pro-preview"]
    if provider == "command":
        verbs = ("launch", "poll", "cancel", *(("find",) if find else ()))
        found += [w for verb in verbs for w in ("--set", f"{verb}={shlex.join([sys.executable, str(_PLAIN), verb])}")]
    return [*found, "--timeout", "60s", *more]


def agent(store: str, vendor: ManagedVendor, provider: str, *more: str, **how: Any) -> subprocess.CompletedProcess[str]:
    return nightlatch(store, *words(provider, *more, **how), env=vendor.environment())


def begin(
    store: str, vendor: ManagedVendor, provider: str, *more: str, variables: dict[str, str] | None = None, **how: Any
) -> subprocess.Popen[str]:
    return start(store, *words(provider, *more, **how), env=vendor.environment() | (variables or {}))
