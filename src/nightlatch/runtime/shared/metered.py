"""`claude` and `codex` as a metered command finds them: the real program, pointed at the gateway.

In both, settings override the environment. So a folder that comes first in PATH has a script for each, which starts
this module; it finds the real program later in PATH and adds the options that the program needs:

- claude: `--settings` with the address, since `env` in settings.json beats the environment.
- codex: a custom provider, since it ignores OPENAI_BASE_URL; without retries, which would repeat a refusal.
"""

from __future__ import annotations

import json
import os
import sys

from ... import exits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, NoReturn

ADDRESS = "NIGHTLATCH_GATEWAY"  # the gateway's address, for this run or item
FOLDER = "NIGHTLATCH_PROGRAMS"  # where the scripts are

_OTHER_ROUTES = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY")  # past the gateway
_PROVIDER = "nightlatch"


def for_item(environment: dict[str, str], digest: str) -> None:
    """Replace the run's addresses by those of a batch's item: they show the gateway which item a call belongs to."""
    address = environment.get(ADDRESS, "")
    for name, text in environment.items() if address else ():
        if text.startswith(address):
            environment[name] = f"{address}.{digest}{text.removeprefix(address)}"


def claude(words: list[str], environment: Mapping[str, str]) -> list[str]:
    """The words for claude: the user's, with the gateway's address added to `--settings`. Raises OSError or ValueError
    if these cannot be read."""
    address = f"{environment[ADDRESS]}/anthropic"
    given, rest = _pop_option(words, "--settings")
    settings = _settings(given)
    ours = {"ANTHROPIC_BASE_URL": address, **dict.fromkeys(_OTHER_ROUTES, "0")}
    settings["env"] = {**(settings.get("env") or {}), **ours}
    return ["--settings", json.dumps(settings), *rest]


def codex(words: list[str], environment: Mapping[str, str]) -> list[str]:
    """The words for codex: the user's, with the gateway as the provider."""
    key = next((name for name in ("CODEX_API_KEY", "OPENAI_API_KEY") if environment.get(name)), "")
    route, auth = ("openai", f'env_key="{key}"') if key else ("chatgpt", "requires_openai_auth=true")
    provider = (
        f'{{name="{_PROVIDER}",base_url="{environment[ADDRESS]}/{route}",{auth},wire_api="responses",'
        f"request_max_retries=0,stream_max_retries=0}}"
    )
    rest = words
    for option in ("-c", "--config"):
        rest = _drop_setting(rest, option, "model_provider")
    return ["-c", f'model_provider="{_PROVIDER}"', "-c", f"model_providers.{_PROVIDER}={provider}", *rest]


PROGRAMS = {"claude": claude, "codex": codex}


def main(name: str, words: list[str]) -> NoReturn:
    real = _real_program(name, os.environ)
    if not real:
        print(f"{name}: not found", file=sys.stderr)
        sys.exit(127)
    try:
        words = PROGRAMS[name](words, os.environ)
    except (OSError, ValueError) as error:
        print(f"{name}: the settings given with --settings cannot be read: {error}", file=sys.stderr)
        sys.exit(exits.USAGE)
    os.execv(real, [real, *words])  # noqa: S606 - what the command asked for


def _real_program(name: str, environment: Mapping[str, str]) -> str:
    """The path of the real program, which is not in our folder; "" if there is none."""
    ours = environment.get(FOLDER, "")
    for folder in environment.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(folder or ".", name)
        if folder != ours and os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    return ""


def _pop_option(words: list[str], option: str) -> tuple[str, list[str]]:
    """The value of an option, and the words without it."""
    given, at = "", 0
    rest: list[str] = []
    while at < len(words):
        if words[at] == "--":
            return given, rest + words[at:]
        if words[at] == option and at + 1 < len(words):
            given, at = words[at + 1], at + 2
        elif words[at].startswith(f"{option}="):
            given, at = words[at].partition("=")[2], at + 1
        else:
            rest.append(words[at])
            at += 1
    return given, rest


def _drop_setting(words: list[str], option: str, setting: str) -> list[str]:
    at = 0
    rest: list[str] = []
    while at < len(words):
        if words[at] == option and at + 1 < len(words) and words[at + 1].startswith(setting):
            at += 2
        else:
            rest.append(words[at])
            at += 1
    return rest


def _settings(given: str) -> dict[str, Any]:
    """The settings in a file or in JSON text. Raises OSError or ValueError if they are neither."""
    if not given:
        return {}
    if not given.lstrip().startswith("{"):
        with open(given, encoding="utf-8") as file:
            given = file.read()
    found = json.loads(given)
    if not isinstance(found, dict):
        raise ValueError("they are not a JSON object")
    return found


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
