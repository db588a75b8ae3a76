"""nightlatch gate show|adopt|forget|install|remove|install-hook"""

from __future__ import annotations

import time
from typing import cast

from .. import gates
from ..core import advice
from ..core.printable import printable
from ..core.protocols import Inspectable
from ..errors import UsageError
from ..observe.gate_views import GateView, gate_view
from ..store import url
from .arguments import Namespace, Parser
from .json_out import print_json
from .only_people import require_person

_PURPOSE = """\
Inspect and manage the gate that keeps stale holders from writing to TARGET: a path on this machine, a URL, or the
gate of a database (postgresql://user@host/database#articles, sqlite:////path/to/file#articles).

show      show the target's marks (each lease's newest token), refused writes, and tables with triggers
adopt     hand the gate over to this store, when it replaces another store for good. Holders of the other store are
          refused from then on; first make sure that none of them is still working
forget    stop sealing a target that is gone for good. Each new holder of --lease NAME seals all gates of that lease,
          and if one cannot be sealed, nobody gets the lease
install   put triggers on tables of a database: SQL without the newest holder's token then fails there, also from
          psql and the sqlite3 shell
remove    remove the triggers: from each --table, or from all tables. The marks stay
install-hook  TARGET is a bare git repository: it then refuses pushes to --branch B that do not move the fence too,
          from every client. Optional: `nightlatch push` needs no hook"""

_EXAMPLES = """\
  nightlatch gate show /srv/www/report.html
  nightlatch gate show s3://bucket/latest.parquet --json
  nightlatch gate adopt /srv/www/report.html
  nightlatch gate install postgresql://app@db/site#articles --table articles --table authors
  nightlatch gate remove postgresql://app@db/site#articles
  nightlatch gate forget /srv/www/report.html --lease reports
  nightlatch gate install-hook /srv/git/site.git --branch main"""

_VERBS = ("show", "adopt", "forget", "install", "remove", "install-hook")


def main(argv: list[str]) -> int:
    parser = Parser("gate", _PURPOSE, _EXAMPLES)
    parser.add_argument("verb", choices=_VERBS, metavar="VERB", help=", ".join(_VERBS))
    parser.add_argument("target", metavar="TARGET", help="a path, or the URL of a gate")
    parser.add_flag("--json", "show: print one JSON object")
    parser.add_argument(
        "--table", metavar="T", action="append", default=[], help="install, remove: a table; may be repeated"
    )
    parser.add_argument("--name", metavar="NAME", help="install, remove: the gate's name, if TARGET has no #NAME")
    parser.add_argument("--lease", metavar="NAME", help="forget: the lease it is registered under")
    parser.add_argument(
        "--branch", metavar="B", action="append", default=[], help="install-hook: a branch; may be repeated"
    )
    args = parser.parse_args(argv)
    if not args.target:
        raise UsageError("TARGET is empty: name a path, or the URL of a gate")
    if args.verb in ("install", "remove"):
        return (_install if args.verb == "install" else _remove)(_database_gate(args), args.table)
    if args.verb == "install-hook":
        return _install_hook(args.target, args.branch)
    if args.verb in ("adopt", "forget"):
        require_person(f"gate {args.verb} {args.target}", args.lease or "", args.store)
    if args.verb == "forget":
        return _forget(args)
    if args.table or args.name:
        raise UsageError("--table and --name are for install and remove")
    gate = _inspectable_gate(args.target)
    if args.verb == "show":
        view = gate_view(gate, args.target)
        if args.json:
            print_json(view.facts())
        else:
            _show(view)
        return 0
    store = url.connect(args.store)
    adopted = gate.adopt(store.id)
    marks = f"{adopted} mark{'' if adopted == 1 else 's'}"
    print(f"{printable(args.target)}: {marks} adopted for {store.url} (store id {store.id[:8]})")
    return 0


def _forget(args: Namespace) -> int:
    if not args.lease:
        raise UsageError("which lease? nightlatch gate forget TARGET --lease NAME")
    # A gate whose target is gone may not open any more; then TARGET must be the URL that it was registered with.
    gate_url = args.target if "://" in args.target else gates.at(args.target).url
    if not url.connect(args.store).unregister(args.lease, gate_url):
        raise UsageError(f"{gate_url} is not registered under {args.lease}; use the URL that the error message shows")
    print(f"holders of {args.lease} no longer seal {printable(gate_url)}")
    return 0


def _install_hook(repository: str, branches: list[str]) -> int:
    from ..gates.git_hook import install

    if not branches:
        raise UsageError("which branch? nightlatch gate install-hook REPO --branch main")
    print(f"{install(repository, branches)}: from now on, pushes to {', '.join(branches)} must go through the gate")
    return 0


def _database_gate(args: Namespace) -> gates.Sql:
    database, _, name = args.target.partition("#")
    if args.name and name and args.name != name:
        raise UsageError(f"the gate is named twice: #{name} and --name {args.name}")
    name = args.name or name or (args.table[0] if len(args.table) == 1 else "")
    if not name:
        raise UsageError(f"name the gate: {database}#articles, or --name articles")
    return gates.Sql(name, database)


def _install(gate: gates.Sql, tables: list[str]) -> int:
    gate.install(*tables)
    print(f"{gate.url}: " + (f"{', '.join(tables)} guarded" if tables else "ready for use; no table is guarded"))
    return 0


def _remove(gate: gates.Sql, tables: list[str]) -> int:
    removed = gate.remove(*tables)
    if tables and not removed:
        raise UsageError(f"{gate.url} does not guard {', '.join(tables)}; to list its tables: nightlatch gate show")
    print(f"{gate.url}: {', '.join(removed) or 'no table'} no longer guarded; the marks are kept")
    return 0


def _inspectable_gate(target: str) -> Inspectable:
    gate = gates.at(target)
    if not hasattr(gate, "standing"):
        raise UsageError(f"{target} is a gate that cannot be inspected: it keeps no marks that can be read")
    return cast("Inspectable", gate)


def _show(view: GateView) -> None:
    print(f"gate     {printable(view.url)}")
    if not view.marks:
        absent = " (it does not exist)" if view.missing else ""
        target = printable(view.target)
        print(f"no mark  no holder of a lease has sealed or written {target} yet{absent}: it refuses nobody")
        print(f"         to protect it: {advice.text(view.first_seal)}")
    for name, found in view.marks.items():
        print(
            f"mark     {printable(name)}  token {found.mark.token}  {printable(found.by)}  since {_time(found.at)}  "
            f"store {printable(found.mark.store[:8])}"
        )
    for table in view.tables:
        print(f"guards   {printable(table)}")
    for one in view.unguarded:
        print(f"open     {printable(one.table)}  not guarded yet: {advice.text(one.install)}")
    for refusal in view.refusals:
        why = f"the mark had token {refusal.current}" if refusal.current else "fenced from another store"
        write = f"{printable(refusal.name)}  token {refusal.offered}  {printable(refusal.by)}"
        print(f"refused  {write}  at {_time(refusal.at)}  ({why})")


def _time(wall: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(wall))
