"""The flags of `nightlatch agent run` and `nightlatch batch` that say which agent to launch."""

from __future__ import annotations

import sys

from ..core.target import Command
from ..errors import UsageError
from ..system.light import sha256
from .arguments import Namespace, Parser


def add_agent_flags(parser: Parser) -> None:
    parser.add_argument(
        "--provider", metavar="P", help="anthropic, google, openai, command, or your adapter: package.module:Name"
    )
    parser.add_argument("--agent", metavar="ID", help="the agent, as the vendor names it; for openai a model")
    parser.add_argument("--input", metavar="TEXT", help="the agent's instructions; @FILE reads them from a file")
    parser.add_argument("--set", metavar="FIELD=VALUE", action="append", help="set a field of the vendor's launch "
                        "request (a dot for a nested one), or one of Nightlatch's own: every (time between polls), "
                        "deadline (of the launch), priced_as (a model); may be repeated")  # fmt: skip
    parser.add_argument("--waits", metavar="TIME", help="how long the agent may wait for a person's reply (default 0s)")


def target(args: Namespace) -> Command:
    """The command that drives the agent which the flags describe."""
    from ..core.agent import AgentRequest, read_fields

    if not args.provider or args.input is None:
        raise UsageError("name the vendor, the agent and its instructions: --provider P --agent ID --input TEXT")
    fields = read_fields(args.set) | ({"waits": args.waits} if args.waits else {})
    text, shown = _instructions(args.input)
    request = AgentRequest(provider=args.provider, agent=args.agent or "", input=text, fields=fields).check()
    return request.command(sys.executable, shown)


def _instructions(given: str) -> tuple[str, str]:
    """The instructions, and what to record instead: the name and digest of @FILE, or "" to record the text."""
    if not given.startswith("@") or given.startswith("@@"):
        return given.removeprefix("@") if given.startswith("@@") else given, ""
    try:
        with open(given[1:], encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--input {given}: the file cannot be read ({error}). Write @@ for a plain @") from None
    return text, f"{given} (sha256 {sha256(text.encode()).hexdigest()[:12]})"
