"""nightlatch metrics"""

from __future__ import annotations

from ..config import place
from ..config.load import load
from ..system import printing
from .arguments import Parser
from .reading import open_reader

_PURPOSE = """\
Print metrics as Prometheus reads them: runs, durations, usage, slots, refusals, budgets, alerts. Read from ledger and
store at this moment; counters outlive restarts and retention. Needs the extra `metrics`
(docs/installing.md)."""

_EXAMPLES = """\
  nightlatch metrics
  nightlatch metrics > /var/lib/node_exporter/nightlatch.prom     # for the textfile collector, from cron"""


def main(argv: list[str]) -> int:
    args = Parser("metrics", _PURPOSE, _EXAMPLES).parse_args(argv)
    from ..observe import metrics  # it needs an extra, which the help does not

    reader, file = open_reader(args.store), place.find()
    printing.verbatim(metrics.text(reader, load(file).jobs if file else None).decode())
    return 0
