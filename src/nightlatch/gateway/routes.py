"""What a path is: metered in a dialect, passed on free of charge, or refused."""

from __future__ import annotations

import re
from functools import lru_cache

from .dialects import Dialect
from .dialects.google import EmbedContent, GenerateContent, Interactions
from .dialects.messages import Messages
from .dialects.openai import Chat, Embeddings, Responses

MESSAGES, CHAT, RESPONSES, COMPACT = Messages(), Chat(), Responses(), Responses(compact=True)
GENERATE, INTERACTIONS, EMBEDDINGS, EMBED = GenerateContent(), Interactions(), Embeddings(), EmbedContent()

_METERED: dict[str, list[tuple[str, Dialect]]] = {
    "anthropic": [(r"(v1/)?messages", MESSAGES)],
    "openai": [
        (r"(v1/)?chat/completions", CHAT),
        (r"(v1/)?responses", RESPONSES),
        (r"(v1/)?responses/compact", COMPACT),
        (r"(v1/)?embeddings", EMBEDDINGS),
    ],
    "google": [
        (r"v1\w*/models/[\w.@~-]+:(streamG|g)enerateContent", GENERATE),
        (r"v1\w*/interactions", INTERACTIONS),
        (r"v1\w*/models/[\w.@~-]+:(batchEmbedContents|embedContent)", EMBED),
    ],
}
_COUNTING = (
    r"(v1/)?messages/count_tokens|(v1/)?responses/input_tokens|v1\w*/models/[^/:]+:countTokens"  # free of charge
)
_UNESCAPED = r"[\w./:@~-]*"
_MODELS = r"((v1\w*)/)?models(/[^:]*)?"
_METERED["chatgpt"] = _METERED["openai"]
# For paths that are not metered: the dialect in which they are refused or passed on.
UNMETERED: dict[str, Dialect] = {
    "anthropic": MESSAGES, "openai": RESPONSES, "chatgpt": RESPONSES, "google": GENERATE,
}  # fmt: skip


@lru_cache(256)
def metered(vendor: str, path: str) -> Dialect | None:
    return next((dialect for form, dialect in _METERED[vendor] if re.fullmatch(form, path)), None)


def is_free(method: str, path: str) -> bool:
    if not re.fullmatch(_UNESCAPED, path) or ".." in path:
        return False  # a vendor may decode a slash or colon, and see another path
    if method == "POST":
        return re.fullmatch(_COUNTING, path) is not None
    return method == "HEAD" or (method == "GET" and re.fullmatch(_MODELS, path) is not None)
