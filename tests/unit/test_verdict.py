"""The verdict's grammar: a table of cases, for a night and for a run in each status."""

from __future__ import annotations

import pytest

from nightlatch.core import statuses
from nightlatch.observe import figures, verdict
from nightlatch.observe.verdict import ALARM, CALM, DECIDE, Dearer, Night, RunFacts

NOW = 7 * 3600.0


def at(moment: float) -> str:
    return f"{int(moment // 3600):02d}:{int(moment % 3600 // 60):02d}"


def clock(text: str) -> float:
    hours, minutes = text.split(":")
    return int(hours) * 3600.0 + int(minutes) * 60


NIGHTS = [
    (Night(slots=39, slots_ran=39), "All 39 slots ran. Nothing needs you.", "", CALM),
    (Night(slots=1, slots_ran=1), "The only slot ran. Nothing needs you.", "", CALM),
    (Night(slots=39, slots_ran=36, need_you=5, alarming=1), "36 of 39 slots ran. Five things need you.", "", ALARM),
    (Night(ended=17, well=15, need_you=1), "15 of 17 runs succeeded. One thing needs you.", "", DECIDE),
    (Night(ended=2, well=2), "All 2 runs succeeded. Nothing needs you.", "", CALM),
    (Night(ended=3), "None of 3 runs succeeded. Nothing needs you.", "", CALM),
    (Night(ended=1, well=1), "The only run succeeded. Nothing needs you.", "", CALM),
    (Night(ended=1), "The only run did not succeed. Nothing needs you.", "", CALM),
    (Night(need_you=13), "Nothing ran. 13 things need you.", "", DECIDE),
    (Night(), "Nothing ran. Nothing needs you.", "", CALM),
    (Night(usd=6.12), "Nothing ran. Nothing needs you.", "$6.12 was used.", CALM),
    (Night(usd=6.12, usual_usd=6.0, weekday="Sunday"), "Nothing ran. Nothing needs you.",
     "$6.12 was used, as on other Sunday nights.", CALM),
    (Night(usd=6.12, usual_usd=4.43, weekday="Sunday", risen_job="articles", risen_share=0.9),
     "Nothing ran. Nothing needs you.",
     "$6.12 was used, 38 % more than on a usual Sunday night, nearly all of the rise by articles.", CALM),
    (Night(usd=6.12, usual_usd=4.43, weekday="Sunday", risen_job="articles", risen_share=0.6),
     "Nothing ran. Nothing needs you.",
     "$6.12 was used, 38 % more than on a usual Sunday night, most of the rise by articles.", CALM),
    (Night(usd=2.0, usual_usd=4.0, weekday="Monday", risen_job="articles", risen_share=0.9),
     "Nothing ran. Nothing needs you.", "$2.00 was used, 50 % less than on a usual Monday night.", CALM),
    (Night(usd=12.0, usual_usd=4.0, weekday="Monday"), "Nothing ran. Nothing needs you.",
     "$12.00 was used, 3.0 × what a usual Monday night takes.", CALM),
    (Night(refused=1, journal_intact=True), "Nothing ran. Nothing needs you.",
     "One stale write was refused; nothing landed twice. The journal is intact.", CALM),
    (Night(refused=2), "Nothing ran. Nothing needs you.", "Two stale writes were refused; nothing landed twice.", CALM),
    (Night(slots=2, slots_ran=2, journal_intact=False, journal_broken_at="entry 812 of articles"),
     "The journal is broken at entry 812 of articles. All 2 slots ran. Nothing needs you.", "", ALARM),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "sentence", "reasons", "tone"), NIGHTS)
def test_a_night_in_a_sentence(seen, sentence, reasons, tone):
    assert verdict.night(seen) == verdict.Headline(sentence=sentence, reasons=reasons, tone=tone)


def test_a_night_in_short():
    seen = Night(slots=39, slots_ran=36, need_you=5, usd=6.12, usual_usd=4.43, refused=1)
    assert verdict.night_in_short(seen) == [
        "36 of 39 slots ran, 5 things need you", "$6.12, usually $4.43", "1 stale write refused",
    ]  # fmt: skip
    assert verdict.night_in_short(Night()) == ["Nothing ran, nothing needs you"]
    broken = Night(journal_intact=False, journal_broken_at="entry 8 of a", need_you=1, usd=2, refused=12)
    assert verdict.night_in_short(broken) == [
        "the journal is broken at entry 8 of a", "Nothing ran, 1 thing needs you", "$2.00", "12 stale writes refused",
    ]  # fmt: skip


