"""Items: their names, how they get into a command, and when continuing is useless."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from nightlatch.core import effects
from nightlatch.core.breaker import Breaker, Limit, failure_shape
from nightlatch.errors import UsageError
from nightlatch.runtime.shared.batches.items import BatchItem, Digest, ItemReader
from nightlatch.runtime.shared.batches.selection import Selection
from nightlatch.runtime.shared.batches.template import BadItem, CommandTemplate, Template

KEY = Template("{site}/{slug}")


def test_a_digest_stays_what_it_is():
    """A changed byte would make every finished item look unfinished."""
    assert Digest(KEY)({"site": "example.org", "slug": "hello"}).hex() == "52bcdee30d9b8537d5232e3d333cf78c"
    assert Digest(Template("{}"))("a line").hex() == "e3284ecabfdfe772cae07efa634074d4"
    assert effects.idempotency_key("post/1") == "c6ec212ecd8c3e957f0365d2575a6db4df0df06e32197ff3b08b8eeaaa19ad93"
    assert effects.lease_name("once", "post/1") == "once:b493219c3bc53a4eddf9e261e8c8fd6f"


def test_the_quick_way_and_the_careful_way_agree():
    nested = Digest(Template("{a.site}/{slug}"))({"a": {"site": "x"}, "slug": "y"})
    flat = Digest(Template("{a.site}/{slug}"))({"a.site": "x", "slug": "y"})
    assert nested == flat
    assert Digest(KEY)({"site": 1, "slug": "y"}) == Digest(KEY)({"site": "1", "slug": "y"})


def test_parts_are_kept_apart_and_accents_are_not():
    assert Digest(KEY)({"site": "a/b", "slug": "c"}) != Digest(KEY)({"site": "a", "slug": "b/c"})
    assert Digest(KEY)({"site": "e\u0301", "slug": "c"}) == Digest(KEY)({"site": "\u00e9", "slug": "c"})


@pytest.mark.parametrize("bad", ["a\0b", "\ud800"])
def test_what_cannot_be_kept_is_refused(bad):
    with pytest.raises(BadItem):
        Digest(KEY)({"site": bad, "slug": "x"})


def test_placeholders():
    command = CommandTemplate(["echo", "{a}", "{b.c}-{a}", "{{a}}", "{ a }", '{"x": 1}', "{}"], shell=False)
    assert command.argv({"a": "1 2", "b": {"c": [1]}}) == [
        "echo", "1 2", "[1]-1 2", "{a}", "{ a }", '{"x": 1}', '{"a": "1 2", "b": {"c": [1]}}',
    ]  # fmt: skip
    with pytest.raises(BadItem, match="no field 'z'"):
        CommandTemplate(["{z}"], shell=False).argv({"a": 1})


@pytest.mark.parametrize(
    "line",
    [
        "printf %s {a}",
        'printf %s "{a}"',
        "printf %s '{a}'",
        "printf '%s' '{a}'",
        """printf "%s" "$(printf %s "{a}")\"""",
        """printf %s "$( (printf '%s' {a}) )\"""",
        'show() { printf %s {a}; }; show "$1"',
        """: it\\'s; printf %s {a}""",
        """case {a} in x) ;; *) printf %s "{a}";; esac""",
        """x={a}; printf %s "$x\"""",
    ],
)
def test_no_shell_reads_what_an_item_holds_whatever_quotes_stand_around(tmp_path: Path, line):
    evil = """; touch pwned $(touch pwned) `touch pwned` 'a' "b" \\n *  x"""
    argv = CommandTemplate([line], shell=True).argv({"a": evil})
    assert subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=True).stdout == evil
    assert not list(tmp_path.iterdir())


def test_a_selection_counts_what_it_leaves_out(tmp_path: Path):
    path = tmp_path / "items.jsonl"
    path.write_text('{"k": "done"}\n{"k": "new"}\nnope\n{"k": "doubt"}\n{"k": "new"}\n{"k": "done"}\n\n{"k": "last"}\n')
    template = Template("{k}")
    known = {
        Digest(template)({"k": "done"}): Selection.DONE,
        Digest(template)({"k": "doubt"}): Selection.DOUBT,
    }
    selection = Selection(ItemReader(str(path), "", "{k}"), known)
    found: list[BatchItem | None] = []
    while not selection.exhausted:
        found.append(selection.next())
    assert [item.key for item in found if item] == ["new", "last"]
    assert [key for key, _ in selection.in_doubt] == ["doubt"]
    assert (selection.skipped, selection.doubled) == (1, 2)
    assert [str(bad).partition(": ")[0] for bad in selection.bad] == [f"{path}, line 3"]


