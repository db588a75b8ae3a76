"""Secrets of the environment, taken out of whatever is shown, kept, recorded or sent on: one way for all of them.

A secret is found as it is, and in base64 (standard and URL-safe) wherever in the encoded text it begins. Other
encodings are not: this is against carelessness, not against a command that wants to give a secret away.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Patterns = Sequence[tuple[bytes, bytes]]  # what is taken out, and what stands in its place

_SHORTEST = 8  # shorter values would take innocent words out of every line
_NAMES = ("KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL", "PRIVATE", "AUTH")
_LINE = 76  # where the command base64 ends a line
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


def secrets(environment: Mapping[str, str]) -> Redactor:
    """What has the name of a secret. A path to a key is no key."""
    found = {
        os.fsencode(text): f"[{name}]".encode(errors="replace")
        for name, text in environment.items()
        if len(text) >= _SHORTEST
        and not name.startswith("NIGHTLATCH_")
        and any(word in name.upper() for word in _NAMES)
        and not os.path.exists(text)
    }
    return Redactor([(form, instead) for secret, instead in found.items() for form in (secret, *_encoded(secret))])


def _encoded(secret: bytes) -> Iterator[bytes]:
    """The signs that its base64 has for certain, after 0, 1 and 2 other bytes of a group of three."""
    from binascii import b2a_base64

    forms = []
    for before in range(3):
        text = b2a_base64(bytes(before) + secret, newline=False)
        certain = (before + len(secret)) * 8 // 6  # the sign after those depends on what follows
        forms.append(text[(before * 8 + 5) // 6 : certain])
    whole = forms[0]
    forms.append(b"\n".join(whole[at : at + _LINE] for at in range(0, len(whole), _LINE)))
    for form in forms:
        yield form
        yield form.translate(_URL_SAFE)


class Redactor:
    def __init__(self, patterns: Patterns = ()) -> None:
        # The longest first: one secret may begin with another.
        self._patterns = sorted(dict(patterns).items(), key=lambda pair: -len(pair[0]))

    def data(self, data: bytes) -> bytes:
        for secret, instead in self._patterns:
            data = data.replace(secret, instead)
        return data

    def text(self, text: str) -> str:
        try:
            data = text.encode(errors="surrogateescape")
        except UnicodeEncodeError:
            data = text.encode(errors="replace")
        return self.data(data).decode(errors="surrogateescape")

    def beginning(self, data: bytes) -> int:
        """Where in `data` a secret begins that may be whole only with what comes next; its length if none does."""
        at = len(data)
        for secret, _ in self._patterns:
            start = data.find(secret[:1], max(0, len(data) - len(secret) + 1))
            while 0 <= start < at:
                if secret.startswith(data[start:]):
                    at = start
                start = data.find(secret[:1], start + 1)
        return at


class Redacted:
    """A stream: what may be the beginning of a secret waits for what comes next, as it may come in two reads."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor, self._held = redactor, b""

    def feed(self, data: bytes) -> bytes:
        """What may go on of it; b"" is the end."""
        seen = self._held + data
        at = self._redactor.beginning(seen) if data else len(seen)
        shown, held = self._redactor.data(seen[:at]), seen[at:]
        if held and shown + self._redactor.data(held) != (whole := self._redactor.data(seen)):
            shown, held = whole, b""  # it is the end of another one, which is whole
        self._held = held
        return shown
