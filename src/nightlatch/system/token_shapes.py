"""Secrets recognised by their shape, even if no variable holds them: tokens of git hosts, clouds, model vendors and
package indexes, JSON web tokens, and private keys. Found without `re`, which the path of a run does not import."""

from __future__ import annotations

_WORD = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_TOKEN = _WORD + b"_-"
_DOTTED = _TOKEN + b"."

# (how a token begins, the characters that may follow, how many at least, what replaces the token)
_SHAPES: tuple[tuple[bytes, bytes, int, bytes], ...] = (
    *((begin, _WORD, 36, b"[github token]") for begin in (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_")),
    (b"github_pat_", _TOKEN, 40, b"[github token]"),
    (b"glpat-", _TOKEN, 20, b"[gitlab token]"),
    (b"AKIA", _WORD, 16, b"[aws key id]"),
    (b"ASIA", _WORD, 16, b"[aws key id]"),
    (b"AIza", _TOKEN, 35, b"[google key]"),
    (b"ya29.", _TOKEN, 30, b"[google token]"),
    (b"sk-ant-", _TOKEN, 20, b"[api key]"),
    (b"sk-proj-", _TOKEN, 20, b"[api key]"),
    (b"sk-or-", _TOKEN, 20, b"[api key]"),
    (b"sk-", _WORD, 32, b"[api key]"),
    (b"xai-", _WORD, 32, b"[api key]"),
    (b"hf_", _WORD, 30, b"[hugging face token]"),
    *((begin, _TOKEN, 20, b"[slack token]") for begin in (b"xoxb-", b"xoxp-", b"xoxa-", b"xoxs-")),
    (b"npm_", _WORD, 36, b"[npm token]"),
    (b"pypi-AgEI", _TOKEN, 40, b"[pypi token]"),
    (b"eyJ", _DOTTED, 40, b"[json web token]"),
)
_KEY, _KEY_LINE, _KEY_END = b"-----BEGIN ", b"PRIVATE KEY-----", b"-----END "
_LONGEST = 1 << 14  # bytes; anything longer is not a token


def hide(data: bytes) -> bytes:
    """The data with every token replaced."""
    for begin, follows, least, placeholder in _SHAPES:
        at = data.find(begin)
        while at >= 0:
            size = _size(data, at, begin, follows, least)
            if size:
                data = data[:at] + placeholder + data[at + size :]
            at = data.find(begin, at + (len(placeholder) if size else len(begin)))
    return _without_keys(data)


def unfinished(data: bytes) -> int:
    """Where in `data` a token begins that the next bytes may complete; the length of `data` if none does."""
    found = len(data)
    for begin, follows, _, _ in _SHAPES:
        at = data.find(begin, max(0, len(data) - _LONGEST))
        while 0 <= at < found:
            if _starts_word(data, at) and not data[at + len(begin) :].lstrip(follows):
                found = at
            at = data.find(begin, at + 1)
    for begin in (*(shape[0] for shape in _SHAPES), _KEY):
        for size in range(min(len(begin) - 1, len(data)), 0, -1):
            if data.endswith(begin[:size]) and _starts_word(data, len(data) - size):
                found = min(found, len(data) - size)
                break
    at = data.rfind(_KEY)
    if at >= 0 and len(data) - at < _LONGEST and b"-----" not in data[at:].partition(_KEY_END)[2]:
        line, whole, _ = data[at:].partition(b"\n")
        if not whole or line.rstrip().endswith(_KEY_LINE):
            found = min(found, at)
    return found


def _size(data: bytes, at: int, begin: bytes, follows: bytes, least: int) -> int:
    """The length of the token at `at`; 0 if there is none."""
    rest = data[at + len(begin) : at + _LONGEST]
    length = len(rest) - len(rest.lstrip(follows))
    if not _starts_word(data, at) or length < least:
        return 0
    token = rest[:length]
    return 0 if begin == b"eyJ" and token.count(b".") != 2 else len(begin) + length


def _starts_word(data: bytes, at: int) -> bool:
    """Does a word start at `at`? The sk- in task- is not a token."""
    return not at or data[at - 1] not in _TOKEN


def _without_keys(data: bytes) -> bytes:
    at = data.find(_KEY)
    while at >= 0:
        header, _, rest = data[at:].partition(b"\n")
        end = data.find(_KEY_END, at)
        stop = data.find(b"-----", end + len(_KEY_END)) if end >= 0 else -1
        if header.rstrip().endswith(_KEY_LINE) and (stop >= 0 or rest):
            data = data[:at] + b"[private key]" + (data[stop + 5 :] if stop >= 0 else b"")
        at = data.find(_KEY, at + 1)
    return data
