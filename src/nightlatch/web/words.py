"""The look of a status, the same on every page: a word, a shape and a colour. And times in the ledger's zone."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from markupsafe import Markup, escape

from ..core import statuses
from ..core.printable import printable, shortened
from ..core.units import Amounts
from ..ledger.records import RunRow
from ..observe import evening, verdict
from ..observe.figures import count, money
from ..system import clock, zone

OK, BAD, WAIT, DOUBT, RUN, IDLE = "ok", "bad", "wait", "doubt", "run", "idle"  # colours of the style sheet
TONES = {verdict.CALM: OK, verdict.DECIDE: WAIT, verdict.ALARM: ""}  # "": red, the page's default for a verdict

# status → (shape, colour, word)
LOOKS = {
    statuses.PENDING: ("lost", IDLE, "pending"),
    statuses.RUNNING: ("run", RUN, "running"),
    statuses.WAITING: ("hand", WAIT, "waiting"),
    statuses.SUCCEEDED: ("ok", OK, "succeeded"),
    statuses.FAILED: ("bad", BAD, "failed"),
    statuses.TIMED_OUT: ("time", BAD, "timed out"),
    statuses.STALLED: ("time", BAD, "stalled"),
    statuses.OVER_BUDGET: ("dollar", BAD, "over budget"),
    statuses.CANCELLED: ("lost", IDLE, "cancelled"),
    statuses.LOST: ("lost", BAD, "lost"),
    statuses.IN_DOUBT: ("doubt", DOUBT, "in doubt"),
    statuses.NEEDS_ATTENTION: ("hand", BAD, "needs attention"),
    verdict.LAPSED: ("lost", BAD, "lapsed"),
    "overdue": ("late", BAD, "overdue"),
    "set-aside": ("hand", WAIT, "set aside"),
    "not started": ("dollar", WAIT, "not started"),
    "begun": ("doubt", DOUBT, "no end reported"),
}
_UNKNOWN = ("dot", IDLE)


def look(status: str) -> tuple[str, str, str]:
    """(shape, colour, word) of a status."""
    return LOOKS.get(status) or (*_UNKNOWN, status)


def look_of(run: RunRow, status: str) -> tuple[str, str, str]:
    """(shape, colour, word) of a run: a run that holds its writes waits for approval."""
    return ("hand", WAIT, "waits for approval") if run.held is not None else look(status)


def short(text: str, longest: int = 300) -> str:
    """Reported text as one printable line of a bounded length."""
    return shortened(text, longest)


def emphasis(sentence: str, tone: str) -> tuple[str, str, str]:
    """(before, coloured, after): a good verdict is coloured after its first comma, a bad one up to its colon."""
    text, dot = (sentence[:-1], ".") if sentence.endswith(".") else (sentence, "")
    if tone in (OK, RUN):
        head, comma, rest = text.partition(", ")
        return (f"{head}{comma}", rest, dot) if comma else ("", sentence, "")
    head, colon, rest = text.partition(": ")
    return ("", head, f"{colon}{rest}{dot}") if colon else ("", sentence, "")


def with_link(text: str, job: str, href: str) -> Markup:
    """The escaped text, in which "by JOB." links to the job."""
    before, named, after = printable(text).partition(f"by {printable(job)}." if job else "\0")
    if not named:
        return escape(before)
    return Markup('{}by <a href="{}">{}</a>.{}').format(before, href, printable(job), after)


def tail_of(token: int) -> str:
    """The last digits of a token, in which tokens differ: …2 914."""
    text = str(token)
    return text if len(text) <= 4 else f"…{text[-4]} {text[-3:]}"


def with_short_tokens(sentence: str) -> str:
    return re.sub(r"\btoken (\d{5,})", lambda found: f"token {tail_of(int(found[1]))}", sentence)


def hash_of(text: str) -> str:
    """The first eight digits of a hash, in two groups."""
    return f"{text[:4]} {text[4:8]}".strip()


def used(amounts: Amounts) -> str:
    """The money; if there is none, the other units."""
    if amounts.usd:
        return money(amounts.usd)
    parts = [f"{count(number)} {unit}" for unit, number in amounts.by_unit().items() if number]
    return ", ".join(parts)


class Calendar:
    """Times in the ledger's zone."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._zone = zone.find(name)

    def clock(self, at: float) -> str:
        """02:51, or 14 Nov 02:51 if that is a day or more from now."""
        shown = self._shown(at)
        return shown.strftime("%H:%M" if abs(clock.wall() - at) < 86400 else "%d %b %H:%M")

    def second(self, at: float) -> str:
        return self._shown(at).strftime("%H:%M:%S")

    def exact(self, at: float) -> str:
        return self._shown(at).strftime("%A %d %B %Y, %H:%M:%S %Z")

    def iso(self, at: float) -> str:
        return self._shown(at).isoformat(timespec="seconds")

    def date(self, at: float) -> str:
        return self._shown(at).strftime("%a %d %b")

    def long_date(self, at: float) -> str:
        return self._shown(at).strftime("%A %d %B, %H:%M")

    def day(self, at: float) -> str:
        return self._shown(at).date().isoformat()

    def evening(self, now: float, at_least: float = evening.AT_LEAST) -> float:
        """When the night began that people call "last night" at `now`."""
        return evening.began(self.name, now, at_least)

    def night_of(self, day: str) -> tuple[float, float]:
        """(begin, end): from the evening of a day, as in 2026-11-15, to the next evening."""
        begin = datetime.fromisoformat(day).replace(hour=evening.HOUR, tzinfo=self._zone)
        return begin.timestamp(), (begin + timedelta(days=1)).timestamp()

    def hours(self, begin: float, end: float) -> list[tuple[float, str]]:
        """(moment, label) of full hours from `begin` to `end`, about twelve at most."""
        step = max(1, round((end - begin) / 3600 / 12))
        first = self._shown(begin).replace(minute=0, second=0, microsecond=0)
        found = []
        for number in range(0, int((end - begin) / 3600) + 2, step):
            at = (first + timedelta(hours=number)).timestamp()
            if begin <= at <= end:
                found.append((at, self._shown(at).strftime("%H")))
        return found

    def _shown(self, at: float) -> datetime:
        return datetime.fromtimestamp(at, self._zone)
