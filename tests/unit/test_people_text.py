"""What people see of what commands said: escapes stripped in pieces, kept output read while it is moved."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from nightlatch.cli import screen
from nightlatch.core import advice
from nightlatch.core.printable import printable
from nightlatch.runtime.supervisor.run import kept_output
from nightlatch.system.strip_ansi import AnsiStripper

HOSTILE = (
    b"a\x1b[31;1mred\x1b[0m \x1b]0;title \xe2\x9c\x9c\x07b \x1b]52;c;ZXZpbA==\x1b\\c "
    b"\x1bP+q\x1b\\d \xc2\x9b2Je \x1bcf\x08\x00g\r\nh\r50%"
)
SHOWN = b"ared b c d e fg\nh\n50%"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_escapes_are_stripped_however_the_output_is_cut(size):
    plain = AnsiStripper()
    pieces = [plain.feed(HOSTILE[at : at + size]) for at in range(0, len(HOSTILE), size)]
    assert b"".join(pieces) + plain.end() == SHOWN


@pytest.mark.parametrize("begun", [b"\x1b", b"\x1b[31", b"\x1b]0;never ended", b"\xc2"])
def test_an_escape_without_an_end_never_reaches_the_terminal(begun):
    plain = AnsiStripper()
    shown = plain.feed(b"text " + begun) + plain.end()
    assert shown.startswith(b"text ")
    assert b"\x1b" not in shown


def test_a_string_that_never_ends_does_not_hold_up_the_output_for_ever():
    plain = AnsiStripper()
    shown = b"".join(plain.feed(b"\x1b]0;" + b"x" * 50_000) for _ in range(4))
    assert b"\x1b" not in shown
    shown += plain.feed(b"y" * 200_000)
    assert b"y" * 1000 in shown


def test_text_in_any_encoding_stays_as_it_is():
    text = "Übermäßig – 夜 🌙\n".encode() + b"caf\xe9\n\ttab\n"
    plain = AnsiStripper()
    assert plain.feed(text) + plain.end() == text


def test_a_reported_text_is_one_line_without_anything_a_terminal_obeys():
    assert printable("a\x1b[2J\nb\u202ec\x9b") == "a\\x1b[2J b\\u202ec\\u009b"


@pytest.mark.parametrize("text", ["plain", "two words", "it's", "a\x1b]0;x\x07'\\\n\t\r\u202e\x9b\U000e0001b"])
def test_a_quoted_word_is_harmless_and_typed_in_bash_itself_again(text):
    word = advice.quoted(text)
    assert word.isprintable()
    typed = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, env={"LC_ALL": "C.UTF-8"})
    assert typed.stdout == text.encode()


def test_the_command_to_type_is_never_cut(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    (line,) = screen.columns([["failed", "a long reason " * 10, "nightlatch show 7k3fabcdefgh"]], elastic=(1,))
    assert line.endswith("nightlatch show 7k3fabcdefgh")
    assert "reason" not in line


@pytest.mark.parametrize("width", ["40", "80", "120", "160"])
def test_the_key_is_always_there_and_the_reason_is_shortened(monkeypatch, width):
    monkeypatch.setenv("COLUMNS", width)
    row = ["failed", "posts", "2026-11-16T02:00Z", "a long reason " * 20, "nightlatch show 7k3fabcdefgh"]
    (line,) = screen.columns([row], elastic=(2, 3))
    assert ("2026-11" if width == "40" else row[2]) in line and line.endswith(row[-1])
    assert ("a long" in line) == (width != "40")


def test_a_long_key_leaves_room_for_a_reason(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    (line,) = screen.columns([["failed", "k" * 200, "exit code 3: no room", "nightlatch show 7k3fabcdefgh"]], (1, 2))
    assert "exit code 3: no room" in line and len(line) <= 120


def test_output_that_is_moved_while_it_is_followed_is_read_once_and_whole(tmp_path: Path):
    output = tmp_path / "output"
    output.write_bytes(b"one ")
    steps = iter([lambda: rotate(output, b"two ", b"three "), lambda: append(output, b"four"), None])

    def over() -> bool:
        step = next(steps)
        if step:
            step()
        return step is None

    assert b"".join(kept_output.follow(str(tmp_path), over)) == b"one two three four"


def test_output_that_begins_and_is_moved_between_two_looks_is_read_whole(tmp_path: Path):
    steps = iter([lambda: rotate(tmp_path / "run" / "output", b"one ", b"two"), None])

    def over() -> bool:
        step = next(steps, None)
        if step:
            (tmp_path / "run").mkdir()
            step()
        return step is None

    assert b"".join(kept_output.follow(str(tmp_path / "run"), over)) == b"one two"


def rotate(output: Path, rest: bytes, new: bytes) -> None:
    append(output, rest)
    os.replace(output, f"{output}.1")
    output.write_bytes(new)


def append(output: Path, data: bytes) -> None:
    with output.open("ab") as file:
        file.write(data)


def test_the_end_of_the_output_reaches_back_into_the_file_before(tmp_path: Path):
    (tmp_path / "output.1").write_bytes(b"one\ntwo\n")
    (tmp_path / "output").write_bytes(b"three\n")
    assert kept_output.tail(str(tmp_path), 2) == [b"two", b"three"]
    assert kept_output.tail(str(tmp_path / "never"), 2) == []
    assert b"".join(kept_output.read(str(tmp_path))) == b"one\ntwo\nthree\n"