def test_the_breaker_trips_when_most_fail_in_the_same_way():
    breaker = Breaker()
    for number in range(10):
        assert not breaker.tripped
        breaker.add(str(number), "" if number in (2, 5) else failure_shape(7, ["first", f"item {number} failed", ""]))
    assert breaker.tripped == "exit code 7: item # failed"
    breaker.add("10", "")
    assert not breaker.tripped, "seven of the last ten"


def test_failures_that_differ_trip_nothing():
    breaker = Breaker()
    for code in range(1, 30):
        breaker.add(str(code), failure_shape(code, []))
    assert not breaker.tripped


@pytest.mark.parametrize(
    ("text", "failed", "of", "passed"),
    [("2", 2, 9, False), ("2", 3, 9, True), ("5%", 5, 100, False), ("5%", 6, 100, True), ("0", 1, 9, True)],
)
def test_limits(text, failed, of, passed):
    assert Limit(text).passed(failed, of) is passed


@pytest.mark.parametrize("text", ["", "%", "x", "1.5", "5%%", "-1"])
def test_limits_that_are_none(text):
    with pytest.raises(UsageError):
        Limit(text)


def test_exit_codes_that_prove_that_nothing_was_done():
    assert effects.codes("6, 7,64-66") == {6, 7, 64, 65, 66}
    assert effects.codes("") == frozenset()


@pytest.mark.parametrize(
    ("exit_code", "ended_by", "status"),
    [
        (0, "", "done"),
        (7, "", "failed"),
        (1, "", "in-doubt"),
        (0, "timed-out", "in-doubt"),
        (7, "signalled", "in-doubt"),
    ],
)
def test_only_a_commands_own_end_proves_anything(exit_code, ended_by, status):
    assert effects.judge(exit_code, ended_by, {7})[0] == status


@pytest.mark.parametrize("template", ["{a}/{b}", "{a}", "{a}-{b}-{a}"])
def test_a_line_that_is_plain_and_one_that_is_not_give_one_digest(tmp_path: Path, template):
    """The short way over a million lines may differ in nothing but its time."""
    path = tmp_path / "items.jsonl"
    lines = [
        '{"a": "x", "b": "y"}',
        ' {"a": "x", "b": "y"} ',
        '{"b": "y", "a": "x", "c": [1]}',
        '{"a": "\\u0078", "b": "y"}',
    ]
    path.write_text("\n".join([*lines, '{"a": 1, "b": "y"}', '{"a": "1", "b": "y"}', '{"a": "é", "b": "y"}', lines[0]]))
    found = [each for each in ItemReader(str(path), "", template) if not isinstance(each, BadItem)]
    expected = [Digest(Template(template))(content) for _, content, _ in found]
    assert [digest for *_, digest in found] == expected and len(found) == 8
    assert len(set(expected)) == 3


@pytest.mark.parametrize(
    ("line", "said"),
    [('{"a": "x\\u0000y"}', "NUL"), ('{"a": "\\ud800"}', "half a character"), ('{"a": "x"} more', "not JSON"),
     ('"a"', "no field 'a'"), ("[" * 100_000, "nested too deeply"), ('{"b": 1}', "no field 'a'"), ('{"a": null}', "null")],
)  # fmt: skip
def test_a_line_that_cannot_be_read_is_named(tmp_path: Path, line, said):
    path = tmp_path / "items.jsonl"
    path.write_text(f'{{"a": "good"}}\n{line}\n{{"a": "too"}}\n')
    first, bad, last = ItemReader(str(path), "", "{a}")
    assert isinstance(bad, BadItem) and "line 2: " in str(bad) and said in str(bad)
    assert not isinstance(first, BadItem) and not isinstance(last, BadItem)


