from __future__ import annotations

import os
from pathlib import Path

import pytest

from nightlatch.runtime.supervisor.run import output
from nightlatch.system.redaction import Redactor

PATTERNS = [
    (b"opensesame-and-more", b"[LONG_KEY]"),
    (b"opensesame", b"[KEY]"),
    (b"line one\nline two", b"[PRIVATE]"),
    (b"the end of which is open", b"[OTHER]"),
]
HIDDEN = Redactor(PATTERNS)
SAID = b"a opensesame b opensesame-and-more c line one\nline two d the end of which is open, e opensesam"
SHOWN = b"a [KEY] b [LONG_KEY] c [PRIVATE] d [OTHER], e opensesam"


def shown(folder: Path, pieces: list[bytes]) -> bytes:
    kept = output.KeptOutput(str(folder))
    source, into = os.pipe()
    screen = os.open(os.devnull, os.O_WRONLY)
    stream = output.OutputStream(source, screen, kept, HIDDEN)
    for piece in pieces:
        os.write(into, piece)
        assert stream.pump()
    os.close(into)
    assert not stream.pump()
    for fd in (source, screen):
        os.close(fd)
    kept.close()
    return Path(kept.path).read_bytes()


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 10, 19, 1000])
def test_a_secret_is_taken_out_wherever_it_is_cut(tmp_path: Path, size: int) -> None:
    assert shown(tmp_path, [SAID[at : at + size] for at in range(0, len(SAID), size)]) == SHOWN


def test_a_secret_behind_a_line_without_an_end_is_taken_out(tmp_path: Path) -> None:
    long = b"x" * 60_000
    assert shown(tmp_path, [long, long, b"opens", b"esame."]) == long + long + b"[KEY]."


def test_what_begins_no_secret_is_shown_at_once(tmp_path: Path) -> None:
    kept = output.KeptOutput(str(tmp_path))
    source, into = os.pipe()
    stream = output.OutputStream(source, os.open(os.devnull, os.O_WRONLY), kept, HIDDEN)
    os.write(into, b"Password: ")
    stream.pump()
    assert Path(kept.path).read_bytes() == b"Password: "


def test_output_that_cannot_be_kept_is_shown_all_the_same(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    kept = output.KeptOutput(str(tmp_path))
    kept.write(b"made by the first byte\n")
    os.dup2(os.open("/dev/full", os.O_WRONLY), kept._fd)
    source, into = os.pipe()
    stream = output.OutputStream(source, 1, kept, Redactor())
    for said in (b"one\n", b"two\n"):
        os.write(into, said)
        assert stream.pump()
    shown = capfd.readouterr()
    assert shown.out == "one\ntwo\n"
    assert shown.err.count("not all of the output can be kept: No space left") == 1
