"""What the journal says about a run: the row, the attempts and the usage that follow from its entries.

A run's own chain has its attempts; what people decide is on its job's chain, with the number of the run's last entry
before the decision. Where retention has removed a decision, columns that only it determines are not checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core import statuses
from ..core.units import UNITS
from . import kinds
from .chain import unpack
from .sealing import HOLDER_GONE
from .typed_table import counts

_OPENING = ("job", "key", "slot", "command", "definition", "host", "parent")
# Columns that people's verbs change.
_DECIDED = ("status", "reason", "cancel", "changed", "ended", "due", "held", "approved", "anchor")


class Links:
    """What a job's chain says about one of its runs."""

    def __init__(self) -> None:
        self.changes: list[tuple[int, int, dict[str, str]]] = []  # decisions: (the run's last entry then, time, facts)
        self.anchor = ""
        self.at = 0  # when the run was last linked
        self.whole = False  # no link is missing, from the run's opening on

    def add(self, at: int, kind: str, facts: dict[str, str], head: str) -> None:
        self.at, self.anchor = at, head
        self.whole = self.whole or kind == kinds.OPENED
        if "was" in facts or kind == kinds.CANCEL_REQUESTED:
            seq = int(facts["seq"]) if "seq" in facts else self.changes[-1][0] if self.changes else 0
            self.changes.append((seq, at, facts))

    def carry(self, at: int, seq: int, status: str) -> None:
        """Note that a cut has removed the run's links, and that it names the run's last status."""
        self.at, self.whole = at, False
        self.changes.append((seq, at, {"carried": status}))


