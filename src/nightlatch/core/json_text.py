"""JSON without the Python parts of `json`, which import re: the path of a run, and processes that are forked, stay
small."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    def loads(text: str | bytes) -> Any: ...

    def dumps(fact: object) -> str: ...

    def encoder(
        default: Callable[[Any], Any] | None = None, *, nan: bool = True, compact: bool = False
    ) -> Callable[[object], str]: ...

else:
    import _json

    def encoder(default=None, *, nan=True, compact=False):
        """As `json.JSONEncoder(default=default, allow_nan=nan).encode`; `compact`: without spaces."""
        quote = _json.encode_basestring_ascii
        colon, comma = (":", ",") if compact else (": ", ", ")

        def refused(fact):
            raise TypeError(f"{type(fact).__name__} cannot be written as JSON")

        def encode(fact):
            pieces = _json.make_encoder({}, default or refused, quote, None, colon, comma, False, False, nan)
            return quote(fact) if isinstance(fact, str) else "".join(pieces(fact, 0))

        return encode

    class _Context:
        strict, memo, object_hook, object_pairs_hook = True, {}, None, None
        parse_float, parse_int = float, int
        parse_constant = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": -float("inf")}.__getitem__

    _scan = _json.make_scanner(_Context)
    dumps = encoder()

    def loads(text):
        """As `json.loads`."""
        if not isinstance(text, str):
            text = text.decode()
        text = text.strip(" \t\n\r")
        try:
            found, end = _scan(text, 0)
        except StopIteration:
            raise ValueError("it is not JSON") from None
        if end != len(text):
            raise ValueError(f"it is not JSON: more follows at {end}")
        return found
