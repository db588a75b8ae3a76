"""Text that comes from elsewhere, on somebody's terminal: a run's output, hostile words; and colour."""

from __future__ import annotations

import os
import pty
import subprocess

import pytest

from nightlatch.ledger import open_for
from tests.support.programs import NIGHTLATCH, TOOL, environment, nightlatch, said, start
from tests.support.runs import Running, listed, one, run


def test_logs_pass_the_output_on_without_escapes_and_raw_with_them(sqlite_url):
    run(sqlite_url, "a", r"printf 'a\033[31mred\033[0m\n\033]0;title\007b\n'; echo err >&2")
    found = one(sqlite_url, "a")["run"]
    assert nightlatch(sqlite_url, "logs", found).stdout == "ared\nb\nerr\n"
    raw = nightlatch(sqlite_url, "logs", "--raw", found).stdout
    assert raw == "a\x1b[31mred\x1b[0m\n\x1b]0;title\x07b\nerr\n"


def test_logs_follow_until_the_run_ends(sqlite_url, tmp_path):
    running = Running(sqlite_url, tmp_path, "a")
    following = start(sqlite_url, "logs", "-f", running.id)
    assert following.stdout and following.stdout.readline() == "began\n"
    assert running.finish() == 0
    out, err = following.communicate(timeout=60)
    assert (following.returncode, out) == (0, "went on\n")
    assert "is succeeded" in err


def test_following_a_run_whose_holder_is_gone_ends_too(sqlite_url, lapsed):
    done = nightlatch(sqlite_url, "logs", "-f", lapsed)
    assert (done.returncode, done.stdout) == (0, "began\n")
    assert "lapsed" in done.stderr


def test_logs_of_what_has_not_begun_say_so(sqlite_url):
    waiting = open_for(sqlite_url).open_run("a", "k").id
    assert "nothing yet" in said(nightlatch(sqlite_url, "logs", waiting), 64)


def test_hostile_text_is_harmless_wherever_it_is_shown(sqlite_url):
    bad = "\x1b]0;owned\x07\x1b[2J\u202e"
    run(sqlite_url, "a", f"{TOOL} progress 1/2 \"$1\"; printf '%s\\n' '{bad}'; exit 1", key=f"k{bad}")
    nightlatch(sqlite_url, "run", "b", "--key", bad, "--", "sh", "-c", f'{TOOL} progress 1 "$1"; exit 1', "sh", bad)
    nightlatch(sqlite_url, "retry", one(sqlite_url, "b")["run"], env={"LOGNAME": f"me{bad}"})
    for words in ([], ["runs"], *(["show", found["run"]] for found in listed(sqlite_url))):
        shown = nightlatch(sqlite_url, *words).stdout
        assert [letter for letter in shown if not letter.isprintable() and letter != "\n"] == [], words
        assert "\\x1b" in shown
    for command in ("status", "runs"):
        assert nightlatch(sqlite_url, command, "--json").stdout.isascii()


@pytest.mark.parametrize(("more", "coloured"), [({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False)])
def test_colour_is_for_terminals_and_no_color_is_respected(sqlite_url, more, coloured):
    run(sqlite_url, "a", "true")
    ours, theirs = pty.openpty()
    env = environment(sqlite_url, TERM="xterm", **more)
    done = subprocess.run(NIGHTLATCH, env=env, stdout=theirs, stdin=subprocess.DEVNULL, timeout=60)
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert done.returncode == 0
    assert ("\x1b[" in shown) == coloured
    assert "\x1b" not in nightlatch(sqlite_url, env={"TERM": "xterm"}).stdout
