"""Spans as OTLP over HTTP, by OpenTelemetry's own exporter (an extra: pip install 'nightlatch[otel]'). The OTEL_*
variables set the receiver, the headers and the sampling."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ... import __version__
from ...errors import UsageError
from ...runtime.shared import trace
from . import names
from .spans import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan

_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PER_REQUEST = 512  # spans
_ID_RANGE = 1 << 64  # sampling compares half of a trace id, 64 bits


class NotSent(Exception):
    """The receiver did not accept the spans; they may be sent again."""


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Does the environment name a receiver of traces?"""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER", "otlp")
    return "otlp" in exporter.split(",") and trace.has_receiver(environment)


class Exporter:
    def __init__(self) -> None:
        protocol = next((os.environ[name] for name in _PROTOCOLS if os.environ.get(name)), "http/protobuf")
        if protocol != "http/protobuf":
            raise UsageError(f"traces are sent by http/protobuf only; {_PROTOCOLS[-1]} is {protocol}")
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        except ImportError:
            raise UsageError("traces need OpenTelemetry: pip install 'nightlatch[otel]'") from None
        resource = Resource.create()
        if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
            resource = resource.merge(Resource({SERVICE_NAME: "nightlatch"}))
        self._resource, self._exporter = resource, OTLPSpanExporter()

    def send(self, spans: Sequence[Span]) -> int:
        """Send the spans that are sampled; returns how many. Raises `NotSent`."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        wanted = [_converted(span, self._resource) for span in spans if is_sampled(span, os.environ)]
        for start in range(0, len(wanted), _PER_REQUEST):
            if self._exporter.export(wanted[start : start + _PER_REQUEST]) is not SpanExportResult.SUCCESS:
                raise NotSent("the receiver of traces did not take them; OTEL_EXPORTER_OTLP_ENDPOINT says where it is")
        return len(wanted)


def is_sampled(span: Span, environment: Mapping[str, str]) -> bool:
    """Does OTEL_TRACES_SAMPLER select the span? It decides by trace: all machines send a trace whole, or not at all."""
    sampler = environment.get("OTEL_TRACES_SAMPLER", "parentbased_always_on")
    if sampler.startswith("parentbased_") and not int(span.flags, 16) & 1:
        return False  # the caller does not sample this trace
    kind = sampler.removeprefix("parentbased_")
    if kind == "traceidratio":
        try:
            ratio = float(environment.get("OTEL_TRACES_SAMPLER_ARG", "1"))
        except ValueError:
            ratio = 1.0
        return int(span.trace[16:], 16) < round(ratio * _ID_RANGE)
    return kind != "always_off"


def _converted(span: Span, resource: Resource) -> ReadableSpan:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

    def context(span_id: str, *, remote: bool) -> SpanContext:
        flags = TraceFlags(int(span.flags, 16))
        return SpanContext(int(span.trace, 16), int(span_id, 16), is_remote=remote, trace_flags=flags)

    code = {True: StatusCode.OK, False: StatusCode.ERROR, None: StatusCode.UNSET}[span.ok]
    return ReadableSpan(
        name=span.name,
        context=context(span.id, remote=False),
        parent=context(span.parent, remote=False) if span.parent else None,
        resource=resource,
        attributes=span.attributes,
        kind=SpanKind.CLIENT if span.calls_out else SpanKind.INTERNAL,
        status=Status(code, span.reason if code is StatusCode.ERROR else None),
        start_time=round(span.begin * 1e9),
        end_time=round(span.end * 1e9),
        instrumentation_scope=InstrumentationScope("nightlatch", __version__, names.SCHEMA),
    )
