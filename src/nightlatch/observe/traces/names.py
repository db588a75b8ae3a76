"""The names of the GenAI conventions, in one file because they still change.

As of semantic conventions 1.44, where they have the status Development (open-telemetry/semantic-conventions-genai).
"""

from __future__ import annotations

from ...core.metering import price

SCHEMA = "https://opentelemetry.io/schemas/1.44.0"

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
AGENT_NAME = "gen_ai.agent.name"
AGENT_ID = "gen_ai.agent.id"
INPUT_TOKENS = "gen_ai.usage.input_tokens"  # including those from a cache
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_CREATION_TOKENS = "gen_ai.usage.cache_creation.input_tokens"

CHAT, INVOKE_AGENT = "chat", "invoke_agent"  # operations; a span is named by its operation and object: "chat MODEL"

_PROVIDERS = {
    "claude": "anthropic", "gpt": "openai", "o1": "openai", "o3": "openai", "o4": "openai", "codex": "openai",
    "gemini": "gcp.gemini", "mistral": "mistral_ai", "grok": "x_ai", "deepseek": "deepseek",
}  # fmt: skip
_VENDORS = {"google": "gcp.gemini"}  # our name → the conventions' name, where they differ


def provider_of(model: str) -> str:
    """The provider, by the beginning of the model's name; "" if that is unknown."""
    name = model.rpartition("/")[2].lower()
    return next((provider for begin, provider in _PROVIDERS.items() if name.startswith(begin)), "")


def vendor(name: str) -> str:
    return _VENDORS.get(name, name)


def tokens(by_kind: dict[str, int]) -> dict[str, int]:
    """A call's attributes, from its tokens by kind."""
    found = {
        INPUT_TOKENS: sum(by_kind.get(kind, 0) for kind in price.INPUTS),
        OUTPUT_TOKENS: sum(by_kind.get(kind, 0) for kind in price.OUTPUTS),
        CACHE_READ_TOKENS: by_kind.get(price.CACHE_READ, 0),
        CACHE_CREATION_TOKENS: by_kind.get(price.CACHE_WRITE, 0) + by_kind.get(price.CACHE_WRITE_1H, 0),
    }
    return {name: count for name, count in found.items() if count or name in (INPUT_TOKENS, OUTPUT_TOKENS)}
