"""`[pages]` of nightlatch.toml."""

from __future__ import annotations

from urllib.parse import urlsplit

from ..config.settings import Section
from ..core import checks
from ..core.value import value

PORT = 4747


@value(frozen=True, kw_only=True)
class PagesSettings:
    port: int = PORT  # if it is taken, the next free one is used
    metrics_port: int = 0  # where the metrics need no token; 0: nowhere
    url: str = ""  # https address at which a proxy on this machine shows the pages to others


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
