"""nightlatch agent run: the job whose command is an agent's driver."""

from __future__ import annotations

from collections.abc import Iterable

from ..core.agent import for_agent
from ..core.job import Job
from ..core.options import RUN
from ..runtime.shared.job import now, read
from .agent_ask import target
from .arguments import Namespace
from .run import name_timeout, run_job


def run(args: Namespace, options: Iterable[str]) -> int:
    (args.name,) = args.names
    return run_job(args, lambda: _job(args, options))


def _job(args: Namespace, options: Iterable[str]) -> Job:
    values = args.present(options)
    job = now(read(args.name, target(args), for_agent(values), RUN))
    name_timeout(args, values)
    return job
