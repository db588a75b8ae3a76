"""nightlatch agent list, show, cancel and attach"""

from __future__ import annotations

import json
import sys
import time

from ..agents import ending, providers
from ..agents.seam import Unclear, can
from ..core import advice
from ..core.effects import BEGUN, IN_DOUBT
from ..core.printable import printable
from ..core.value import replace
from ..errors import Error, InDoubt, UsageError
from ..ledger import open_for
from ..ledger.agents import AgentRow
from ..observe import agent_views
from ..observe.agent_views import AgentView
from ..observe.reader import NEEDS_DECISION, StoreReader
from ..runtime.shared.effect_records import resolve
from ..runtime.supervisor.afterwards import decide
from ..system import clock
from ..system.identity import person
from . import screen
from .arguments import Namespace
from .decisions import title
from .json_out import print_json
from .only_people import require_person
from .reading import open_reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..agents.seam import Adapter, Seen

_LIST_LIMIT = 50  # agents that `list --all` shows
_END_TIMEOUT = 60.0  # seconds for the vendor to confirm that an agent has ended
_VENDOR_LIST_AGE = 7 * 86_400  # seconds: older agents at the vendor are not listed


def _list(args: Namespace) -> int:
    reader = open_reader(args.store, listing=True)
    if args.all:
        shown = [agent_views.view(reader, row) for row in reader.ledger.agents.newest(_LIST_LIMIT)]
    else:
        shown = agent_views.open_agents(reader)
    if args.provider:
        shown = [one for one in shown if one.row.provider == args.provider]
    if args.json:
        for one in shown:
            print_json(one.facts())
    else:
        for line in screen.columns([_cells(one) for one in shown], elastic=(1,)):
            print(line)
        if not shown:
            print("no agents are known to be working")
    if args.provider:
        _print_unknown(reader, args)
    return 0


def _cells(agent: AgentView) -> list[str]:
    row = agent.row
    run_text = f"run {row.run} of {printable(row.job)} ({agent.run_status or 'no longer recorded'})"
    next_command = advice.text(agent.cancel) if agent.is_left else advice.command("show", row.run)
    spent = row.used.show() or "nothing yet"
    return [printable(row.handle), f"{row.provider} {printable(row.agent)}", row.status, run_text,
            screen.moment(row.began), spent, next_command]  # fmt: skip


def _print_unknown(reader: StoreReader, args: Namespace) -> None:
    """Print the vendor's agents that carry our label but belong to no run here."""
    every = can(providers.load(args.provider, {}), "every") if args.provider != "command" else None
    if every is None:
        print(f"nightlatch: {args.provider} offers no list of its agents", file=sys.stderr)
        return
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(clock.wall() - _VENDOR_LIST_AGE))
    try:
        found = [(handle, labels, status) for handle, labels, status in every(since) if "nightlatch_run" in labels]
    except Unclear as error:
        raise Error(f"{args.provider} does not list its agents: {error}") from None
    for handle, labels, status in found:
        if reader.ledger.agents.by_handle(handle):
            continue
        if args.json:
            print_json({"version": 1, "handle": handle, "provider": args.provider, "status": status,
                        "run": labels["nightlatch_run"], "known": False})  # fmt: skip
        else:
            cancel = advice.command("agent", "cancel", handle, "--provider", args.provider)
            print(f"{printable(handle)} is {printable(status)} for the run {printable(labels['nightlatch_run'])}, "
                  f"which has no record of it; to end it: {cancel}")  # fmt: skip


def _show(args: Namespace) -> int:
    reader, (handle,) = open_reader(args.store), args.names
    row = reader.ledger.agents.by_handle(handle)
    state, trouble = _poll(_adapter(row, handle, args), handle)
    facts = agent_views.view(reader, row).facts() if row else {"version": 1, "handle": handle}
    if state:
        facts |= {"status": state.status, "steps": state.steps, "answer": state.answer, "page": state.page,
                  "note": state.waits_for or state.reason}  # fmt: skip
    if args.json:
        print_json(facts | {"unclear": trouble})
        return 0
    print(f"agent {printable(handle)}: {facts.get('status', 'not known')}")
    lines = [("provider", row.provider if row else args.provider), ("agent", facts.get("agent")),
             ("run", facts.get("run")), ("page", facts.get("page")), ("note", facts.get("note")),
             ("usage", row.used.show() if row else ""), ("unclear", trouble)]  # fmt: skip
    screen.print_facts(lines)
    if state and state.answer:
        print("\n" + "\n".join(f"  | {printable(line)}" for line in state.answer.splitlines()))
    return 0


def _cancel(args: Namespace) -> int:
    reader, (handle,) = open_reader(args.store), args.names
    row = reader.ledger.agents.by_handle(handle)
    state, trouble = ending.end(_adapter(row, handle, args), handle, clock.now() + _END_TIMEOUT)
    if state is None:
        look = advice.command("agent", "show", handle)
        raise InDoubt(f"the vendor did not confirm the end of {handle}: {trouble}. Look: {look}")
    if row and row.ended is None:
        open_for(reader.url).agents.put(
            replace(row, status=state.status, ended=clock.wall(), changed=clock.wall()), person()
        )
    print(f"agent {printable(handle)}: its vendor reports that it is {state.status}")
    return 0


def _attach(args: Namespace) -> int:
    name, handle = args.names
    reader = open_reader(args.store)
    run = reader.run(name)
    require_person(f"agent attach {name}", run.job, args.store)
    prefix = f"agent/{args.key}/" if args.key else "agent/"
    undecided = [one for status in (IN_DOUBT, BEGUN) for one in reader.ledger.effects.every(status, run.job)]
    found = [one.key for one in undecided if one.key.startswith(prefix)]
    if not found:
        raise UsageError(f"{title(run)} has no launch in doubt, so there is nothing to attach")
    if len(found) > 1:
        raise UsageError(f"{title(run)} has {len(found)} launches in doubt: add --key KEY")
    resolve(found[0], "done", by=person(), scope=run.job, store=reader.url, wait=5.0, result=json.dumps(handle))
    if reader.status(run) in NEEDS_DECISION:
        decide.resolve(run, decide.AGAIN, person(), ledger=open_for(reader.url), store=reader.store, wait=5.0)
    print(f"{title(run)} continues with the agent {printable(handle)} when it is started again")
    return 0


VERBS = {"list": _list, "show": _show, "cancel": _cancel, "attach": _attach}


def _adapter(row: AgentRow | None, handle: str, args: Namespace) -> Adapter:
    if row is None and not args.provider:
        raise UsageError(f"the agent {printable(handle)} belongs to no run here: name its vendor, --provider P")
    return providers.load(row.provider if row else args.provider, json.loads(row.fields or "{}") if row else {})


def _poll(adapter: Adapter, handle: str) -> tuple[Seen | None, str]:
    """What the vendor reports about the agent; None and the reason if that is unclear."""
    try:
        return adapter.poll(handle), ""
    except Unclear as error:
        return None, str(error)
