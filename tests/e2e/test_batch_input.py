"""What a batch reads: lines of JSON, CSV or text, their keys, and how an item reaches its command."""

from __future__ import annotations

import json

import pytest

from tests.support.batches import DO, ids, jsonl
from tests.support.programs import nightlatch


def test_lines_that_cannot_be_read_are_named_and_the_rest_goes_on(sqlite_url, tmp_path, acts):
    items = jsonl(
        tmp_path, *ids(1), "{not json", {"name": "x"}, {"id": None}, "\xff".encode("latin1").decode("latin1"), *ids(2)
    )
    done = nightlatch(sqlite_url, "batch", "b", items, "--key", "{id}", "--", *DO, str(acts), "{id}")
    assert done.returncode == 1
    for said in (
        "line 2: not JSON",
        "line 3: there is no field 'id'",
        "line 4: the field 'id' is empty",
        "line 5: not JSON",
    ):
        assert said in done.stderr
    assert acts.read_text().split() == ["1", "2"]


def test_duplicate_keys_are_reported_and_done_once(sqlite_url, tmp_path, acts):
    items = jsonl(tmp_path, *ids(1, 2, 1, 1))
    done = nightlatch(sqlite_url, "batch", "b", items, "--key", "{id}", "--", *DO, str(acts), "{id}")
    assert done.returncode == 0
    assert "done once, though their key occurs more than once: 1 (line 3), 1 (line 4)" in done.stderr
    assert acts.read_text().split() == ["1", "2"]


def test_keys_with_the_same_text_and_other_parts_are_two(sqlite_url, tmp_path, acts):
    items = jsonl(tmp_path, {"a": "x/y", "b": "z"}, {"a": "x", "b": "y/z"})
    nightlatch(sqlite_url, "batch", "b", items, "--key", "{a}/{b}", "--", *DO, str(acts), "{a}")
    assert acts.read_text().split() == ["x/y", "x"]


def test_a_word_stays_a_word_and_no_shell_looks_at_it(sqlite_url, tmp_path):
    evil = "; touch pwned $(touch pwned) 'a' \"b\" \n c"
    items = jsonl(tmp_path, {"id": 1, "text": evil})
    show = ("printf", "<%s>", "{text}", "{{text}}", "{ x }")
    done = nightlatch(sqlite_url, "batch", "b", items, "--key", "{id}", "--", *show, cwd=tmp_path)
    assert done.stdout == f"<{evil}><{{text}}><{{ x }}>"
    shell = nightlatch(
        sqlite_url, "batch", "c", items, "--key", "{id}", "--shell", "--", "printf %s {text} | cat", cwd=tmp_path
    )
    assert shell.stdout == evil
    assert not (tmp_path / "pwned").exists()


def test_the_item_comes_on_standard_input_and_in_the_environment(sqlite_url, tmp_path):
    item = {"id": 7, "text": "é" * 10_000}
    script = 'echo "$NIGHTLATCH_KEY"; [ "$(cat)" = "$NIGHTLATCH_ITEM" ] && printf %s "$NIGHTLATCH_ITEM"'
    done = nightlatch(sqlite_url, "batch", "b", jsonl(tmp_path, item), "--key", "k-{id}", "--", "sh", "-c", script)
    key, _, content = done.stdout.partition("\n")
    assert key == "k-7" and json.loads(content) == item


def test_csv_and_lines_and_standard_input(sqlite_url, tmp_path):
    table = tmp_path / "people.csv"
    table.write_text('name,mail\n"Smith, Ann",a@example.org\nBob,b@example.org\nshort\n')
    done = nightlatch(sqlite_url, "batch", "csv", str(table), "--key", "{mail}", "--", "echo", "{name}")
    assert done.stdout == "Smith, Ann\nBob\n"
    assert "line 4: 1 field where the first line names 2" in done.stderr
    lines = nightlatch(sqlite_url, "batch", "lines", "-", "--", "echo", "<{}>", input="a b\n\nc\n")
    assert lines.stdout == "<a b>\n<c>\n"
    piped = nightlatch(
        sqlite_url, "batch", "json", "-", "--key", "{x.y}", "--", "echo", "{x.y}", input='{"x": {"y": 5}}\n'
    )
    assert piped.stdout == "5\n"
    again = nightlatch(sqlite_url, "batch", "pipe", "/dev/stdin", "--", "sh", "-c", "exit 3", input="a\nb")
    assert "2 failed" in again.stderr and "with the items on standard input as before: nightlatch batch" in again.stderr


def test_a_field_that_is_mistyped_stops_it_early_and_spoils_nothing(sqlite_url, tmp_path, acts):
    items, do = jsonl(tmp_path, {"id": 29, "slug": None}, *ids(*range(29))), (*DO, str(acts), "{id}")
    nowhere = nightlatch(sqlite_url, "batch", "b", items, "--key", "{slugg}", "--", *do)
    assert nowhere.returncode == 64 and "did you mean {slug}?" in nowhere.stderr
    wrong = nightlatch(sqlite_url, "batch", "b", items, "--key", "{slug}", "--", *do)
    assert (wrong.returncode, wrong.stderr.count(f"{items}, line ")) == (1, 10), wrong.stderr
    assert "paused: most of the last items failed in the same way" in wrong.stderr
    many = nightlatch(sqlite_url, "batch", "b", items, "--key", "{slug}", "--max-failures", "100%", "--", *do)
    assert many.stderr.count(f"{items}, line ") == 30
    assert nightlatch(sqlite_url, "batch", "b", items, "--key", "{id}", "--", *do).returncode == 0
    assert len(acts.read_text().split()) == 30
    table = tmp_path / "items.csv"
    table.write_text("id\n1\n")
    refused = nightlatch(sqlite_url, "batch", "c", str(table), "--key", "{id}", "--", *DO, str(acts), "{slug}")
    assert refused.returncode == 64 and "the command names a field 'slug'" in refused.stderr


@pytest.mark.parametrize(
    "words",
    [("b",), ("b", "items"), ("b", "items", "--", "true"), ("b", "none.jsonl", "--key", "{id}", "--", "true"),
     ("b", "items", "--key", "same", "--", "true"), ("b", "items", "--key", "{id}", "-j", "0", "--", "true"),
     ("b", "items", "--key", "{id}", "--max-failures", "x", "--", "true"), ("../b", "items", "--", "true"),
     ("b", "items", "--key", "{id}", "--lost", "never", "--", "true")],
)  # fmt: skip
def test_words_that_make_no_sense_are_refused(sqlite_url, tmp_path, words):
    items = jsonl(tmp_path, *ids(1))
    done = nightlatch(sqlite_url, "batch", *(items if word == "items" else word for word in words))
    assert done.returncode == 64, done.stderr


@pytest.mark.parametrize("piped", [False, True])
def test_a_picture_in_place_of_items_is_told_in_one_line(sqlite_url, tmp_path, acts, piped):
    picture = tmp_path / "items.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)) * 40)
    words = ("batch", "b", "-" if piped else str(picture), "--", *DO, str(acts), "{}")
    with picture.open("rb") as opened:
        done = nightlatch(sqlite_url, *words, stdin=opened)
    assert (done.returncode, done.stderr.count("\n")) == (64, 1), done.stderr
    assert "binary" in done.stderr and not acts.read_text() and not (tmp_path / "state").exists()
