"""A receiver of OTLP over HTTP: decodes what it was sent with the protocol's own messages."""

from __future__ import annotations

import gzip
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.receivers import HttpReceiver


class SpanTree:
    """All spans that a receiver has accepted, by their ids."""

    def __init__(self, receiver: HttpReceiver) -> None:
        self.spans: dict[str, Any] = {}
        self.sent = 0
        self.services: set[str] = set()
        for path, headers, body in receiver.requests:
            if body not in receiver.accepted:
                continue
            assert path == "/v1/traces" and headers["content-type"] == "application/x-protobuf"
            request = ExportTraceServiceRequest()
            request.ParseFromString(gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body)
            for resource in request.resource_spans:
                facts = {one.key: one.value.string_value for one in resource.resource.attributes}
                self.services.add(facts["service.name"])
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        self.sent += 1
                        self.spans[span.span_id.hex()] = span

    @property
    def traces(self) -> set[str]:
        return {span.trace_id.hex() for span in self.spans.values()}

    def name(self, span_id: str) -> str:
        return str(self.spans[span_id].name)

    def parents(self) -> dict[str, str]:
        """The name of each span's parent by its own name; "" for one that is not here."""
        known = {id_: span.name for id_, span in self.spans.items()}
        return {span.name: known.get(span.parent_span_id.hex(), "") for span in self.spans.values()}

    def attributes(self, name: str) -> dict[str, object]:
        (span,) = [span for span in self.spans.values() if span.name == name]
        return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}