RUNS = [
    ("pending", {}, "Waits for its turn."),
    ("waiting", {"again_at": clock("07:41"), "attempt": 1, "tries": 3}, "Tries again at 07:41, second of 3."),
    ("waiting", {"again_at": clock("07:41"), "attempt": 1}, "Tries again at 07:41."),
    ("waiting", {"again_at": clock("02:41"), "attempt": 1, "tries": 3},
     "Its next try, second of 3, was due at 02:41 and has not started."),
    ("waiting", {}, "Waits for its next try."),
    ("waiting", {"writes_held": 3}, "Holds 3 writes until somebody approves them."),
    ("waiting", {"writes_held": 1}, "Holds 1 write until somebody approves it."),
    ("running", {"started": clock("06:00"), "done": 7, "total": 12, "reports": 7, "usd": 1.61},
     "7 of 12, done about 07:42 for $2.76."),
    ("running", {"started": clock("06:00"), "done": 7, "total": 12, "reports": 7}, "7 of 12, done about 07:42."),
    ("running", {"started": clock("06:18"), "done": 2, "total": 12, "reports": 2}, "2 of 12, running for 42m."),
    ("running", {"started": clock("06:18"), "done": 70, "reports": 70}, "70 done, running for 42m."),
    ("running", {"started": clock("06:18")}, "Running for 42m, no progress reported."),
    ("succeeded", {"ended": clock("02:51"), "attempt": 2}, "Succeeded at 02:51, at the second attempt."),
    ("succeeded", {"ended": clock("02:51"), "attempt": 1}, "Succeeded at 02:51."),
    ("succeeded", {"ended": clock("02:51"), "attempt": 1, "landed_on": "main"}, "Landed on main at 02:51."),
    ("failed", {"ended": clock("03:12"), "exit_code": 3, "reason": "exit code 3", "attempt": 1,
                "last_line": "cannot connect to search at 10.0.0.7:9200"},
     "Failed at 03:12 with exit code 3: cannot connect to search at 10.0.0.7:9200."),
    ("failed", {"ended": clock("03:12"), "exit_code": 1, "reason": "the feed is empty", "last_line": "bye"},
     "Failed at 03:12: the feed is empty."),
    ("failed", {"ended": clock("03:12"), "exit_code": 3, "attempt": 2},
     "Failed at 03:12 with exit code 3, at the second attempt."),
    ("timed-out", {"timeout": 2700.0}, "Not done after 45m; it was ended."),
    ("stalled", {"stall": 600.0, "ended": clock("03:10")}, "No progress for 10m; it was ended at 03:10."),
    ("over-budget", {"budget_usd": 4.0}, "Ended at $4.00, its budget."),
    ("over-budget", {"reason": "calls=10"}, "Ended by its budget: calls=10."),
    ("in-doubt", {"effect": "send-2026-11-16"}, "Nobody knows whether send-2026-11-16 was done."),
    ("in-doubt", {"reason": "its holder is gone"}, "Nobody knows whether it was done: its holder is gone."),
    ("needs-attention", {"reason": "a gate cannot be sealed: s3://bucket"}, "A gate cannot be sealed: s3://bucket."),
    ("lapsed", {"host": "mini"}, "Its holder mini is gone, and nobody has taken over."),
    ("lost", {"reason": "its holder is gone", "ended": clock("03:02")}, "Lost at 03:02: its holder is gone."),
    ("cancelled", {"by": "ann", "ended": clock("02:20")}, "Cancelled by ann at 02:20."),
]  # fmt: skip


@pytest.mark.parametrize(("status", "known", "sentence"), RUNS)
def test_a_run_in_a_sentence(status, known, sentence):
    assert verdict.run(RunFacts(status=status, now=NOW, **known), at).sentence == sentence


def test_every_status_has_a_sentence_that_needs_nothing():
    for status in (*statuses.ALL, verdict.LAPSED):
        assert any(status == one for one, _, _ in RUNS), f"{status} is missing in the table"
        sentence = verdict.run(RunFacts(status=status, now=NOW), at).sentence
        assert sentence.endswith(".") and "None" not in sentence and ".." not in sentence


def test_what_a_command_reported_is_one_printable_line_of_a_bounded_length():
    hostile = "gone\r\nSubject: you won\x1b[31m \u202eesrever" + "x" * 500
    for status in ("failed", "needs-attention", "in-doubt", "lost"):
        sentence = verdict.run(RunFacts(status=status, now=NOW, reason=hostile), at).sentence
        assert sentence.isprintable() and len(sentence) < 260


def test_jobs_and_usage_in_a_sentence():
    dearer = Dearer(job="articles", factor=2.9, since="Friday")
    assert verdict.job("articles", runs=60, well=58, dearer=dearer).sentence == (
        "articles: 58 of 60 runs succeeded; it costs 2.9 × the usual since Friday."
    )
    assert verdict.job("new", runs=0, well=0).sentence == "new: no run has ended yet."
    assert verdict.usage(139.42, "30 days", dearer=dearer).sentence == (
        "$139.42 in 30 days. articles has cost 2.9 × the usual since Friday."
    )
    assert verdict.usage(0, "30 days").sentence == "Nothing was used in 30 days."


def test_figures():
    assert [figures.money(usd) for usd in (0, 0.0042, 0.00000001, 0.01, 2.839, 1234.5, -3)] == [
        "$0.00", "$0.0042", "$0.00000001", "$0.01", "$2.84", "$1,234.50", "-$3.00",
    ]  # fmt: skip
    assert [figures.span(s) for s in (0, 0.25, 1, 59.7, 60, 2220, 4320, 90061)] == [
        "0ms", "250ms", "1s", "1m", "1m", "37m", "1h 12m", "1d 1h",
    ]  # fmt: skip
    assert figures.times(2.94) == "2.9 ×" and figures.times(12.3) == "12 ×"
    assert [figures.ordinal(n) for n in (1, 2, 12, 13, 21, 111, 123)] == [
        "first", "second", "twelfth", "13th", "21st", "111th", "123rd",
    ]  # fmt: skip
    assert figures.sparkline([0, 1, 2, 7]) == "▁▂▃█" and figures.sparkline([0, 0]) == "▁▁" and not figures.sparkline([])
