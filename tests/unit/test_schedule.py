from __future__ import annotations

import datetime
import itertools
import struct
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from nightlatch.core import schedule
from nightlatch.errors import UsageError
from nightlatch.system import zone

UTC = datetime.UTC
SET_BACK = {  # where clocks are set back, and when
    "Europe/Berlin": datetime.datetime(2026, 10, 25, 1, tzinfo=UTC),
    "America/New_York": datetime.datetime(2026, 11, 1, 6, tzinfo=UTC),
    "Australia/Lord_Howe": datetime.datetime(2026, 4, 4, 15, tzinfo=UTC),  # by half an hour
}
SET_FORWARD = {
    "Europe/Berlin": datetime.datetime(2026, 3, 29, 1, tzinfo=UTC),
    "America/New_York": datetime.datetime(2026, 3, 8, 7, tzinfo=UTC),
    "Australia/Lord_Howe": datetime.datetime(2026, 10, 3, 15, 30, tzinfo=UTC),
}


def slots(expression: str, name: str, changed: datetime.datetime) -> list[float]:
    """The slots of two days around the change, as somebody finds them who looks every five minutes."""
    found: list[float] = []
    begin = changed - datetime.timedelta(hours=26)
    for minute in range(0, 52 * 60, 5):
        now = (begin + datetime.timedelta(minutes=minute)).timestamp()
        due = schedule.newest_due(expression, now, ZoneInfo(name)).timestamp()
        assert due <= now
        if not found or due != found[-1]:
            found.append(due)
    return found


@pytest.mark.parametrize("name", SET_BACK)
@pytest.mark.parametrize("changes", [SET_BACK, SET_FORWARD])
@pytest.mark.parametrize("expression", ["0 2 * * *", "30 2 * * *", "30 1 * * *", "15 1,2 * * *"])
def test_a_slot_never_gives_way_to_an_older_one(
    name: str, changes: dict[str, datetime.datetime], expression: str
) -> None:
    found = slots(expression, name, changes[name])
    assert found == sorted(set(found))


def test_each_hour_of_the_two_that_look_alike_has_its_own_slot() -> None:
    found = slots("0 * * * *", "Europe/Berlin", SET_BACK["Europe/Berlin"])
    assert {b - a for a, b in itertools.pairwise(found)} == {3600.0}


def test_a_zone_may_be_named_by_its_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    one_zone = struct.pack(">4s16x6llbb4s", b"TZif", 0, 0, 0, 0, 1, 4, 7200, 0, 0, b"XST\0")
    (tmp_path / "localtime").write_bytes(one_zone)
    monkeypatch.setenv("TZ", f":{tmp_path}/localtime")
    assert zone.find().utcoffset(datetime.datetime(2026, 1, 1)) == datetime.timedelta(hours=2)
    monkeypatch.setenv("TZ", f"{tmp_path}/none")
    with pytest.raises(UsageError, match="is not known here"):
        zone.find()