@pytest.mark.parametrize("format", ["", "jsonl", "csv", "lines"])
@pytest.mark.parametrize(
    ("content", "said"),
    [(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\n\n\n", "binary"), ('{"a": 1}\n'.encode("utf-16"), "iconv"),
     ('{"a": "é"}\n'.encode("utf-16-be"), "iconv"), ("a,b\nc,d\n".encode("utf-16-le"), "iconv"),
     (b"one.txt\0two.txt\0", "tr ")],
)  # fmt: skip
def test_a_file_that_is_no_text_is_refused_as_a_whole(tmp_path: Path, content, said, format):
    (tmp_path / "items").write_bytes(content)
    with pytest.raises(UsageError, match=said) as error:
        ItemReader(str(tmp_path / "items"), format, "{a}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b"\xef\xbb\xbfa,b\r\n1,2\r\n", [{"a": "1", "b": "2"}]),
        (b'a;b\n1,5;"x;y"\n', [{"a": "1,5", "b": "x;y"}]),
        (b"a\tb\n1\t2,3;4", [{"a": "1", "b": "2,3;4"}]),
        (b"\n\na,b\n\n1,2\n", [{"a": "1", "b": "2"}]),
        (b'a,b\n1,"two\nlines"\n2,"\n\n"\n', [{"a": "1", "b": "two\nlines"}, {"a": "2", "b": "\n\n"}]),
    ],
)
def test_csv_as_spreadsheets_write_it(tmp_path: Path, content, rows):
    (tmp_path / "items.csv").write_bytes(content)
    reader = ItemReader(str(tmp_path / "items.csv"), "", "{a}")
    assert reader.lines == len(rows)
    assert [each[1] for each in reader if not isinstance(each, BadItem)] == rows


@pytest.mark.parametrize("content", [b'\xef\xbb\xbf{"a": 1}\n{"a": 2}', b'\xef\xbb\xbf  {"a": 1}\r\n{"a": 2}\r\n'])
def test_a_mark_at_the_beginning_is_no_part_of_the_first_item(tmp_path: Path, content):
    (tmp_path / "items").write_bytes(content)
    reader = ItemReader(str(tmp_path / "items"), "", "{a}")
    assert (reader.lines, [each[1] for each in reader if not isinstance(each, BadItem)]) == (2, [{"a": 1}, {"a": 2}])


@pytest.mark.parametrize(
    ("content", "format", "key", "said"),
    [("a,a\n1,2\n", "csv", "{a}", "'a' more than once"), ("a,b\n1,2\n", "csv", "{b}/{c}", "'c': .* has a, b"),
     ("one\ntwo\n", "lines", "{slug}", "'slug': .* plain lines"), ('"a"b,\n', "csv", "{a}", "names no fields")],
)  # fmt: skip
def test_a_field_that_no_item_can_have_is_refused_at_once(tmp_path: Path, content, format, key, said):
    (tmp_path / "items").write_text(content)
    with pytest.raises(UsageError, match=said):
        ItemReader(str(tmp_path / "items"), format, key)


def test_text_of_any_language_is_text(tmp_path: Path):
    (tmp_path / "items").write_bytes("ÿþ one\nдва\n三\n".encode() + b"\xff\xfe late\n")
    assert [isinstance(each, BadItem) for each in ItemReader(str(tmp_path / "items"), "", "")] == [False] * 3 + [True]


@pytest.mark.timeout(30)  # by comparing each with all it would take half an hour
def test_many_columns_are_not_compared_each_with_all(tmp_path: Path):
    count = 200_000
    names = [f"column-{number}" for number in range(count)]
    (tmp_path / "items.csv").write_text(f"{','.join(names)}\n{','.join(map(str, range(count)))}\n")
    reader = ItemReader(str(tmp_path / "items.csv"), "", "{column-7}")
    reader.check(names, "the command")
    ((_, content, _),) = [found for found in reader if not isinstance(found, BadItem)]
    assert content["column-199999"] == "199999"
    with pytest.raises(UsageError, match=r"has column-0, .*column-49, …"):
        reader.check(["other"], "the command")
    (tmp_path / "items.csv").write_text(",".join([*names, names[-1]]))
    with pytest.raises(UsageError, match="'column-199999' more than once"):
        ItemReader(str(tmp_path / "items.csv"), "", "{column-7}")
