"""nightlatch agent run|list|show|cancel|attach"""

from __future__ import annotations

from ..core import options
from ..core.job import Job
from ..core.options import RUN
from ..errors import UsageError
from .agent_flags import add_agent_flags
from .arguments import Parser
from .run import add_common

_PURPOSE = """\
Run agents that a vendor hosts: launched once, watched from here, and really cancelled.

run       launch an agent as a run of the job NAME, with a key, a timeout and a budget, as in `nightlatch run`. The
          launch is an effect: if its reply is lost, the agent is looked up at the vendor, or the launch is in doubt
          (76); it is not repeated unless you say so. If the run is ended early, the agent is cancelled, and the vendor
          must confirm it
list      agents that have not ended as far as we know: their run, start and usage. With --all also those that ended;
          with --provider also agents at the vendor that carry our label but belong to no run here
show      one agent, as the ledger and its vendor show it now
cancel    end one by its handle, and wait until the vendor confirms it
attach    RUN HANDLE: RUN's launch is in doubt, and this is the agent that it created. The next start of RUN continues
          with it

The vendor's API key comes from the environment: ANTHROPIC_API_KEY, GEMINI_API_KEY, OPENAI_API_KEY. docs/agents.md
shows how to write an adapter, in Python or as commands in any language."""

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
_NAMES_OF_VERB = {"run": "NAME", "list": "", "show": "HANDLE", "cancel": "HANDLE", "attach": "RUN HANDLE"}


def main(argv: list[str]) -> int:
    parser = Parser("agent", _PURPOSE, _EXAMPLES)
    parser.usage = "nightlatch agent run NAME --provider P --agent ID --input TEXT [options]\nnightlatch agent list"
    parser.usage += "\nnightlatch agent show|cancel HANDLE\nnightlatch agent attach RUN HANDLE"
    parser.add_argument("verb", choices=_NAMES_OF_VERB, metavar="VERB", help=", ".join(_NAMES_OF_VERB))
    names_help = "run: the job's NAME; show, cancel: the agent's HANDLE; attach: a RUN and the HANDLE of its agent"
    parser.add_argument("names", metavar="NAME|HANDLE|RUN", nargs="*", help=names_help)
    add_agent_flags(parser)
    parser.add_flag("--all", "list: also agents that have ended")
    parser.add_flag("--json", "list, show: print JSON")
    parser.add_options(OPTIONS.values())
    add_common(parser)
    args = parser.parse_args(argv)
    expected = _NAMES_OF_VERB[args.verb].split()
    if len(args.names) != len(expected):
        usage = " ".join(("nightlatch agent", args.verb, *expected))
        raise UsageError(f"{len(args.names)} names given, {len(expected)} expected: {usage}")
    if args.verb == "run":
        from .agent_run import run

        return run(args, OPTIONS)
    from . import agent_look

    return agent_look.VERBS[args.verb](args)
