"""Heads that were kept elsewhere, as people pass them in: from `audit head`, or in log lines."""

from __future__ import annotations

import calendar
import time

from ..core.value import value
from ..errors import UsageError


@value(frozen=True, kw_only=True)
class KeptHead:
    """One head; `at` is the time of its log line, if it was in one."""

    chain: str  # "": a bare hash
    seq: int
    hash: str
    at: int | None  # ms


def parse_kept(text: str) -> KeptHead:
    """Parse a head, or a log line that contains one."""
    words = dict(word.split("=", 1) for word in text.split() if word.startswith(("head=", "ts=")))
    chain, seq, hash_ = parse_head(words.get("head", text))
    return KeptHead(chain=chain, seq=seq, hash=hash_, at=_moment(words.get("ts", "")))


def parse_head(text: str) -> tuple[str, int, str]:
    """(chain, seq, hash) of a head; ("", 0, hash) of a bare hash."""
    rest, _, hash_ = text.strip().rpartition(":")
    chain, _, seq = rest.rpartition(":")
    if len(hash_) == 64 and not hash_.strip("0123456789abcdef") and (not rest or (chain and seq.isdecimal())):
        return chain, int(seq or 0), hash_
    raise UsageError(f"{text!r} is not a head: take one from `nightlatch audit head`, or head=… of a log line")


def _moment(text: str) -> int | None:
    """The time of a log line, in ms; None if it has none."""
    try:
        return calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")) * 1000
    except ValueError:
        return None
