"""JSON without the Python half of its module: the same texts, the same values, the same refusals."""

from __future__ import annotations

import json
import math

import pytest

from nightlatch.core import json_text

VALUES = [
    None, True, 0, -7, 2.5, 10**30, "", "ä€\n\"\\\x00", [], [1, [2, {}]], {"a": {"b": [None, "c"]}}, {1: 2, None: 3},
    (1, 2), "\ud800",
]  # fmt: skip
NOT_JSON = ["", " ", "{", "[1,]", "1 2", "nul", '{"a"}', "{'a': 1}", "<html>", "\u00a01", b"\xff", '"\n"', "\ufeff1"]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_it_writes_and_reads_what_json_does(value: object):
    text = json.dumps(value)
    assert json_text.dumps(value) == text
    assert json_text.encoder(compact=True)(value) == json.dumps(value, separators=(",", ":"))
    assert json_text.loads(f" {text}\r\n\t") == json.loads(text) == json_text.loads(text.encode())


@pytest.mark.parametrize("text", NOT_JSON, ids=repr)
def test_it_refuses_what_json_refuses(text: str | bytes):
    for loads in (json.loads, json_text.loads):
        with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
            loads(text)


def test_figures_that_are_not_finite():
    assert math.isnan(json_text.loads("NaN")) and json_text.loads("[-Infinity]") == [-math.inf]
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text.encoder(nan=False)([math.inf])


def test_what_json_cannot_carry():
    with pytest.raises(TypeError):
        json_text.dumps({"a": object()})
    assert json_text.encoder(str)({"a": 1j}) == '{"a": "1j"}'
    ring: list[object] = []
    ring.append(ring)
    with pytest.raises(ValueError, match="Circular"):
        json_text.dumps(ring)
    with pytest.raises(RecursionError):
        json_text.loads("[" * 200_000)
