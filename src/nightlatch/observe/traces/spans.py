"""A run as spans, from its journal: run → attempt → item, step, effect, publish, agent → model call; and below an
attempt the runs that are nested in it. Pure reading: the same journal makes the same spans, with the same ids."""

from __future__ import annotations

from collections.abc import Iterable

from ...core import statuses
from ...core.effects import BEGUN, DONE
from ...core.value import replace, value
from ...ledger import kinds
from ...ledger.ledger import Ledger
from ...ledger.records import Attempt, Entry, RunRow
from ...runtime.shared import trace
from ...runtime.shared.trace import TraceParent
from . import names

Attributes = dict[str, str | int | float]

_PUBLISH_ENDS: dict[str, bool] = {kinds.PUBLISHED: True, kinds.NOT_PUBLISHED: False}
_STEP_ENDS: dict[str, bool] = {kinds.STEP_DONE: True, kinds.STEP_FAILED: False}


@value(frozen=True, kw_only=True)
class Span:
    trace: str
    id: str
    parent: str  # the id of the span around it; "": it is the root of its trace
    name: str
    begin: float
    end: float
    ok: bool | None = None  # None: neither success nor error, or not ended
    reason: str = ""
    calls_out: bool = False  # the span is a call to a vendor
    flags: str = "01"
    attributes: Attributes = {}  # noqa: RUF012 - a value is frozen, and this one is never changed


def of_run(ledger: Ledger, run: RunRow, around: Span | None = None) -> list[Span]:
    """The spans of a run. `around`: the attempt in which the run is nested. If callers from several traces started
    attempts, the run has a span in each of these traces."""
    ledger_id, roots, below = ledger.id, dict[str, Span](), list[Span]()
    entries = _by_attempt(ledger.journal.of_run(run.id))
    steps = _by_attempt(ledger.step_log.entries(run.id))
    for attempt in ledger.attempts(run.id):
        own = entries.get(attempt.attempt, [])
        caller = trace.read(_fact(own, kinds.STARTED, "trace"))
        root = _root(ledger_id, run, caller, around)
        roots.setdefault(root.trace, root)
        attempt_span = _attempt(ledger_id, run, attempt, root, own)
        below += [attempt_span, *_SpansBelow(ledger, run, attempt_span).spans(own, steps.get(attempt.attempt, []))]
        nested = ledger.history.nested_in(replace(run, grant=attempt.grant, started=attempt.started))
        below += [span for one in nested for span in of_run(ledger, one, attempt_span)]
    if not roots:
        root = _root(ledger_id, run, None, around)
        roots[root.trace] = root
    return [*roots.values(), *below]


def _root(ledger_id: str, run: RunRow, caller: TraceParent | None, around: Span | None) -> Span:
    trace_id, parent, flags = trace.trace_of(ledger_id, run.id), "", "01"
    if around:
        trace_id, parent, flags = around.trace, around.id, around.flags
    elif caller:
        trace_id, parent, flags = caller.trace, caller.span, caller.flags
    facts: Attributes = {
        "nightlatch.job": run.job, "nightlatch.run": run.id, "nightlatch.key": run.key, "nightlatch.slot": run.slot,
        "nightlatch.status": run.status, "nightlatch.ledger": ledger_id,
    }  # fmt: skip
    return Span(
        trace=trace_id, id=trace.run_span(ledger_id, run.id), parent=parent, name=f"run {run.job}", begin=run.created,
        end=run.ended or run.changed, ok=_is_ok(run.status), reason=run.reason, flags=flags,
        attributes=_without_empty(facts | _amounts(run.usage.by_unit())),
    )  # fmt: skip


def _attempt(ledger_id: str, run: RunRow, attempt: Attempt, root: Span, entries: list[Entry]) -> Span:
    started = next((entry.facts for entry in entries if entry.kind == kinds.STARTED), {})
    lost = next((entry.at for entry in entries if entry.kind == kinds.LOST), None)
    facts: Attributes = {
        "nightlatch.attempt": attempt.attempt, "nightlatch.token": attempt.token, "nightlatch.status": attempt.status,
        "host.name": attempt.holder.host, "nightlatch.program": started.get("program", ""),
        "nightlatch.commit": started.get("commit", ""), "nightlatch.definition": started.get("definition", ""),
    }  # fmt: skip
    if attempt.exit_code is not None:
        facts["process.exit.code"] = attempt.exit_code
    return Span(
        trace=root.trace, id=trace.attempt_span(ledger_id, run.id, attempt.attempt), parent=root.id,
        name=f"attempt {attempt.attempt}", begin=attempt.started, end=attempt.ended or lost or root.end,
        ok=_is_ok(attempt.status), reason=attempt.reason, flags=root.flags, attributes=_without_empty(facts),
    )  # fmt: skip


