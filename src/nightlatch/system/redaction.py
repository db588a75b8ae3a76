"""Secrets in the environment, removed from everything that is shown, kept, recorded or sent on.

A secret is found as it is, as JSON and URLs write it, and in base64 (standard and URL-safe), at any place in the
encoded text. A line break in its base64 hides it, unless it was encoded alone. Other encodings are not found: this
protects against accidents, not against a command that wants to leak a secret.
"""

from __future__ import annotations

import os

from . import token_shapes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Patterns = Sequence[tuple[bytes, bytes]]  # (what is removed, what replaces it)

ENV = "NIGHTLATCH_SECRETS"  # names the variables from a job's env_file: all are secrets, whatever they are called

_SHORTEST = 8  # shorter values would remove harmless words from every line
_SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL", "PRIVATE", "AUTH")
_LINE = 76  # characters in a line of the command base64
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_IN_JSON = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_IN_URLS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~")


def secrets(environment: Mapping[str, str]) -> Redactor:
    """A redactor for every variable that is named like a secret, or declared as one. A path is not a secret."""
    declared = named_secrets(environment)
    found = {
        os.fsencode(text): f"[{name}]".encode(errors="replace")
        for name, text in environment.items()
        if len(text) >= _SHORTEST
        and not name.startswith("NIGHTLATCH_")
        and (name in declared or (_is_named_like_secret(name.upper()) and not os.path.exists(text)))
    }
    return Redactor([(form, name) for secret, name in found.items() for form in _forms(secret)], shapes=True)


def _is_named_like_secret(name: str) -> bool:
    for word in _SECRET_WORDS:  # noqa: SIM110  called for every variable of every run: `any` takes three times as long
        if word in name:
            return True
    return False


def named_secrets(environment: Mapping[str, str]) -> list[str]:
    return environment.get(ENV, "").split()


def _forms(secret: bytes) -> Iterator[bytes]:
    yield secret
    yield from _escaped(secret)
    yield from _encoded(secret)


def _escaped(secret: bytes) -> Iterator[bytes]:
    """In JSON, with non-ASCII escaped or not; in a URL, with slashes escaped or not; in a form, where a space is +."""
    text = secret.decode(errors="surrogateescape")
    yield "".join(_IN_JSON.get(letter, letter) for letter in text).encode(errors="surrogateescape")
    yield "".join(_IN_JSON.get(letter) or _ascii(letter) for letter in text).encode()
    for kept in (b"", b"/"):
        yield b"".join(b"%c" % byte if byte in _IN_URLS or byte in kept else b"%%%02X" % byte for byte in secret)
    yield b"".join(b"%c" % byte if byte in _IN_URLS else b"+" if byte == 32 else b"%%%02X" % byte for byte in secret)


def _ascii(letter: str) -> str:
    if " " <= letter <= "~":
        return letter
    units = letter.encode("utf-16-be", errors="surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _encoded(secret: bytes) -> Iterator[bytes]:
    """The base64 characters that depend on the secret alone, for 0, 1 and 2 other bytes before it in its group of 3."""
    from binascii import b2a_base64

    forms = []
    for before in range(3):
        text = b2a_base64(bytes(before) + secret, newline=False)
        certain = (before + len(secret)) * 8 // 6  # the next character depends on what follows
        forms.append(text[(before * 8 + 5) // 6 : certain])
    whole = forms[0]
    forms.append(b"\n".join(whole[at : at + _LINE] for at in range(0, len(whole), _LINE)))
    for form in forms:
        yield form
        yield form.translate(_URL_SAFE)


class Redactor:
    def __init__(self, patterns: Patterns = (), *, shapes: bool = False) -> None:
        """`shapes`: also remove tokens that are known by their shape (system/token_shapes.py)."""
        self._shapes = shapes
        # The longest first: a secret may begin with a shorter one.
        self._patterns = sorted(dict(patterns).items(), key=lambda pair: -len(pair[0]))

    def data(self, data: bytes) -> bytes:
        for secret, placeholder in self._patterns:
            data = data.replace(secret, placeholder)
        return token_shapes.hide(data) if self._shapes else data

    def text(self, text: str) -> str:
        try:
            data = text.encode(errors="surrogateescape")
        except UnicodeEncodeError:
            data = text.encode(errors="replace")
        return self.data(data).decode(errors="surrogateescape")

    def beginning(self, data: bytes) -> int:
        """Where in `data` a secret begins that the next bytes may complete; the length of `data` if none does."""
        at = token_shapes.unfinished(data) if self._shapes else len(data)
        for secret, _ in self._patterns:
            start = data.find(secret[:1], max(0, len(data) - len(secret) + 1))
            while 0 <= start < at:
                if secret.startswith(data[start:]):
                    at = start
                start = data.find(secret[:1], start + 1)
        return at

    def end_of_secret_across(self, data: bytes, at: int) -> int:
        """The end of a whole secret that spans `at`; 0 if there is none."""
        for secret, _ in self._patterns:
            start = data.find(secret, max(0, at - len(secret) + 1))
            if 0 <= start < at:
                return start + len(secret)
        return 0


class Redacted:
    """Redacts a stream. Reads may split a secret, so what may be its beginning is held back until the next bytes."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor, self._held_back = redactor, b""

    def feed(self, data: bytes) -> bytes:
        """What may be passed on now; `data` b"" is the end."""
        pending = self._held_back + data
        at = self._redactor.beginning(pending) if data else len(pending)
        while secret_end := self._redactor.end_of_secret_across(pending, at):  # a whole secret spans `at`
            at = secret_end + self._redactor.beginning(pending[secret_end:])
        self._held_back = pending[at:]
        return self._redactor.data(pending[:at])
