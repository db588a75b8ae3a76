"""nightlatch agent run: the job whose command is an agent's driver."""

from __future__ import annotations

import sys

from ..core.agent import AgentAsk, read_fields
from ..core.job import METERS, Job
from ..core.options import RUN
from ..errors import UsageError
from ..runtime.shared.job import now, read
from .run import name_timeout, run_job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..core.target import Command
    from .arguments import Namespace


def run(args: Namespace, options: Iterable[str]) -> int:
    (args.name,) = args.names
    return run_job(args, lambda: _job(args, options))


def _job(args: Namespace, options: Iterable[str]) -> Job:
    values = for_agent(args.present(options))
    job = now(read(args.name, target(args), values, RUN))
    name_timeout(args, values)
    return job


def target(args: Namespace) -> Command:
    if not args.provider or args.input is None:
        raise UsageError("name the vendor and what the agent shall do: --provider P --agent ID --input TEXT")
    fields = read_fields(args.set) | ({"waits": args.waits} if args.waits else {})
    text, shown = content(args.input)
    asked = AgentAsk(provider=args.provider, agent=args.agent or "", input=text, fields=fields).check()
    return asked.command(sys.executable, shown)


def content(given: str) -> tuple[str, str]:
    """The input, and how it is recorded: of a file its name and digest."""
    if not given.startswith("@") or given.startswith("@@"):
        return given.removeprefix("@") if given.startswith("@@") else given, ""
    from ..system.light import sha256

    try:
        with open(given[1:], encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--input {given}: the file cannot be read ({error}). @@ begins a text with @") from None
    return text, f"{given} (sha256 {sha256(text.encode()).hexdigest()[:12]})"


def for_agent(values: dict[str, object]) -> dict[str, object]:
    """With the defaults of an agent's run: the vendor counts, and a lost attempt is taken up again."""
    progress = {"progress": ["report"]} if "stall" in values else {}
    return {"meter": METERS[1], "lost": "again", **progress, **values}
