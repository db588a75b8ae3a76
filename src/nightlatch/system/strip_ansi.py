"""Removes from a stream of output what a terminal would obey.

Colours, cursor movements, titles, clipboard writes and single control characters are removed; a lone carriage return,
as progress bars use it, becomes a newline. Text in any encoding stays as it is, byte for byte.
"""

from __future__ import annotations

import re

# A whole sequence by ECMA-48 and xterm, one kind a line: CSI; a string (OSC, DCS, APC, PM, SOS) up to BEL or ST (two
# lines); an escape of two characters. The 8-bit forms are two bytes in UTF-8.
_SEQUENCE = re.compile(
    rb"(?:\x1b\[|\xc2\x9b)[\x30-\x3f]*[\x20-\x2f]*[\x40-\x7e]"
    rb"|(?:\x1b[\]PX^_]|\xc2[\x9d\x90\x98\x9e\x9f])(?:[^\x07\x18\x1a\x1b\xc2]|\xc2(?!\x9c))*"
    rb"(?:\x07|\x1b\\|\xc2\x9c|[\x18\x1a]|(?=\x1b))"
    rb"|\x1b[\x20-\x2f]*[\x30-\x4f\x51-\x57\x59\x5a\x5c\x60-\x7e]"
)
_UNFINISHED = re.compile(  # the beginning of a sequence, at the end of the data
    rb"(?:(?:\x1b\[|\xc2\x9b)[\x30-\x3f]*[\x20-\x2f]*"
    rb"|(?:\x1b[\]PX^_]|\xc2[\x9d\x90\x98\x9e\x9f])(?:[^\x07\x18\x1a\x1b\xc2]|\xc2(?!\x9c))*\x1b?"
    rb"|\x1b[\x20-\x2f]*|\xc2|\r)\Z"
)
_RETURN = re.compile(rb"\r+\n?")
_CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")
_LONGEST = 1 << 16  # bytes: a sequence that never ends must not hold everything back


class AnsiStripper:
    def __init__(self) -> None:
        self._held_back = b""

    def feed(self, data: bytes) -> bytes:
        """The part that may be shown now; the beginning of a sequence is held back until its end comes."""
        data = self._held_back + data
        begun = _UNFINISHED.search(data)
        at = begun.start() if begun and len(data) - begun.start() < _LONGEST else len(data)
        self._held_back = data[at:]
        return _clean(data[:at])

    def end(self) -> bytes:
        """What was held back, at the end of the stream."""
        data, self._held_back = self._held_back, b""
        return _clean(data)


def _clean(data: bytes) -> bytes:
    return _CONTROL.sub(b"", _RETURN.sub(b"\n", _SEQUENCE.sub(b"", data)))
