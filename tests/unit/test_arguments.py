from __future__ import annotations

import pytest

from nightlatch.cli.arguments import Parser, split_command
from nightlatch.errors import UsageError


def parser() -> Parser:
    made = Parser("try", "Try things.", "  nightlatch try it")
    made.add_argument("name", metavar="NAME", help="what to try")
    made.add_argument("more", metavar="MORE", nargs="*")
    made.add_argument("--ttl", metavar="TIME", default="60s")
    made.add_argument("--above", metavar="N", type=int)
    made.add_argument("--gate", metavar="URL", action="append")
    made.add_argument("--force", action="store_true")
    made.add_argument("--grade", metavar="GRADE", choices=["low", "high"])
    return made


def test_options_stand_anywhere_and_take_their_value_either_way():
    args = parser().parse_args(["--ttl=5s", "x", "--above", "7", "y", "--force", "--gate", "a", "--gate=b", "z"])
    assert (args.name, args.more, args.ttl, args.above, args.force, args.gate) == (
        "x", ["y", "z"], "5s", 7, True, ["a", "b"],
    )  # fmt: skip


def test_what_is_not_given_has_its_default():
    args = parser().parse_args(["x"])
    assert (args.more, args.ttl, args.above, args.force, args.gate) == ([], "60s", None, False, [])


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "NAME is missing"),
        (["x", "--tll", "5s"], "did you mean --ttl"),
        (["x", "--ttl"], "needs a value"),
        (["x", "--above", "many"], "not a whole number"),
        (["x", "--force=yes"], "takes no value"),
        (["x", "--grade", "middling"], "use one of low, high"),
        (["x", "--tt", "5s"], "unknown option --tt"),
    ],
)
def test_one_line_says_what_is_wrong(argv, said):
    with pytest.raises(UsageError, match=said) as error:
        parser().parse_args(argv)
    assert "\n" not in str(error.value)
    assert "nightlatch try --help" in str(error.value)


def test_behind_two_dashes_nothing_is_an_option():
    assert parser().parse_args(["x", "--", "--ttl"]).more == ["--ttl"]
    assert split_command(["x", "--", "sh", "--", "-c"]) == (["x"], ["sh", "--", "-c"])


def test_the_help_names_every_argument_and_an_example():
    text = parser().help()
    for word in ("NAME", "--ttl TIME", "--above N", "--gate URL", "--force", "nightlatch try it", "--store URL"):
        assert word in text