class Replay:
    def __init__(self, links: Links, *, whole: bool) -> None:
        self.row: dict[str, Any] = dict.fromkeys((*_OPENING, "grant_id", "holder", "cancel", "reason", "message"), "")
        self.row |= dict.fromkeys(("attempt", "token", "elapsed", "done", "total", *UNITS), 0)
        self.row |= dict.fromkeys(("exit_code", "started", "ended", "due", "held"))
        self.row["approved"] = ""
        self.row["anchor"] = links.anchor
        self.attempts: dict[int, dict[str, Any]] = {}
        self.usage: dict[int, tuple[int, ...]] = {}  # entry → when, and how much of each unit
        self._changes = list(reversed(links.changes))
        if not whole:
            del self.row["cancel"]  # a removed link may have set it

    def enter(self, seq: int, at: int, kind: str, body: str) -> None:
        """Apply the next entry of the run's chain, of a kind that is evidence for a run."""
        self._decide(seq)
        _RULES[kind](self, seq, at, unpack(body))

    def finish(self) -> None:
        """Apply the decisions after its last entry."""
        self._decide(None)

    def _open(self, seq: int, at: int, facts: dict[str, str]) -> None:
        self.row |= {name: facts.get(name, "") for name in _OPENING}
        self.row |= {"status": statuses.PENDING, "created": at, "changed": at}

    def _start(self, seq: int, at: int, facts: dict[str, str]) -> None:
        number, token = int(facts["attempt"]), int(facts["token"])
        grant = {"token": token, "grant_id": facts["grant"], "holder": facts["holder"]}
        self.row |= grant | {name: facts[name] for name in ("command", "definition", "host") if name in facts}
        self.row |= {"status": statuses.RUNNING, "attempt": number, "changed": at, "started": at}
        self.row |= dict.fromkeys(("ended", "due", "exit_code")) | dict.fromkeys(("done", "total"), 0)
        self.row |= {"reason": "", "message": ""}
        before = self.attempts.get(number)  # the same grant with a raised token is the same attempt
        self.attempts[number] = grant | {
            "status": statuses.RUNNING, "exit_code": None, "reason": "", "ended": None, "elapsed": 0,
            "started": before["started"] if before else at,
        }  # fmt: skip

    def _lose(self, seq: int, at: int, facts: dict[str, str]) -> None:
        number = int(facts["attempt"])
        started = self.attempts[number]["started"]
        self.attempts[number] |= {"status": statuses.LOST, "reason": HOLDER_GONE, "ended": at, "elapsed": at - started}
        if "status" in facts:  # no attempt follows
            self.row |= {"status": facts["status"], "token": int(facts["by_token"]), "changed": at, "ended": at}
            self.row["reason"] = f"attempt {number} was lost: {HOLDER_GONE}"
            if "by_grant" in facts:
                self.row["grant_id"] = facts["by_grant"]

    def _end(self, seq: int, at: int, facts: dict[str, str]) -> None:
        code = int(facts["exit_code"]) if "exit_code" in facts else None
        end = {"status": facts["status"], "exit_code": code, "reason": facts.get("reason", ""), "ended": at}
        end["elapsed"] = round(float(facts["elapsed"]) * 1000)
        self.attempts[int(facts["attempt"])] |= end
        due = round(float(facts["again_at"]) * 1000) if "again_at" in facts else None
        held = round(float(facts["held"]) * 1000) if "held" in facts else None
        self.row |= end | {"changed": at, "due": due, "held": held}
        if facts["status"] not in statuses.KEEPS_APPROVAL:
            self.row["approved"] = ""
        if due is not None or held is not None:
            self.row["status"] = statuses.WAITING
        elif "doubt" in facts:
            self.row["status"] = statuses.IN_DOUBT

    def _progress(self, seq: int, at: int, facts: dict[str, str]) -> None:
        self.row |= {"done": int(facts["done"]), "total": int(facts.get("total", 0))}
        self.row["message"] = facts.get("message", "")

    def _use(self, seq: int, at: int, facts: dict[str, str]) -> None:
        used = counts({unit: float(facts[unit]) for unit in UNITS if unit in facts})
        self.usage[seq] = (at, *used.values())
        for unit, count in used.items():
            self.row[unit] += count

    def _decide(self, before: int | None) -> None:
        """Apply what was decided before the entry `before`; None: all that is left."""
        while self._changes and (before is None or self._changes[-1][0] < before):
            _, at, facts = self._changes.pop()
            if "carried" in facts:
                self._forget_decided()
                self.row["status"] = facts["carried"]
            elif "was" not in facts:
                self.row["cancel"] = facts["by"]
            else:
                self._change(at, facts)

    def _change(self, at: int, facts: dict[str, str]) -> None:
        if self.row.get("status") != facts["was"]:
            self._forget_decided()  # retention has removed a decision before this one
        status, reason = facts["status"], facts.get("reason")
        held = round(float(facts["held"]) * 1000) if "held" in facts else None
        self.row |= {"status": status, "changed": at, "due": None, "held": held}
        if "approved" in facts or status not in statuses.OPEN:
            self.row["approved"] = facts.get("approved", "")
        if reason is not None:
            self.row["reason"] = reason
        if status not in statuses.OPEN:
            self.row["ended"] = at
        if status == statuses.PENDING:
            self.row["cancel"] = ""
        elif "cancel" in facts:
            self.row["cancel"] = facts["cancel"]
        attempt = self.attempts.get(self.row["attempt"])
        if status == statuses.SUCCEEDED and attempt:
            attempt["status"] = status
            if "reason" in attempt:
                attempt["reason"] = "; ".join(filter(None, (attempt["reason"], reason)))

    def _forget_decided(self) -> None:
        """Leave out what a removed decision may have set."""
        anchor = self.row.get("anchor")
        for name in _DECIDED:
            self.row.pop(name, None)
        if anchor:
            self.row["anchor"] = anchor
        for name in ("status", "reason"):
            self.attempts.get(self.row["attempt"], {}).pop(name, None)


_RULES: dict[str, Callable[[Replay, int, int, dict[str, str]], None]] = {
    kinds.OPENED: Replay._open,
    kinds.STARTED: Replay._start,
    kinds.LOST: Replay._lose,
    kinds.ENDED: Replay._end,
    kinds.PROGRESS: Replay._progress,
    kinds.USAGE: Replay._use,
}