class _SpansBelow:
    """The spans below an attempt."""

    def __init__(self, ledger: Ledger, run: RunRow, attempt: Span) -> None:
        self._ledger, self._run, self._attempt = ledger, run, attempt
        self._spans: dict[str, Span] = {}  # by their ids, in their order

    def spans(self, entries: list[Entry], steps: list[Entry]) -> list[Span]:
        for entry in entries:
            facts = entry.facts
            if entry.kind == kinds.ITEMS_MOVED:
                self._items(entry)
            elif entry.kind == kinds.EFFECT_OF_RUN:
                status = facts.get("status", "")
                well = None if status == BEGUN else status == DONE
                self._record("effect", facts.get("key", ""), entry.at, well, facts.get("reason", ""))
            elif entry.kind in (kinds.PUBLISHING, *_PUBLISH_ENDS):
                self._record(
                    "publish", facts.get("target", ""), entry.at, _PUBLISH_ENDS.get(entry.kind), facts.get("reason", "")
                )
            elif entry.kind == kinds.AGENT:
                self._agent(entry)
        for entry in steps:
            well = _STEP_ENDS.get(entry.kind)
            self._record("step", entry.facts.get("key", ""), entry.at, well, entry.facts.get("reason", ""))
        open_ones = [span for span in self._spans.values() if span.ok is None]
        for span in open_ones:  # their end was not reported
            self._spans[span.id] = replace(span, end=max(self._attempt.end, span.begin))
        self._calls(entries)
        return list(self._spans.values())

    def _record(self, kind: str, name: str, at: float, well: bool | None, reason: str = "") -> None:
        """Record the beginning or end of a span. A span whose beginning was not reported has no length."""
        id_ = trace.child_span(self._attempt.id, kind, name)
        before = self._spans.get(id_)
        if before is None:
            before = self._child(id_, self._attempt.id, f"{kind} {name}", at, at, {f"nightlatch.{kind}": name})
        self._spans[id_] = replace(before, end=max(at, before.begin), ok=well, reason=reason)

    def _child(self, id_: str, parent: str, name: str, begin: float, end: float, attributes: Attributes) -> Span:
        start = max(begin, self._attempt.begin)
        return Span(
            trace=self._attempt.trace, id=id_, parent=parent, name=name, begin=start, end=max(end, start),
            flags=self._attempt.flags, attributes=_without_empty(attributes),
        )  # fmt: skip

    def _items(self, entry: Entry) -> None:
        for status, text in entry.facts.items():
            for key in filter(None, text.split("\n")):
                self._record("item", key, entry.at, None if status == BEGUN else status == DONE)

    def _agent(self, entry: Entry) -> None:
        facts = entry.facts
        handle, name = facts.get("handle", ""), facts.get("agent", "") or facts.get("provider", "")
        id_ = trace.child_span(self._attempt.id, "agent", facts.get("launch", "") or handle)
        known: Attributes = {
            names.OPERATION: names.INVOKE_AGENT, names.PROVIDER: names.vendor(facts.get("provider", "")),
            names.AGENT_NAME: name, names.AGENT_ID: handle,
        }  # fmt: skip
        span = self._child(id_, self._attempt.id, f"{names.INVOKE_AGENT} {name}", entry.at, entry.at, known)
        begin = self._spans[id_].begin if id_ in self._spans else span.begin
        self._spans[id_] = replace(span, begin=begin, calls_out=True, ok=None, reason=facts.get("note", ""))

    def _calls(self, entries: list[Entry]) -> None:
        """Calls to models through the gateway: each has one report for each kind of token."""
        calls: dict[str, list[Entry]] = {}
        for entry in entries:
            if entry.kind == kinds.USAGE and entry.facts.get("call"):
                calls.setdefault(entry.facts["call"], []).append(entry)
        digests = sorted({one.facts["item"] for reports in calls.values() for one in reports if one.facts.get("item")})
        keys = self._ledger.items.keys(self._run.job, digests)
        for number, reports in calls.items():
            facts = reports[0].facts
            model, item = facts.get("model", ""), keys.get(facts.get("item", ""), "")
            parent = trace.child_span(self._attempt.id, "item", item) if item else self._attempt.id
            parent = parent if parent in self._spans else self._attempt.id
            by_kind: dict[str, int] = {}
            for one in reports:
                kind = one.facts.get("kind", "")
                by_kind[kind] = by_kind.get(kind, 0) + int(float(one.facts.get("tokens", 0)))
            in_doubt = "doubt" in by_kind
            known: Attributes = {
                names.OPERATION: names.CHAT, names.PROVIDER: names.provider_of(model), names.REQUEST_MODEL: model,
                names.AGENT_NAME: facts.get("agent", ""),
            }  # fmt: skip
            used = sum(float(one.facts.get("usd", 0)) for one in reports)
            known |= {} if in_doubt else names.tokens(by_kind)
            id_ = trace.child_span(self._attempt.id, "call", number)
            begin, end = float(facts.get("began") or reports[0].at), reports[-1].at
            known |= _amounts({"usd": used})
            span = self._child(id_, parent, f"{names.CHAT} {model}".rstrip(), begin, end, known)
            reason = "the end of the reply was not seen" if in_doubt else ""
            self._spans[id_] = replace(span, calls_out=True, ok=not in_doubt, reason=reason)


def _by_attempt(entries: Iterable[Entry]) -> dict[int, list[Entry]]:
    """A step names its attempt; any other entry belongs to the attempt that started last before it."""
    found: dict[int, list[Entry]] = {}
    number = 0
    for entry in entries:
        if entry.kind == kinds.STARTED or entry.kind in (*_STEP_ENDS, kinds.STEP_BEGUN):
            number = int(entry.facts.get("attempt", number) or number)
        found.setdefault(number, []).append(entry)
    return found


def _fact(entries: list[Entry], kind: str, name: str) -> str:
    return next((entry.facts.get(name, "") for entry in entries if entry.kind == kind), "")


def _is_ok(status: str) -> bool | None:
    if status == statuses.SUCCEEDED:
        return True
    return None if status in statuses.OPEN or status == statuses.CANCELLED else False


def _amounts(by_unit: dict[str, float]) -> Attributes:
    return {f"nightlatch.usage.{unit}": amount for unit, amount in by_unit.items() if amount}


def _without_empty(attributes: Attributes) -> Attributes:
    return {name: fact for name, fact in attributes.items() if fact != ""}
