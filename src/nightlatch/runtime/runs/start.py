"""Starting a supervised run from Python: a supervisor process, and the verdict it leaves."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from ...core import advice, given
from ...core.model import check_name
from ...errors import (
    BadConfig,
    Busy,
    Error,
    GateUnreachable,
    InDoubt,
    LeaseLost,
    Nested,
    OtherStore,
    OverBudget,
    StaleToken,
    Stop,
    StoreUnreachable,
    UsageError,
)
from ...store.url import ENV
from .verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from subprocess import Popen
    from typing import Any

    from ..rehearsing.plan import Plan

    Budget = str | Mapping[str, float]

_RAISED = (
    BadConfig, Busy, GateUnreachable, InDoubt, Nested, OtherStore, OverBudget, StaleToken, StoreUnreachable, UsageError
)  # fmt: skip


def run(
    name: str,
    command: str | Sequence[str],
    *,
    key: str | None = None,
    slot: str | None = None,
    timeout: str | None = "1h",
    budget: Budget | None = None,
    store: str | None = None,
) -> Verdict:
    """Run a command once for its key, within bounds, recorded; as `nightlatch run NAME -- COMMAND` does.

        verdict = nightlatch.run("articles", ["./articles.sh", "--fast"], key="2026-11-16", timeout="30m")

    A list is the command's words, a text a line for the shell. `slot` is a schedule, whose newest due time
    becomes the key. `budget` is "usd=2,usd/day=10" or {"usd": 2, "usd/day": 10}; the command reports with
    `nightlatch spend`. Returns how it ended, whatever that is; raises `Busy` while another holds the job,
    `InDoubt` if a person has to decide first, and other errors if it could not be started.

    A supervisor process does the work: it goes on if this one is killed.
    """
    words = ["sh", "-c", given.text(command, "the command")] if isinstance(command, str) else _words(command)
    for option, value in {"key": key, "slot": slot, "timeout": timeout}.items():
        if value is not None:
            given.text(value, option)
    given.budget(budget)
    options = flags(
        key=key,
        slot=slot,
        timeout="none" if timeout is None else timeout,
        budget=budget or None,
        meter="report" if budget else None,
    )
    return supervised(name, options, words, store=store)


def _words(command: Sequence[str]) -> list[str]:
    if not isinstance(command, list | tuple) or not command:
        raise UsageError(f"the command is {given.shown(command)}: give a list of words, or a line for the shell")
    return [given.text(word, "a word of the command", empty=True) for word in command]


def flags(**options: object) -> list[str]:
    """As options of `nightlatch run`; None is left out, a sequence becomes a repeated option."""
    found = []
    for name, value in options.items():
        if isinstance(value, Mapping):
            value = ",".join(f"{cap}={amount}" for cap, amount in value.items())  # noqa: PLW2901
        values = value if isinstance(value, list | tuple) else [] if value is None else [value]
        if "" in values:
            raise UsageError(f"{name} is empty: give it a value, or leave it away")
        found += [f"--{name}={one}" for one in values]
    return found


def supervised(name: str, options: Sequence[str], command: Sequence[str], *, store: str | None) -> Verdict:
    """Start `nightlatch run`, wait for its end, and read its verdict."""
    return Verdict(**_start(name, options, command, store))


def rehearsed(name: str, options: Sequence[str], command: Sequence[str], *, store: str | None) -> Plan:
    """The same with --dry-run, and its plan."""
    from ..rehearsing.plan import read

    return read(_start(name, ["--dry-run", *options], command, store))


def _start(name: str, options: Sequence[str], command: Sequence[str], store: str | None) -> dict[str, Any]:
    import subprocess
    import tempfile

    check_name(name)
    if store is not None:
        given.text(store, "store", empty=True)

    # In the environment, not among the words: a store's URL may hold a password, and words are shown to everybody.
    env = {**os.environ, **({ENV: store} if store else {})}
    with tempfile.TemporaryDirectory(prefix="nightlatch-") as folder:
        file = os.path.join(folder, "verdict")
        words = ["run", name, f"--verdict={file}", *options, "--", *command]
        # -P: what lies in the current folder is not to be imported in the place of a module of the same name.
        code = _wait(subprocess.Popen([sys.executable, "-P", "-m", "nightlatch", *words], env=env))
        return _read(file, name, code)


def _wait(supervisor: Popen[bytes]) -> int:
    """Until it has ended, also when we are interrupted: it tidies up, and whoever killed it would lose the run."""
    try:
        return supervisor.wait()
    except BaseException as stop:
        import signal

        # Ctrl-C at a terminal has reached its command already; then it does not heed this one.
        supervisor.send_signal(signal.SIGINT if isinstance(stop, KeyboardInterrupt) else signal.SIGTERM)
        _wait(supervisor)
        raise


def _read(file: str, name: str, code: int) -> dict[str, Any]:
    import json

    try:
        with open(file, encoding="utf-8") as opened:
            facts: dict[str, Any] = json.load(opened)
    except FileNotFoundError:
        raise Error(
            f"the supervisor of {name} ended without a verdict (exit code {code}). The next start of the same key "
            f"finds out what became of it; or look: {advice.command('runs --job', name)}"
        ) from None
    del facts["version"]
    kind = facts.pop("error", "")
    if not kind:
        return facts
    raise _again(kind, facts["reason"], code)


def _again(kind: str, said: str, code: int) -> Error | Stop:
    """What the supervisor raised, on this side; what it carried besides its words stays there."""
    if kind == "LeaseLost":
        return LeaseLost(said, reason="taken")
    found = {one.__name__: one for one in _RAISED}.get(kind)
    if found:
        return found(said)
    error = Error(said)
    error.exit_code = code
    return error
