"""nightlatch traces"""

from __future__ import annotations

import os

from ..core.printable import printable
from ..errors import UsageError
from ..observe.traces import export, follow, spans
from ..observe.traces.spans import Span
from ..store import url
from . import screen
from .arguments import Parser
from .json_out import print_json
from .reading import existing_url, open_reader

_PURPOSE = """\
Show a run as a trace: the run, its attempts, their items, steps, effects and calls to models, with the ids that an
OpenTelemetry receiver sees. A run's command gets a TRACEPARENT; if the caller has one, the run joins that trace.

`traces send` sends every finished run that was not sent yet, `traces send RUN` sends that one again, by OTLP over HTTP.
If OTEL_EXPORTER_OTLP_ENDPOINT is set, `serve` and finished runs do that automatically. All settings are OTEL_*
variables. Needs OpenTelemetry (pip install 'nightlatch[otel]')."""

_EXAMPLES = """\
  nightlatch traces 7k3f
  OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 nightlatch traces send 7k3f"""


def main(argv: list[str]) -> int:
    parser = Parser("traces", _PURPOSE, _EXAMPLES)
    parser.usage = "nightlatch traces (RUN | send [RUN]) [options]"
    parser.add_argument("what", metavar="WHAT", help="a run, or send")
    parser.add_argument("run", metavar="RUN", nargs="?", help="send only this one, again")
    parser.add_flag("--follow", "send: keep sending until standard input is closed and nothing is left")
    parser.add_flag("--json", "one JSON object per span")
    args = parser.parse_args(argv)
    if args.what == "send":
        return _send(args.store, args.run, keep_sending=args.follow)
    if args.run:
        raise UsageError(f"unexpected argument {args.run!r}: only `nightlatch traces send` takes a second one")
    reader = open_reader(args.store)
    found = spans.of_run(reader.ledger, reader.run(args.what))
    for line in [] if args.json else _tree(found):
        print(line)
    for span in found if args.json else []:
        print_json({"version": 1, **span.__dict__})
    return 0


def _send(store: str | None, run: str | None, *, keep_sending: bool) -> int:
    if not export.is_wanted(os.environ):
        raise UsageError("traces have no receiver: set OTEL_EXPORTER_OTLP_ENDPOINT, as in http://127.0.0.1:4318")
    try:
        if run:
            reader = open_reader(store)
            sent = export.Exporter().send(spans.of_run(reader.ledger, reader.run(run)))
            print(f"{sent} span{'' if sent == 1 else 's'} sent")
        elif keep_sending:
            follow.forever(url.resolve(store), stop=0)
        else:
            follow.until_sent(existing_url(store))
    except export.NotSent as failed:
        raise UsageError(str(failed)) from None
    return 0


def _tree(found: list[Span]) -> list[str]:
    """A line for each span, indented below its parent, with how long it took."""
    by_parent: dict[tuple[str, str], list[Span]] = {}
    known = {(span.trace, span.id) for span in found}
    for span in found:
        parent = span.parent if (span.trace, span.parent) in known else ""
        by_parent.setdefault((span.trace, parent), []).append(span)
    lines: list[str] = []

    def add_line(span: Span, depth: int) -> None:
        mark = screen.paint(" failed", screen.RED) if span.ok is False else ""
        took = screen.paint(f"{span.end - span.begin:.3f}s", screen.DIM)
        lines.append(f"{'  ' * depth}{printable(span.name)}  {took}{mark}  {screen.paint(span.id, screen.DIM)}")
        for child in sorted(by_parent.get((span.trace, span.id), []), key=lambda one: one.begin):
            add_line(child, depth + 1)

    for trace, parent in list(by_parent):
        if not parent:
            lines.append(f"trace {trace}")
            for root in by_parent[trace, ""]:
                add_line(root, 1)
    return lines
