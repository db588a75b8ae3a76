"""`[pages]` of nightlatch.toml."""

from __future__ import annotations

from urllib.parse import urlsplit

from ..config.settings import Section
from ..core import checks
from ..core.value import value

PORT = 4747


@value(frozen=True, kw_only=True)
class PagesSettings:
    port: int = PORT  # the next free one, if it is taken
    metrics_port: int = 0  # where Prometheus finds the metrics without a token; 0: nowhere
    url: str = ""  # where a proxy on this machine shows them to others, by https


def read(section: Section) -> PagesSettings:
    found: dict[str, object] = {}
    for key, at in section.table(("port", "url", "metrics_port")).items():
        if key in ("port", "metrics_port"):
            found[key] = checks.whole(at.value, key, least=1)
            if at.value > 65535:
                section.mistake(f"{key} is at most 65535", key)
        else:
            text = checks.text(at.value, "url")
            parts = urlsplit(text)
            if parts.scheme != "https" or not parts.netloc or parts.path not in ("", "/") or parts.query:
                section.mistake(
                    "url must be https:// and a name: the pages are on loopback, and a proxy shows them to others. "
                    'Example: url = "https://nightlatch.example.org"',
                    key,
                )
            found[key] = text
    return PagesSettings(**found)  # type: ignore[arg-type]
