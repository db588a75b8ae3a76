"""nightlatch lease acquire|renew|release|show|list|raise"""

from __future__ import annotations

import os
import shlex
import sys

from ..core import advice, duration
from ..core.model import check_name
from ..core.printable import printable
from ..errors import Busy, LeaseLost, UsageError
from ..observe import lease_views
from ..observe.lease_views import LeaseView
from ..runtime.shared.leases.acquire import acquire
from ..runtime.shared.leases.lease import ttl_seconds
from ..store import held, url
from ..system import identity, printing, process
from .arguments import Namespace, Parser
from .json_out import print_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.protocols import Store

_PURPOSE = """\
Hold a lease across several commands of a script.

acquire   take the lease and seal the gates used under NAME. Prints NIGHTLATCH_LEASE, _TOKEN and _GRANT for `eval`, or
          a line that makes eval fail. The lease lasts for its TTL and is not renewed automatically. With --pid PID it
          ends early, when that process ends
renew     extend it by another TTL; name and grant come from the arguments or the environment
release   give it back; --force takes it from its holder: only if you know that the holder is gone
show      show one lease: token, holder, since, until; on a git store also keys that were begun and have not ended
list      list all leases
raise     raise the token above N, after the store was restored from an older backup"""

_EXAMPLES = """\
  held=$(nightlatch lease acquire nightly --ttl 10m --pid $$) || exit; eval "$held"
  nightlatch lease renew && ./deploy --token "$NIGHTLATCH_TOKEN"
  nightlatch lease release
  nightlatch lease list --json
  nightlatch lease raise nightly --above 1794783156909"""

_NOT_HELD = "(exit {})"  # printed for `eval` if the lease was not acquired; `eval` of nothing would succeed


def main(argv: list[str]) -> int:
    try:
        return _main(argv)
    except BaseException as error:
        if "acquire" in argv and "--json" not in argv:
            print(_NOT_HELD.format(getattr(error, "exit_code", 125)))
        raise


def _main(argv: list[str]) -> int:
    parser = Parser("lease", _PURPOSE, _EXAMPLES)
    parser.add_argument("verb", choices=list(_VERBS), metavar="VERB", help=", ".join(_VERBS))
    parser.add_argument("name", metavar="NAME", nargs="?", help="the lease (default: $NIGHTLATCH_LEASE)")
    parser.add_argument("--ttl", metavar="TIME", help="acquire, renew: how long it lasts (default 60s)")
    parser.add_argument(
        "--wait", metavar="TIME", default="0s", help="acquire: how long to wait if it is held (default 0s)"
    )
    parser.add_argument("--pid", metavar="PID", type=int, help="acquire: the process whose end frees the lease")
    parser.add_argument(
        "--gate", metavar="TARGET", action="append", default=[], help="acquire: seal this path or URL too"
    )
    parser.add_argument("--grant", help="renew, release: the grant (default: $NIGHTLATCH_GRANT)")
    parser.add_flag("--force", "release: even if another process holds it")
    parser.add_argument("--above", metavar="N", type=int, help="raise: the highest token known to have been given out")
    parser.add_flag("--held-ok", "acquire: if it is held, print nothing and exit 0")
    parser.add_flag("--json", "print JSON; for a list one object per line")
    args = parser.parse_args(argv)
    if args.verb == "list" and args.name:
        raise UsageError(f"`lease list` takes no name; for one lease: {advice.command('lease', 'show', args.name)}")
    named = args.name or os.environ.get("NIGHTLATCH_LEASE", "")
    if args.verb != "list" and not named:
        raise UsageError(f"which lease? nightlatch lease {args.verb} NAME")
    args.name = check_name(named) if args.verb != "list" else ""
    if args.verb == "raise" or (args.verb == "release" and args.force):
        from .only_people import require_person

        require_person(f"lease {args.verb} {args.name}", args.name, args.store)
    if args.verb in ("show", "list"):
        from .reading import existing_url  # show and list must not create a store

        return _VERBS[args.verb](url.connect(existing_url(args.store, listing=args.verb == "list")), args)
    return _VERBS[args.verb](url.connect(args.store), args)


