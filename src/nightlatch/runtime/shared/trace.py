"""W3C trace context without an SDK: ids are hashes of ledger, run and attempt, so each process that knows these derives
the same span, and a span that is sent twice has the same id."""

from __future__ import annotations

from ...core.value import value
from ...system.light import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

ENV = "TRACEPARENT"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_HEX = frozenset("0123456789abcdef")
_SIZES = (2, 32, 16, 2)  # version, trace, span, flags


@value(frozen=True, kw_only=True)
class TraceParent:
    """A span, as it is passed on to what is started in it."""

    trace: str
    span: str
    flags: str = "01"

    def __str__(self) -> str:
        return f"00-{self.trace}-{self.span}-{self.flags}"


def read(text: str) -> TraceParent | None:
    """The span that a `traceparent` names; None if it is not valid, or names no trace."""
    parts = text.split("-")
    version, trace, span, flags = parts[:4] if len(parts) >= 4 else ("", "", "", "")
    sizes = tuple(map(len, (version, trace, span, flags)))
    if sizes != _SIZES or not _HEX.issuperset(version + trace + span + flags) or version == "ff":
        return None
    if not trace.strip("0") or not span.strip("0") or (version == "00" and len(parts) > 4):
        return None
    return TraceParent(trace=trace, span=span, flags=flags)


def has_receiver(environment: Mapping[str, str]) -> bool:
    """Does the environment name a receiver for traces?"""
    return any(environment.get(name) for name in _ENDPOINTS)


def of_caller(environment: Mapping[str, str]) -> str:
    """The `traceparent` of the caller; "" without a valid one."""
    caller = read(environment.get(ENV, ""))
    return str(caller) if caller else ""


def trace_of(ledger: str, run: str) -> str:
    """The trace of a run whose caller has none."""
    return _hash(ledger, run)[:32]


def run_span(ledger: str, run: str) -> str:
    return _hash(ledger, run, "run")[:16]


def attempt_span(ledger: str, run: str, attempt: int) -> str:
    return _hash(ledger, run, "attempt", str(attempt))[:16]


def child_span(parent: str, kind: str, name: str) -> str:
    """The id of a span below the attempt's, or below another child span."""
    return _hash(parent, kind, name)[:16]


def for_command(ledger: str, run: str, attempt: int, caller: str) -> str:
    """The `traceparent` for the attempt's command, whose spans are below the attempt's."""
    parent = read(caller)
    trace, flags = (parent.trace, parent.flags) if parent else (trace_of(ledger, run), "01")
    return str(TraceParent(trace=trace, span=attempt_span(ledger, run, attempt), flags=flags))


def for_item(environment: Mapping[str, str], key: str) -> dict[str, str]:
    """The variables for an item's command, from those of the batch's driver."""
    attempt = read(environment.get(ENV, ""))
    if attempt is None:
        return {}
    return {ENV: str(TraceParent(trace=attempt.trace, span=child_span(attempt.span, "item", key), flags=attempt.flags))}


def _hash(*parts: str) -> str:
    return sha256("\n".join(parts).encode(errors="surrogateescape")).hexdigest()
