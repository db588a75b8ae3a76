"""nightlatch metrics"""

from __future__ import annotations

from ..config import place
from ..config.load import load
from ..system import printing
from .arguments import Parser
from .reading import open_reader

_PURPOSE = """\
Print metrics in the Prometheus format: runs, durations, usage, slots, refusals, budgets, alerts. They are read from
the ledger and the store at this moment; restarts and pruning do not reset counters. Needs the extra `metrics`
(docs/installing.md)."""

_EXAMPLES = """\
  nightlatch metrics
  nightlatch metrics > /var/lib/node_exporter/nightlatch.prom     # for the textfile collector, from cron"""


def main(argv: list[str]) -> int:
    args = Parser("metrics", _PURPOSE, _EXAMPLES).parse_args(argv)
    from ..observe import metrics  # needs the extra `metrics`; --help must work without it

    reader, file = open_reader(args.store), place.find()
    printing.verbatim(metrics.text(reader, load(file).jobs if file else None).decode())
    return 0
