"""The first screen at 60, 80, 120 and 200 columns, with and without colour: as in the golden files beside it.

To write them anew after a change that is meant: NIGHTLATCH_GOLDEN=1.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from nightlatch.cli import night
from nightlatch.core import advice
from nightlatch.observe import night_rows as rows
from nightlatch.observe.night_rows import NightPart, NightRow

GOLDEN = Path(__file__).parent / "golden"
NOW = 1_794_813_120.0
FIRST = ["36 of 39 slots ran, 5 things need you", "$6.12, usually $4.43", "1 stale write refused"]


def at(hours: float) -> float:
    return NOW - hours * 3600


def row(mark: str, job: str, word: str, when: float | None, reason: str, *words: str) -> NightRow:
    return NightRow(mark=mark, job=job, word=word, at=when, reason=reason, next=advice.to(*words))


PARTS = [
    NightPart(title="needs you", more=12, rows=(
        row(rows.DOUBT, "newsletter", "in doubt", at(2.2), "send-2026-11-16: no reply within 30s",
            "resolve", "send-2026-11-16"),
        row(rows.PERSON, "refactor-agent", "approve", at(5.5), "holds 3 writes, clean run 2 of 3", "approve", "c8q1"),
        row(rows.BROKEN, "crawl-feeds", "timed out", at(3.4), "third time in a row; not done after 45m; waiting for "
            "feeds.example.net:443 and for all the others that did not answer for so long\x1b[31m that it was ended",
            "show", "5m2x"),
        row(rows.BROKEN, "a-job-with-a-name-that-is-much-too-long", "lapsed", at(90), "", "batch", "posts", "/srv/items",
            "--", "sh", "-c", "a line with blanks that is long"),
    )),
    NightPart(title="running", rows=(
        row(rows.WORKS, "translate", "42m of 2h", None, "7/12 ███████░░░░░, $1.61 of $4.00, done about 07:42",
            "logs", "-f", "q4hz"),
    )),
    NightPart(title="done", capped=True, more=3, rows=(
        row(rows.WELL, "articles", "1 × 37m", at(4.3), "$2.84 ▁▁▁▁▁▁▁█; at the second attempt", "show", "7k3f"),
        row(rows.WAITS, "link-check", "18 × 2m", at(0.2), "1 cancelled", "runs", "--job", "link-check"),
    )),
]  # fmt: skip


def painted(text: str, *styles: str) -> str:
    return f"\x1b[{';'.join(styles)}m{text}\x1b[0m" if styles else text


@pytest.fixture(autouse=True)
def in_utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("colour", [True, False], ids=["colour", "plain"])
@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_first_screen_looks_as_it_should(width, colour):
    paint = painted if colour else lambda text, *_: text
    lines = night.lines(FIRST, PARTS, width=width, paint=paint, plain=not colour, now=NOW, more="runs --since 24h")
    path = GOLDEN / f"night-{width}-{'colour' if colour else 'plain'}.txt"
    shown = "\n".join(lines).replace("\x1b", "␛") + "\n"
    if os.environ.get("NIGHTLATCH_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(shown)
    assert shown == path.read_text()
    if not colour:
        assert all(len(line) <= width for line in lines if "batch posts" not in line), "a line would wrap"
        assert all(line.isascii() and line.isprintable() for line in lines)
        whole = " ".join(" ".join(line.split()) for line in lines)
        for reason in ("no reply within 30s", "holds 3 writes", "third time in a row", "at the second attempt"):
            assert reason in whole
