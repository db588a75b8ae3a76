"""A message: the verdict in a sentence, the last line of output, the command to type, the page, the chain's head.

What a command printed is hostile text: it becomes one printable line, and characters that a mail program, a chat or a
notification would read as a mention, a link or markup are replaced by lookalikes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from ...core import advice
from ...core.printable import printable
from ...core.value import value
from ...ledger.outbox import Alert
from .. import run_facts
from ..reader import StoreReader
from .rules import DIGEST, RECOVERED, RULES, TEST

URGENT = 1  # alerts with at most this rank are urgent
_SHOWN = 10  # alerts that a message shows; the others are only counted
_LONGEST = 300  # characters of a reported text
_DEFANGED = str.maketrans({
    "@": "＠", "<": "‹", ">": "›", "[": "［", "]": "］", "`": "ˋ", "*": "∗", "_": "＿", "~": "∼", "|": "¦", "#": "＃",
    "&": "＆", "\\": "＼",
})  # fmt: skip
_HOST_DOT = re.compile(r"(?<=[\w-])\.(?=[^\W\d_]{2})")  # the dot of a host name, which many programs turn into a link


@value(frozen=True, kw_only=True)
class ShownAlert:
    """One alert as the message shows it."""

    id: str
    rule: str
    job: str
    run: str
    at: float
    sentence: str
    last_line: str = ""
    command: str = ""  # what to type
    page: str = ""
    head: str = ""  # the head of the run's chain, so that a copy of it is kept outside the store


@value(frozen=True, kw_only=True)
class Outgoing:
    id: str
    subject: str
    text: str
    rank: int  # of its most urgent alert; 0 is the most urgent
    alerts: tuple[ShownAlert, ...]
    page: str = ""

    def json(self) -> str:
        """The message as JSON, in ASCII only."""
        facts = {
            "version": 1,
            "id": self.id,
            "subject": self.subject,
            "text": self.text,
            "alerts": [one.__dict__ for one in self.alerts],
        }
        return json.dumps(facts)


def without_markup(text: str) -> str:
    """The text without mentions, links or markup, still readable for a person."""
    line = _HOST_DOT.sub("․", printable(text).translate(_DEFANGED)).replace("://", "：//")
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def build(reader: StoreReader | None, id_: str, alerts: Sequence[Alert], page: str = "") -> Outgoing:
    """`reader`: None if no alert is about a run."""
    shown = [_shown(reader, alert, page) for alert in alerts]
    shown.sort(key=lambda one: (RULES[one.rule].rank if one.rule in RULES else 9, one.at))
    counts: dict[str, int] = {}
    for one in shown:
        counts[one.rule] = counts.get(one.rule, 0) + 1
    rank = min((RULES[one.rule].rank for one in shown if one.rule in RULES), default=5)
    return Outgoing(
        id=id_, subject=_subject(shown, counts), text=_text(shown), rank=rank, alerts=tuple(shown), page=page
    )


def _subject(alerts: list[ShownAlert], counts: dict[str, int]) -> str:
    first = alerts[0]
    if first.rule == DIGEST:
        return "Nightlatch: " + first.sentence.split("\n", 1)[0].removeprefix("# ")[:150]
    if len(alerts) == 1:
        return f"Nightlatch: {without_markup(first.job)} {RULES[first.rule].title}".replace("  ", " ")
    jobs = len({one.job for one in alerts})
    kinds = ", ".join(f"{count} {rule}" for rule, count in sorted(counts.items(), key=lambda item: -item[1]))
    return f"Nightlatch: {kinds}, in {jobs} job{'s' if jobs > 1 else ''}"


def _text(alerts: list[ShownAlert]) -> str:
    lines: list[str] = []
    for one in alerts[:_SHOWN]:
        lines.append(one.sentence if one.rule in (DIGEST, TEST) else f"{without_markup(one.job)}: {one.sentence}")
        if one.last_line and one.rule != RECOVERED:
            lines.append(f"  last line: {one.last_line}")
        lines += [f"  $ {one.command}"] if one.command else []
        lines += [f"  {one.page}"] if one.page else []
        lines += [f"  head {one.head}"] if one.head else []
    if len(alerts) > _SHOWN:
        rest: dict[str, int] = {}
        for one in alerts[_SHOWN:]:
            rest[one.rule] = rest.get(one.rule, 0) + 1
        more = ", ".join(f"{count} {rule}" for rule, count in rest.items())
        lines += [f"and {len(alerts) - _SHOWN} more: {more}", "  $ nightlatch alerts --json"]
    return "\n".join(lines)


def _shown(reader: StoreReader | None, alert: Alert, page: str) -> ShownAlert:
    run = reader.ledger.run(alert.run) if reader and alert.run else None
    sentence, command = without_markup(alert.detail), ""
    if alert.rule == DIGEST:
        sentence = alert.detail
    elif reader and run and not alert.detail:
        sentence = without_markup(run_facts.run_verdict(reader, run).sentence)
    if alert.rule == RECOVERED:
        sentence = f"recovered. {sentence}"
    if run:
        command = advice.command("show", run.id)
    elif alert.rule == "changed":
        command = advice.command("usage", alert.job, "--changes")
    return ShownAlert(
        id=alert.id,
        rule=alert.rule,
        job=alert.job,
        run=alert.run,
        at=alert.at,
        sentence=sentence,
        last_line=without_markup(run_facts.last_line(reader, run)) if reader and run else "",
        command=command,
        page=f"{page.rstrip('/')}/run/{run.id}" if page and run else "",
        head=run.anchor if run else "",
    )
