"""JSON texts, read by the decoder's scanner alone: what `json` does around it takes as long as a small text itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def reader(decoder: json.JSONDecoder) -> Callable[[str], Any]:
    """A function that does what `decoder.decode` does."""
    scan = decoder.scan_once  # type: ignore[attr-defined]

    def read(text: str) -> Any:
        try:
            found, end = scan(text, 0)
        except StopIteration:
            end = -1
        return found if end == len(text) else decoder.decode(text)  # space around the text, or an error to describe

    return read


_read = reader(json.JSONDecoder())


def parsed(data: bytes) -> object:
    """The JSON value of a reply, or of a part of one; None if it cannot be read."""
    try:
        return _read(data.decode())
    except (ValueError, RecursionError):
        pass
    try:
        return json.loads(data)  # in another encoding, perhaps
    except (ValueError, RecursionError):
        return None
