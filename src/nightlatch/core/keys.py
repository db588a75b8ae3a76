"""Idempotency keys, derived from what is processed, never from when or by which attempt.

Each part is written with its type and its length, so that no two different lists of parts give the same bytes:
("a:b", "c") and ("a", "b:c") differ, and so do 1, 1.0, "1" and True. The encoding is frozen: a changed byte would make
every finished item look unfinished. Golden vectors in the tests check it.
"""

from __future__ import annotations

from ..errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

Part = object  # None, bool, int, float, str, bytes, date, datetime, UUID, Decimal, or a list, tuple or dict of these

_LARGEST_FLOAT = 1.7976931348623157e308  # `sys.float_info.max`
_PREFIX = b"nightlatch-key-1\n"


def key(*parts: Part) -> str:
    """A stable key for `parts`: 64 hexadecimal digits.

    Text is compared in Unicode's normal form NFC, so an "é" typed on macOS and one typed on Linux
    are the same. NaN, infinities, sets, and objects without a canonical form are refused: their key
    could be another one tomorrow.
    """
    if not parts:
        raise UsageError("a key needs at least one part: name what is processed, as in key(site, slug)")
    import hashlib

    return hashlib.sha256(_PREFIX + b"".join([_encode(part) for part in parts])).hexdigest()


def _encode(part: Part) -> bytes:
    if isinstance(part, str):
        return _framed(b"s", _text(part))
    if part is None:
        return _framed(b"n", b"")
    if isinstance(part, bool):
        return _framed(b"b", b"1" if part else b"0")
    if isinstance(part, int):
        return _framed(b"i", b"%d" % part)
    if isinstance(part, float):
        if not -_LARGEST_FLOAT <= part <= _LARGEST_FLOAT:  # infinite, or NaN
            raise UsageError(f"{part} cannot be part of a key: it is not a finite number")
        return _framed(b"f", repr(part + 0.0).encode())  # + 0.0 makes -0.0 equal to 0.0
    if isinstance(part, bytes | bytearray):
        return _framed(b"y", bytes(part))
    if isinstance(part, list | tuple):
        return _framed(b"l", b"".join(_encode(item) for item in part))
    if isinstance(part, dict):
        return _framed(b"d", b"".join(_pairs(part.items())))
    return _encode_imported(part)


def _encode_imported(part: Part) -> bytes:
    """Types whose modules are slow to import: reached only if the part is of none of the built-in types."""
    import datetime
    import decimal
    import uuid

    if isinstance(part, datetime.datetime):
        if part.tzinfo is None:
            raise UsageError(f"{part} has no time zone, so two machines could differ: add one")
        return _framed(b"t", part.astimezone(datetime.UTC).isoformat().encode())
    if isinstance(part, datetime.date):
        return _framed(b"a", part.isoformat().encode())
    if isinstance(part, uuid.UUID):
        return _framed(b"u", part.hex.encode())
    if isinstance(part, decimal.Decimal):
        if not part.is_finite():
            raise UsageError(f"{part} cannot be part of a key: it is not a finite number")
        return _framed(b"m", f"{part.normalize() + 0:f}".encode())
    raise UsageError(
        f"a {type(part).__name__} cannot be part of a key: it has no stable form; "
        f"pass text, numbers, dates, or lists and dicts of them"
    )


def _pairs(items: Iterable[tuple[Part, Part]]) -> list[bytes]:
    encoded = {}
    for name, item in items:
        if not isinstance(name, str):
            raise UsageError(f"a dict in a key needs text for its names, not {type(name).__name__}")
        text = _text(name)
        if text in encoded:
            raise UsageError(f"two names in a dict are {name!r} after Unicode normalisation: rename one of them")
        encoded[text] = _framed(b"s", text) + _encode(item)
    return [encoded[text] for text in sorted(encoded)]


def _text(text: str) -> bytes:
    if text.isascii():
        return text.encode()
    import unicodedata

    try:
        return unicodedata.normalize("NFC", text).encode()
    except UnicodeEncodeError:
        raise UsageError(f"{text!r} holds half a character (a lone surrogate), so it cannot be in a key") from None


def _framed(kind: bytes, body: bytes) -> bytes:
    return b"%s%d:%s" % (kind, len(body), body)