def _acquire(store: Store, args: Namespace) -> int:
    if args.pid is not None and process.start_of(args.pid) is None:
        raise UsageError(f"--pid {args.pid}: there is no such process")
    if args.pid is not None and (pid := process.of_thread(args.pid)) != args.pid:
        raise UsageError(f"--pid {args.pid} is a thread, which may end before its process. Use {pid}")
    holder = identity.holder(pid=args.pid or 0)
    grant, ttl = identity.new_id(), ttl_seconds(args.ttl, store)
    try:
        granted, _ = acquire(store, args.name, grant, holder, ttl, duration.parse(args.wait, what="--wait"))
    except Busy as busy:
        if not args.held_ok:
            raise
        if sys.stderr.isatty():  # cron mails whatever is printed
            print(f"nightlatch: {printable(str(busy))}", file=sys.stderr)
        if not args.json:
            print(_NOT_HELD.format(busy.exit_code))
        return 0
    token = _seal(store, args, grant, granted.gates) if granted.gates or args.gate else granted.token
    facts = {"lease": args.name, "token": token, "grant": grant}
    if args.json:
        print_json({"version": 1, **facts})
    else:
        facts |= {"store": args.store} if args.store else {}  # the script's next commands must use the same store
        words = [f"NIGHTLATCH_{word.upper()}={shlex.quote(str(fact))}" for word, fact in facts.items()]
        printing.verbatim(f"export {' '.join(words)}\n")
    return 0


def _seal(store: Store, args: Namespace, grant: str, registered: tuple[str, ...]) -> int:
    from ..gates import at
    from ..runtime.child.inherited import Inherited
    from ..runtime.shared.leases.seal import seal_all

    try:
        lease = Inherited(store, args.name, grant)
        seal_all(lease, registered, [at(target) for target in args.gate])
    except BaseException:
        try:
            store.release(args.name, grant)  # a gate that cannot be sealed means no lease
        except LeaseLost:
            pass  # another holder has the lease already
        raise
    return lease.token


def _renew(store: Store, args: Namespace) -> int:
    record = store.read(args.name)
    ttl = ttl_seconds(args.ttl, store) if args.ttl or not record else record.ttl
    store.renew(args.name, _grant(args), ttl)
    return 0


def _release(store: Store, args: Namespace) -> int:
    if not args.force:
        store.release(args.name, _grant(args))
    elif not store.evict(args.name):
        print(f"{args.name} was already free")
    return 0


def _show(store: Store, args: Namespace) -> int:
    view = lease_views.lease(store, args.name)
    if view is None:
        raise UsageError(f"there is no lease {args.name} in {store.url}: {advice.command('lease', 'list')} lists all")
    if args.json:
        print_json(view.facts())
        return 0
    for word, text in _lines(view, store.folder):
        print(f"{word:<7}{printable(text)}")
    return 0


def _list(store: Store, args: Namespace) -> int:
    cells = []
    for view in lease_views.every(store):
        record = view.record
        if args.json:
            print_json(view.facts())
        left_behind = f"; {view.left_behind} begun and not ended" if view.left_behind else ""
        status = held.ending(record) if record.grant else f"free since {held.time_of(record.until)}"
        cells.append([record.name, str(record.token), str(record.holder) if record.grant else "", status + left_behind])
    if not args.json:
        from . import screen

        for line in screen.columns(cells, elastic=(2,)):
            print(line)
    return 0


def _raise(store: Store, args: Namespace) -> int:
    if args.above is None:
        raise UsageError("--above N is missing: the highest token that was handed out before the store was restored")
    if not 0 <= args.above < 2**53:
        raise UsageError(f"--above {args.above} is out of range: a token is between 0 and {2**53}")
    print(store.raise_token(args.name, args.above))
    return 0


_VERBS = {"acquire": _acquire, "renew": _renew, "release": _release, "show": _show, "list": _list, "raise": _raise}


def _grant(args: Namespace) -> str:
    grant = args.grant or os.environ.get("NIGHTLATCH_GRANT", "")
    if not grant:
        raise UsageError('which grant? Give --grant, or acquire with: eval "$(nightlatch lease acquire NAME)"')
    return str(grant)


def _lines(view: LeaseView, folder: str) -> list[tuple[str, str]]:
    record = view.record
    lines = [("lease", record.name), ("token", str(record.token))]
    if record.grant:
        lines += [
            ("holder", str(record.holder)),
            ("since", held.time_of(record.since)),
            ("until", held.ending(record).removeprefix("until ")),
        ]
        if view.holder_gone:
            lines += [("taken", "at once, by the next start here: its holder is gone")]
        elif record.left is None:
            lines += [("taken", held.takeover(record, folder))]
    else:
        lines += [("free", f"since {held.time_of(record.until)}; last held by {record.holder}")]
    for each in view.begun:
        one = each.begun
        began = f"{one.key}, attempt {one.attempt} on {one.host}, token {one.token}"
        decide = f"not ended. Decide: {advice.text(each.resolve)}" if each.resolve else "at work"
        lines.append(("begun", f"{began}: {decide}"))
    if record.holder.unproven:
        why = "started by the previous holder, and not proven gone when its TTL had passed"
        lines += [("left", f"{record.holder.unproven}: {why}")]
    return lines
