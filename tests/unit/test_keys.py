"""Keys are the same for ever: these vectors never change."""

from __future__ import annotations

import datetime
import decimal
import unicodedata
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightlatch import key
from nightlatch.errors import UsageError

GOLDEN = [
    (("a",), "c34a7569095f0c836694bcd3c80e3a7c4c2dd73a6fcf5830240594aa0dfb3e7a"),
    (("a:b", "c"), "d807c8b1f58b4f3f84645e814ae4539c95670c005ec84e0ab10dd146da2a95a5"),
    (("a", "b:c"), "cc2e9dd782d0a49d62bce512207fbefee24d3c23900afcb51998f6e765c10c91"),
    ((1,), "e1b15e0c0b277ae56c7714a768debd6ab4fcf2f35270cb0132882b438611ecb5"),
    ((1.0,), "e1b368f66f5a9f5e60b43c4f8d515a6d887aaf85dc69bdb0a2f219263fcd926e"),
    (("1",), "49a759648dd5864f4e5fd0c5dc6fc2d9c05345f3c7dd1c12cd6ab637748016e4"),
    ((True,), "d190ebd2934f24845c1141f3b6699834d7308643a01c0d296ad78de90adef93d"),
    ((None,), "47f42388d9475daad2b190272ddb30e5ecd79b87e3b0cc42c1b4d85461db2363"),
    (("é",), "20a8889183815371e1fac5147912412b969fdf59cc6ad3937081caa17770bab9"),
    ((["a", ["b"]],), "88a7daf4d1cf8e96a3812bc19dac03cdf9ae4f7ab9727957f205ba1013b1aba6"),
    (({"b": 1, "a": [2, None]},), "5ede8eae921b3ee0d1c6b9a83f28f885ed5ca9a965547a76a3b3585ea701e69a"),
    ((b"a",), "c5882717e13f2512f3739cc33d5f31d3032d29f6690fa2d4a6646059ffda5c62"),
    ((datetime.date(2026, 11, 15),), "b4d7863677fb9db5de119c1eed53d5df81f8cf0840d3b42290a226b9bb6e6f4e"),
    (
        (datetime.datetime(2026, 11, 15, 2, 0, tzinfo=datetime.UTC),),
        "28a65899ec13e35c29f4681a461e4fff60fa6a0c43dcba7e0f6425102038fd0a",
    ),
    ((uuid.UUID(int=5),), "bf78127b85485ca40b1fbc6aa3fcc0fc7fbdb9617e165684e921a01083ab0604"),
    ((decimal.Decimal("1.50"),), "316bbde335dd2727a0959b64b5445a22ffc249f34fc243ebd2855c79896560e6"),
    (("example.org", "news", "my-article"), "9f683dc7dd184fd1b4789938158b44a6a3c48be10e7549e4c5180be52a965808"),
]


@pytest.mark.parametrize(("parts", "expected"), GOLDEN, ids=[repr(parts) for parts, _ in GOLDEN])
def test_a_key_never_changes(parts, expected):
    assert key(*parts) == expected


def test_all_golden_parts_have_different_keys():
    assert len({expected for _, expected in GOLDEN}) == len(GOLDEN)


def test_text_in_another_unicode_form_is_the_same_text():
    assert key("e\u0301") == key("\u00e9")


def test_the_order_of_a_dict_does_not_count():
    assert key({"a": 1, "b": 2}) == key({"b": 2, "a": 1})


def test_one_moment_in_two_time_zones_is_one_moment():
    there = datetime.timezone(datetime.timedelta(hours=5))
    assert key(datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)) == key(
        datetime.datetime(2026, 1, 1, 17, tzinfo=there)
    )


@pytest.mark.parametrize("equal", [(0.0, -0.0), (decimal.Decimal("100"), decimal.Decimal("1E+2"))])
def test_equal_numbers_of_one_type_are_equal(equal):
    assert key(equal[0]) == key(equal[1])


@pytest.mark.parametrize(
    "part",
    [
        float("nan"),
        float("inf"),
        {1, 2},
        frozenset(),
        object(),
        decimal.Decimal("NaN"),
        datetime.datetime(2026, 1, 1),
        {1: "a"},
        "\ud800",
        [{"deep": {1}}],
    ],
)
def test_what_has_no_canonical_form_is_refused(part):
    with pytest.raises(UsageError):
        key(part)


def test_a_key_of_nothing_is_refused():
    with pytest.raises(UsageError):
        key()


PARTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8")) | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abc"), inner),
    max_leaves=8,
)


def canonical(part):
    """What two equal keys must have in common: type and value."""
    if isinstance(part, list):
        return ("list", *map(canonical, part))
    if isinstance(part, dict):
        return ("dict", *((name, canonical(part[name])) for name in sorted(part)))
    return (type(part).__name__, unicodedata.normalize("NFC", part) if isinstance(part, str) else part)


@given(st.lists(PARTS, min_size=1, max_size=4), st.lists(PARTS, min_size=1, max_size=4))
def test_keys_are_equal_only_for_equal_parts(one, other):
    assert (key(*one) == key(*other)) == (canonical(one) == canonical(other))
