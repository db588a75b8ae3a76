"""How old the price list is: by the newest day in it, since the package itself has no date."""

from __future__ import annotations

import re
from datetime import date
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

OLD = 90  # days after which the price list counts as old


def newest(today: date) -> tuple[str, date | None]:
    """The package's version, and the newest day up to today in its prices. Reads the file without importing it."""
    spec = find_spec("genai_prices")
    if spec is None or not spec.submodule_search_locations:
        return "", None
    text = (Path(spec.submodule_search_locations[0]) / "data.py").read_text(encoding="utf-8")
    iso = re.findall(r"20\d\d-[01]\d-[0-3]\d", text)
    calls = re.findall(r"datetime\.date\((20\d\d), (\d+), (\d+)\)", text)
    days = [_day(day) for day in iso] + [_day(f"{y}-{int(m):02}-{int(d):02}") for y, m, d in calls]
    return version("genai-prices"), max((day for day in days if day and day <= today), default=None)


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
