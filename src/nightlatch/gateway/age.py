"""How old the listed prices are: by the newest day that they name, since the package carries no date of its own."""

from __future__ import annotations

import re
from datetime import date
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

OLD = 90  # days


def newest(today: date) -> tuple[str, date | None]:
    """The package's version, and the last day up to today that its prices name. Nothing of it is imported."""
    spec = find_spec("genai_prices")
    if spec is None or not spec.submodule_search_locations:
        return "", None
    text = (Path(spec.submodule_search_locations[0]) / "data.py").read_text(encoding="utf-8")
    named = (re.findall(r"20\d\d-[01]\d-[0-3]\d", text), re.findall(r"datetime\.date\((20\d\d), (\d+), (\d+)\)", text))
    days = [_day(one) for one in named[0]] + [_day(f"{y}-{int(m):02}-{int(d):02}") for y, m, d in named[1]]
    return version("genai-prices"), max((day for day in days if day and day <= today), default=None)


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
