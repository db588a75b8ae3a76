"""What the command gets instead of the vendors: addresses of the door, and run keys in place of its keys."""

from __future__ import annotations

from ....core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# The variables of each vendor: base URL, where it is without one, and the variables that hold a key for it.
VENDORS = {
    "anthropic": ("ANTHROPIC_BASE_URL", "https://api.anthropic.com", ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")),
    "openai": ("OPENAI_BASE_URL", "https://api.openai.com/v1", ("OPENAI_API_KEY", "CODEX_API_KEY")),
    "google": (
        "GOOGLE_GEMINI_BASE_URL",
        "https://generativelanguage.googleapis.com",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    ),
}
_LOOPBACK = "127.0.0.1"
_PROXIES = ("http", "https", "all", "no")


@value(frozen=True, kw_only=True)
class Masked:
    """The environment for the command, and what only the gateway knows."""

    environment: dict[str, str]
    bases: dict[str, str]  # where each vendor is
    keys: dict[str, str]  # what the command has in place of a key → the key
    proxies: dict[str, str]


def mask(given: Mapping[str, str], port: int, key: str) -> Masked:
    """`key`: the run's, random; it stands in the addresses."""
    environment = dict(given)
    bases: dict[str, str] = {}
    keys: dict[str, str] = {}
    for vendor, (base, default, names) in VENDORS.items():
        bases[vendor] = given.get(base) or default
        environment[base] = f"http://{_LOOPBACK}:{port}/{key}/{vendor}"
        for name in names:
            if given.get(name):  # where none is, none is put: it would replace a login of the client's own
                instead = f"{key}-{len(keys)}"
                keys[instead], environment[name] = given[name], instead
    proxies = {}
    for kind in _PROXIES:
        found = given.get(f"{kind}_proxy") or given.get(f"{kind.upper()}_PROXY")
        if found:
            proxies[kind] = found
    for name in ("NO_PROXY", "no_proxy"):
        others = given.get(name, "")
        environment[name] = f"{others},{_LOOPBACK},localhost" if others else f"{_LOOPBACK},localhost"
    return Masked(environment=environment, bases=bases, keys=keys, proxies=proxies)
