"""The adapter of a provider: one of ours, or a user's `package.module:Name`."""

from __future__ import annotations

from ..core.agent import FIELDS, OWN
from ..errors import UsageError
from .fields import without

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .seam import Adapter

_ADAPTERS = {
    "anthropic": ".anthropic:Anthropic",
    "google": ".google:Google",
    "openai": ".openai:OpenAI",
    "command": ".command:CommandAdapter",
}
assert tuple(_ADAPTERS) == OWN


def load(provider: str, fields: Mapping[str, Any]) -> Adapter:
    """The provider's adapter, made with the fields that Nightlatch does not read itself."""
    module, _, name = _ADAPTERS.get(provider, provider).partition(":")
    if not name:
        raise UsageError(
            f"there is no provider {provider!r}: use {', '.join(OWN)}, or an adapter of yours, package.module:Name"
        )
    try:
        level = len(module) - len(module.lstrip("."))
        adapter_class = getattr(__import__(module.lstrip("."), globals(), None, [name], level), name)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"the provider {provider} cannot be loaded: {error}") from None
    adapter: Adapter = adapter_class(without(fields, *FIELDS))
    return adapter
