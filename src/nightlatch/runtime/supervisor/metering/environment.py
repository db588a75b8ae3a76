"""What the command gets instead of the vendors: the gateway's addresses, keys of this run in place of the user's keys,
and wrappers for programs that would not find the gateway by themselves."""

from __future__ import annotations

import json
import os
import sys

from ....core.units import METERED
from ....core.value import value
from ....errors import UsageError
from ....system.durable import private_folder
from ...shared.metered import ADDRESS, FOLDER, PROGRAMS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from ....core.budget import Cap

# For each vendor: the variable of its base URL, the base URL if it is not set, and the variables of its keys.
VENDORS = {
    "anthropic": ("ANTHROPIC_BASE_URL", "https://api.anthropic.com", ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")),
    "openai": ("OPENAI_BASE_URL", "https://api.openai.com/v1", ("OPENAI_API_KEY", "CODEX_API_KEY")),
    "google": (
        "GOOGLE_GEMINI_BASE_URL",
        "https://generativelanguage.googleapis.com",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    ),
}
CHATGPT = "https://chatgpt.com/backend-api/codex"  # where codex sends its calls if it has a login, not a key
_LOOPBACK = "127.0.0.1"
_PROXIES = ("http", "https", "all", "no")
_BYPASSES = {  # variables that send calls past any gateway, and where to
    "CLAUDE_CODE_USE_BEDROCK": "Bedrock",
    "CLAUDE_CODE_USE_VERTEX": "Vertex AI",
    "CLAUDE_CODE_USE_FOUNDRY": "Azure",
    "GOOGLE_GENAI_USE_VERTEXAI": "Vertex AI",
}
_OFF = ("", "0", "false", "no", "off")  # values that switch such a variable off


@value(frozen=True, kw_only=True)
class Masked:
    """The environment for the command, and what only the gateway knows."""

    environment: dict[str, str]
    bases: dict[str, str]  # each vendor's base URL
    keys: dict[str, str]  # what the command has in place of a key → the key
    proxies: dict[str, str]


def mask(given: Mapping[str, str], port: int, key: str, folder: str) -> Masked:
    """Point `given` at the gateway. `key`: a random secret of the run, part of the gateway's addresses. `folder`:
    the run's, in which wrappers of clients are written."""
    environment = dict(given)
    address = f"http://{_LOOPBACK}:{port}/{key}"
    bases: dict[str, str] = {}
    keys: dict[str, str] = {}
    for vendor, (base, default, names) in VENDORS.items():
        bases[vendor] = (
            given.get(base) or (_claude_settings(given).get(base) if vendor == "anthropic" else "") or default
        )
        environment[base] = f"{address}/{vendor}"
        for name in names:
            if given.get(name):  # only where the user has one: otherwise it would replace the client's own login
                stand_in = f"{key}-{len(keys)}"
                keys[stand_in], environment[name] = given[name], stand_in
    bases["chatgpt"] = given.get("OPENAI_BASE_URL") or CHATGPT
    proxies = {}
    for kind in _PROXIES:
        found = given.get(f"{kind}_proxy") or given.get(f"{kind.upper()}_PROXY")
        if found:
            proxies[kind] = found
    for name in ("NO_PROXY", "no_proxy"):
        others = given.get(name, "")
        environment[name] = f"{others},{_LOOPBACK},localhost" if others else f"{_LOOPBACK},localhost"
    programs = _programs(folder)
    environment |= {
        ADDRESS: address,
        FOLDER: programs,
        "PATH": f"{programs}{os.pathsep}{given.get('PATH', os.defpath)}",
    }
    return Masked(environment=environment, bases=bases, keys=keys, proxies=proxies)


def _programs(folder: str) -> str:
    """Write a wrapper for each program; returns their private folder."""
    place = private_folder(os.path.join(folder, "programs"))
    for name in PROGRAMS:
        path = os.path.join(place, name)
        script = f"#!/bin/sh\nexec '{sys.executable}' -P -m nightlatch.runtime.shared.metered {name} \"$@\"\n"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o700)
        with open(fd, "w", encoding="utf-8") as file:
            file.write(script)
    return place


def check(caps: Iterable[Cap], given: Mapping[str, str], command: list[str]) -> None:
    """Raise `UsageError` if the command's calls are known to go past the gateway, and a cap needs the gateway."""
    if not any(cap.unit in METERED and cap.unit != "calls" for cap in caps):
        return
    variables = {**_claude_settings(given), **given}
    name, where = next(
        ((name, where) for name, where in _BYPASSES.items() if variables.get(name, "").lower() not in _OFF), ("", "")
    )
    if where:
        raise UsageError(
            f"calls to models on {where} cannot be metered, and a budget in usd or tokens needs that: unset {name}, or "
            f"have usage reported with --meter report or --meter output"
        )
    if os.path.basename(command[0]) == "agy":
        raise UsageError(
            "agy cannot be metered (it uses its own login and has no base URL), and a budget in usd or tokens needs "
            "that: use the google-antigravity SDK, or drop --budget"
        )


def _claude_settings(given: Mapping[str, str]) -> dict[str, Any]:
    """The `env` of claude's own settings.json, which claude prefers to the environment."""
    home = given.get("CLAUDE_CONFIG_DIR") or os.path.join(given.get("HOME", ""), ".claude")
    try:
        with open(os.path.join(home, "settings.json"), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    env = found.get("env") if isinstance(found, dict) else None
    return {str(name): str(text) for name, text in env.items()} if isinstance(env, dict) else {}
