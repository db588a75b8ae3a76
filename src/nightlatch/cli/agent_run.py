"""nightlatch agent run: the job whose command is an agent's driver."""

from __future__ import annotations

from collections.abc import Iterable

from ..core.agent import for_agent
from ..core.job import Job
from ..core.options import RUN
from ..runtime.shared.job import read, with_newest_slot
from .agent_flags import target
from .arguments import Namespace
from .run import print_default_timeout, run_job


def run(args: Namespace, options: Iterable[str]) -> int:
    (args.name,) = args.names
    return run_job(args, lambda: _job(args, options))


def _job(args: Namespace, options: Iterable[str]) -> Job:
    values = args.given_values(options)
    job = with_newest_slot(read(args.name, target(args), for_agent(values), RUN))
    print_default_timeout(args, values)
    return job
