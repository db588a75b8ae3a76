"""Start a supervised run from Python: start its supervisor process, and read the verdict."""

from __future__ import annotations

import inspect
import os
import sys

from ...core import advice, checks
from ...core.job import Job
from ...core.model import check_name
from ...core.options import CALL, as_keyword, rows
from ...core.target import Command
from ...errors import Error, UsageError, recreate
from ...store.url import ENV
from ..shared import importing
from ..shared.job import read
from ..shared.verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from subprocess import Popen
    from typing import Any, Unpack

    from ...core.keywords import RunOptions
    from ..shared.plan import Plan


def run(name: str, command: str | Sequence[str], *, store: str | None = None, **options: Unpack[RunOptions]) -> Verdict:
    """Run a command once for its key, bounded and recorded, as `nightlatch run NAME -- COMMAND` does.

        verdict = nightlatch.run("articles", ["./articles.sh", "--fast"], key="2026-11-16", timeout="30m")

    A list is the command's words; a string is a line for the shell. The options are those of `nightlatch run`, under
    the same names: `keep_awake=True` is `--keep-awake`. `slot` is a schedule, whose newest due time becomes the key.
    `budget` is "usd=2,usd/day=10" or {"usd": 2, "usd/day": 10}; calls to models are metered on their way, unless
    meter="report" (the command calls `nightlatch spend`) or meter="output". `env` is {"NAME": "value"}. Returns how
    the run ended, good or bad; raises `Busy` while another run holds the job, `InDoubt` if a person has to decide
    first, and other errors if the run could not be started.

    A supervisor process does the work, and goes on if this process is killed.
    """
    words = ["sh", "-c", checks.text(command, "the command")] if isinstance(command, str) else _words(command)
    target = Command(words=tuple(words))
    return supervised(read(check_name(name), target, options, CALL, as_keyword), store=store)


def signature(function: Callable[..., Any], where: str) -> inspect.Signature:
    """The function's signature, with the options of core/job.py in place of `**options`."""
    own = inspect.signature(function)
    kept = [parameter for parameter in own.parameters.values() if parameter.kind is not inspect.Parameter.VAR_KEYWORD]
    options = [
        inspect.Parameter(row.name, inspect.Parameter.KEYWORD_ONLY, default=row.typed)
        for row in rows(Job, where).values()
        if row.name not in own.parameters
    ]
    return own.replace(parameters=[*kept, *options])


run.__signature__ = signature(run, CALL)  # type: ignore[attr-defined]


def _words(command: Sequence[str]) -> list[str]:
    if not isinstance(command, list | tuple) or not command:
        raise UsageError(f"the command is {checks.shown(command)}: give a list of words, or a line for the shell")
    return [checks.text(word, "a word of the command", empty=True) for word in command]


def supervised(job: Job, *, store: str | None) -> Verdict:
    """Hand a job to `nightlatch run`, wait for its end, and read its verdict."""
    return Verdict(**_start(job, [], store))


def supervised_dry_run(job: Job, *, store: str | None) -> Plan:
    """As `supervised`, with --dry-run; returns the plan."""
    from ..shared.plan import read as read_plan

    return read_plan(_start(job, ["--dry-run"], store))


def _start(job: Job, flags: Sequence[str], store: str | None) -> dict[str, Any]:
    import json
    import subprocess
    import tempfile

    importing.check(job.name)
    if store is not None:
        checks.text(store, "store", empty=True)

    # In the environment, not on the command line: a store's URL may contain a password, and everybody can see
    # command lines.
    env = {**os.environ, **({ENV: store} if store else {})}
    with tempfile.TemporaryDirectory(prefix="nightlatch-") as folder:
        job_path, verdict_path = os.path.join(folder, "job"), os.path.join(folder, "verdict")
        with open(job_path, "w", encoding="utf-8") as opened:  # the folder is private
            json.dump(job.pack(), opened)
        words = ["run", job.name, f"--packed={job_path}", f"--verdict={verdict_path}", *flags]
        # -P: a file in the current folder must not shadow a module of the same name.
        code = _wait(subprocess.Popen([sys.executable, "-P", "-m", "nightlatch", *words], env=env))
        return _read_verdict(verdict_path, job.name, code)


def _wait(supervisor: Popen[bytes]) -> int:
    """Wait for the supervisor, even if we are interrupted: it has to end the run properly. Returns its exit code."""
    try:
        return supervisor.wait()
    except BaseException as stop:
        import signal

        # At a terminal, Ctrl-C has already reached the run's command; then the supervisor ignores this signal.
        supervisor.send_signal(signal.SIGINT if isinstance(stop, KeyboardInterrupt) else signal.SIGTERM)
        _wait(supervisor)
        raise


def _read_verdict(path: str, name: str, code: int) -> dict[str, Any]:
    import json

    try:
        with open(path, encoding="utf-8") as opened:
            facts: dict[str, Any] = json.load(opened)
    except FileNotFoundError:
        raise Error(
            f"the supervisor of {name} ended without a verdict (exit code {code}). The next start of the same key "
            f"finds out what became of it; or look: {advice.command('runs', '--job', name)}"
        ) from None
    del facts["version"]
    kind = facts.pop("error", "")
    if not kind:
        return facts
    raise recreate(kind, facts["reason"], code)
