from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightlatch.core import duration
from nightlatch.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("10m", 600),
        ("1h30m", 5400),
        ("250ms", 0.25),
        ("1.5h", 5400),
        ("7d", 604800),
        ("2w", 1209600),
        ("0s", 0),
        (" 1H30M ", 5400),
        ("1d2h3m4s5ms", 93784.005),
    ],
)
def test_durations_as_people_write_them(text, seconds):
    assert duration.parse(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["90", "1.5", "1h30", "0"])
def test_a_bare_number_is_refused_as_ambiguous(text):
    with pytest.raises(UsageError, match="ambiguous"):
        duration.parse(text)


@pytest.mark.parametrize("text", ["", "s", "1x", "-5s", "5 s", "1..5s", ".s", "1m1h", "1s1s", "1e3s", "ten minutes"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(UsageError):
        duration.parse(text)


@given(st.floats(0, 1e7))
def test_what_is_shown_can_be_read_again(seconds):
    assert duration.parse(duration.show(seconds)) == pytest.approx(seconds, rel=0.05, abs=0.001)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.25, "250ms"), (4.0, "4s"), (90, "1m30s"), (5400, "1h30m"), (-3, "-3s")]
)
def test_durations_for_people(seconds, text):
    assert duration.show(seconds) == text
