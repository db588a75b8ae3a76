"""nightlatch budget"""

from __future__ import annotations

from ..core import advice, budget, statuses
from ..errors import UsageError
from ..ledger import open_for
from ..system.identity import person
from .arguments import Parser
from .decisions import title
from .only_people import require_person
from .reading import open_reader

_PURPOSE = """\
Set the budget of a run, from any machine that shares its ledger.

An active run gets the new budget within seconds; calls that the old budget refused are then allowed. Units that you do
not name keep their caps. Later attempts of the run use the new budget too; the job's own budget does not change."""

_EXAMPLES = """\
  nightlatch budget 7k3f usd=4
  nightlatch budget 7k3f usd=4 tokens=2000000"""


def main(argv: list[str]) -> int:
    parser = Parser("budget", _PURPOSE, _EXAMPLES)
    parser.add_argument("run", metavar="RUN", help="the run, or the beginning of its id")
    parser.add_argument("caps", metavar="CAP", nargs="+", help="the new cap, as in usd=4 or tokens/day=500000")
    args = parser.parse_args(argv)
    caps = budget.parse(",".join(args.caps))
    reader = open_reader(args.store)
    run = reader.run(args.run)
    require_person(f"budget {args.run}", run.job, args.store)
    if run.status == statuses.SUCCEEDED:
        raise UsageError(f"{title(run)} has succeeded: it makes no more calls")
    before = budget.parse(found) if (found := open_for(reader.url).decisions.budget_of(run.id)) else ()
    text = ",".join(map(str, budget.changed(before, caps)))
    open_for(reader.url).decisions.set_budget(run, text, person())
    print(f"{title(run)} has the budget {text}: {advice.command('show', run.id)}")
    return 0
