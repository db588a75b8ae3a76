"""A message: the verdict in a sentence, the last line of output, the command to type, the page, the chain's head.

What a command printed is hostile text: it is made one printable line, and characters that a mail program, a chat or a
notification would take for a mention, a link or markup are replaced by lookalikes.
"""

from __future__ import annotations

import json
import re

from ...core import advice
from ...core.printable import printable
from ...core.value import value
from .. import run_facts
from .rules import DIGEST, RECOVERED, RULES, TEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...ledger.outbox import Alert
    from ..reader import StoreReader

_SHOWN = 10  # alerts of a message; the rest is counted
_LONGEST = 300
_DEFANGED = str.maketrans({
    "@": "＠", "<": "‹", ">": "›", "[": "［", "]": "］", "`": "ˋ", "*": "∗", "_": "＿", "~": "∼", "|": "¦", "#": "＃",
    "&": "＆", "\\": "＼",
})  # fmt: skip
_NAMED = re.compile(r"(?<=[\w-])\.(?=[^\W\d_]{2})")  # the dot of a host's name, which many programs make a link of


@value(frozen=True, kw_only=True)
class Told:
    """One alert as the message shows it."""

    id: str
    rule: str
    job: str
    run: str
    at: float
    sentence: str
    last_line: str = ""
    command: str = ""  # to type
    page: str = ""
    head: str = ""  # of the chain, to be kept elsewhere


@value(frozen=True, kw_only=True)
class Outgoing:
    id: str
    subject: str
    text: str
    worst: int
    alerts: tuple[Told, ...]
    page: str = ""

    def json(self) -> str:
        """ASCII only."""
        facts = {
            "version": 1,
            "id": self.id,
            "subject": self.subject,
            "text": self.text,
            "alerts": [one.__dict__ for one in self.alerts],
        }
        return json.dumps(facts)


def quiet(text: str) -> str:
    """The text without mentions, links or markup, still readable for a person."""
    line = _NAMED.sub("․", printable(text).translate(_DEFANGED)).replace("://", "：//")
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def build(reader: StoreReader, id_: str, alerts: Sequence[Alert], page: str = "") -> Outgoing:
    told = [_told(reader, alert, page) for alert in alerts]
    told.sort(key=lambda one: (RULES[one.rule].worst if one.rule in RULES else 9, one.at))
    counts: dict[str, int] = {}
    for one in told:
        counts[one.rule] = counts.get(one.rule, 0) + 1
    worst = min((RULES[one.rule].worst for one in told if one.rule in RULES), default=5)
    return Outgoing(
        id=id_, subject=_subject(told, counts), text=_text(told, counts), worst=worst, alerts=tuple(told), page=page
    )


def _subject(told: list[Told], counts: dict[str, int]) -> str:
    first = told[0]
    if first.rule == DIGEST:
        return "Nightlatch: " + first.sentence.split("\n", 1)[0].removeprefix("# ")[:150]
    if len(told) == 1:
        return f"Nightlatch: {quiet(first.job)} {RULES[first.rule].title}".replace("  ", " ")
    jobs = len({one.job for one in told})
    kinds = ", ".join(f"{count} {rule}" for rule, count in sorted(counts.items(), key=lambda item: -item[1]))
    return f"Nightlatch: {kinds}, in {jobs} job{'s' if jobs > 1 else ''}"


def _text(told: list[Told], counts: dict[str, int]) -> str:
    lines: list[str] = []
    for one in told[:_SHOWN]:
        lines.append(one.sentence if one.rule in (DIGEST, TEST) else f"{quiet(one.job)}: {one.sentence}")
        if one.last_line and one.rule != RECOVERED:
            lines.append(f"  last line: {one.last_line}")
        lines += [f"  $ {one.command}"] if one.command else []
        lines += [f"  {one.page}"] if one.page else []
        lines += [f"  head {one.head}"] if one.head else []
    if len(told) > _SHOWN:
        rest: dict[str, int] = {}
        for one in told[_SHOWN:]:
            rest[one.rule] = rest.get(one.rule, 0) + 1
        more = ", ".join(f"{count} {rule}" for rule, count in rest.items())
        lines += [f"and {len(told) - _SHOWN} more: {more}", "  $ nightlatch alerts --json"]
    return "\n".join(lines)


def _told(reader: StoreReader, alert: Alert, page: str) -> Told:
    run = reader.ledger.run(alert.run) if alert.run else None
    sentence, command = quiet(alert.detail), ""
    if alert.rule == DIGEST:
        sentence = alert.detail
    elif run and not alert.detail:
        sentence = quiet(run_facts.run_verdict(reader, run).sentence)
    if alert.rule == RECOVERED:
        sentence = f"recovered. {sentence}"
    if run:
        command = advice.command("show", run.id)
    elif alert.rule == "changed":
        command = advice.command("usage", alert.job, "--changes")
    return Told(
        id=alert.id,
        rule=alert.rule,
        job=alert.job,
        run=alert.run,
        at=alert.at,
        sentence=sentence,
        last_line=quiet(run_facts.last_line(reader, run)) if run else "",
        command=command,
        page=f"{page.rstrip('/')}/run/{run.id}" if page and run else "",
        head=run.anchor if run else "",
    )
