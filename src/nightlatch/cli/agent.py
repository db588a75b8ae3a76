"""nightlatch agent run|list|show|cancel|attach"""

from __future__ import annotations

from ..core import options
from ..core.job import Job
from ..core.options import RUN
from ..errors import UsageError
from .agent_ask import add_ask
from .arguments import Parser
from .run import add_common

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .arguments import Namespace

_PURPOSE = """\
Agents that work at a vendor: launched once, watched from here, and really cancelled.

run       launch one as the run NAME: with a key, a timeout and a budget, as `nightlatch run` has them. The launch is
          an effect: if its reply is lost it is found again, or in doubt (76) and never repeated unasked. However the
          run ends, the agent is cancelled, and the vendor is seen to say so
list      agents that were not seen to end, whose run, since when, and what they used; with --all the newest of all,
          with --provider those at the vendor too that carry our label and that no run here knows
show      one agent, as the ledger and its vendor have it now
cancel    end one by its handle, and wait until the vendor says so
attach    RUN HANDLE: the launch of a run in doubt was this agent. Its next start goes on with it

The key of the vendor comes from the environment: ANTHROPIC_API_KEY, GEMINI_API_KEY, OPENAI_API_KEY. See docs/agents.md
for adapters of your own, in Python or as commands in any language."""

_EXAMPLES = """\
  nightlatch agent run article --provider google --agent antigravity-preview-09-2026 --input @prompt.md \\
      --set environment=remote --key 2026-11-17 --timeout 1h --budget usd=5 --set priced_as=gemini-3.1-pro-preview
  nightlatch agent run review --provider anthropic --agent agent_01 --set environment_id=env_01 --input 'Review it'
  nightlatch agent run digest --provider openai --agent gpt-5.4 --input @digest.md --stall 20m
  nightlatch agent run odd --provider command --input 'Go' --set launch=./launch --set poll=./poll \\
      --set cancel=./cancel
  nightlatch agent list
  nightlatch agent cancel sesn_011CZ
  nightlatch agent attach 7k3f v1_abc"""

OPTIONS = {name: row for name, row in options.rows(Job, RUN).items() if name != "input"}
_VERBS = ("run", "list", "show", "cancel", "attach")


def main(argv: list[str]) -> int:
    parser = Parser("agent", _PURPOSE, _EXAMPLES)
    parser.usage = "nightlatch agent run NAME --provider P --agent ID --input TEXT [options] | VERB [RUN] [HANDLE]"
    parser.add_argument("verb", choices=_VERBS, metavar="VERB", help=", ".join(_VERBS))
    parser.add_argument("names", metavar="NAME", nargs="*", help="run: the job; attach: RUN HANDLE; else the HANDLE")
    add_ask(parser)
    parser.add_argument("--all", action="store_true", help="list: those that ended too")
    parser.add_argument("--json", action="store_true", help="list, show: print JSON")
    parser.add_options(OPTIONS.values())
    add_common(parser)
    args = parser.parse_args(argv)
    verbs: dict[str, tuple[str, Callable[[Namespace], int]]] = {
        "run": ("NAME", _run), "list": ("", _look), "show": ("HANDLE", _look), "cancel": ("HANDLE", _look),
        "attach": ("RUN HANDLE", _look),
    }  # fmt: skip
    words, do = verbs[args.verb]
    if len(args.names) != len(words.split()):
        raise UsageError(
            f"nightlatch agent {args.verb} {words}: it takes {len(words.split())} names, not {len(args.names)}"
        )
    return do(args)


def _run(args: Namespace) -> int:
    from .agent_run import run

    return run(args, OPTIONS)


def _look(args: Namespace) -> int:
    from . import agent_look

    return int(getattr(agent_look, f"{args.verb}_agents" if args.verb == "list" else args.verb)(args))
