"""Every exit code is one row: its name, its number, what it means, and which commands end with it.

Errors and statuses take their numbers from here; the help of each command and docs/commands.md are made from the rows.
"""

from __future__ import annotations

ROWS: list[Exit] = []

_EVERY_COMMAND = "*"
_SAME_AS = {"agent": "run", "retry": "run"}  # a command → the one whose exit codes it shares


class Exit(int):
    """An exit code. `meaning` is what the table in the docs says, `words[command]` what the help of a command says."""

    meaning: str
    words: dict[str, str]

    def __new__(cls, code: int, meaning: str, commands: str = "", /, **words: str) -> Exit:
        """`commands`: those for which the code has exactly this meaning; `words`: its narrower meaning for others."""
        row = super().__new__(cls, code)
        row.meaning = meaning
        row.words = dict.fromkeys(commands.split(), meaning) | words
        ROWS.append(row)
        return row

    @property
    def shown(self) -> str:
        return "its own" if self < 0 else str(int(self))


OWN = Exit(
    -1,
    "the command's exit code, if it ran to its end",
    "run lock",
    once="the command's exit code, if that proves that nothing was done",
    tick="the exit code of a run that did not succeed",
)
DONE = Exit(
    0,
    "done; or `skipped`: the key was already done",
    run="succeeded, or `skipped`: the key was already done",
    batch="all items are done",
    once="done, or `skipped`: it was already done",
    audit="the journal is intact",
    doctor="nothing fails, every promise held",
    status="shown, also when the default store was never used",
    runs="shown, also when the default store was never used",
    usage="shown, also when the default store was never used",
)
FAILED = Exit(
    1,
    "a batch has failed items; the journal is not intact; a promise does not hold on this machine",
    batch="some items failed",
    doctor="with --prove: a promise did not hold",
    audit="the journal is not intact, or a head is not in it",
    service="status: it is not running",
    status="with --exit-code: something needs you",
    alerts="test: a transport did not take the message",
)
USAGE = Exit(
    64,
    "invalid usage",
    _EVERY_COMMAND,
    cancel="there is no such run, or it has ended",
    budget="there is no such run, or it has succeeded",
    retry="there is no such run, or nothing to retry",
    ack="there is no such run, or nothing to mark as seen",
    resolve="nothing matches, several things match, or there is nothing to resolve",
    show="there is no such run, plan or store",
    status="invalid usage, or there is no such store",
    runs="invalid usage, or there is no such store",
    usage="invalid usage, or there is no such store",
)
INPUT_CHANGED = Exit(65, "a key was used again with other input", "once")
UNREACHABLE = Exit(
    69,
    "the store, or a gate, cannot be reached or used",
    "run batch once lock lease budget status runs show logs slots usage pause unpause cancel ack retry resolve approve "
    "promote demote audit prune store migrate serve tick check",
    publish="DST or the store cannot be reached",
    push="the remote or the store cannot be reached",
    gate="the target cannot be reached",
    doctor="something fails",
    service="install: it did not start serving; the end of its log is printed",
)
PERMANENT = Exit(70, "`nightlatch fail --permanent`: another try would fail too", "fail")
STALE = Exit(
    73,
    "a stale token was refused, since a newer holder has taken over; nothing was written",
    "publish push",
    run="a gate refused its result, since a newer holder has taken over",
    approve="another process has taken over, and publishes it",
)
HELD = Exit(
    75,
    "another process holds the lease; or, from `nightlatch fail`, try again later",
    run="another process holds the lease, or the next try is not due yet",
    batch="another process is working on it",
    once="it is being done right now",
    lock="another process holds the lease",
    lease="another process holds the lease",
    store="remove: a lease is held",
    resolve="it is being worked on",
    approve="another process is publishing it",
    fail="another try may succeed",
)
NEEDS_PERSON = Exit(
    76,
    "in doubt, or needs a person for another reason",
    "run once",
    batch="some items are in doubt",
    push="a conflict that needs a person",
    cancel="it needs a decision instead: nightlatch resolve",
    ack="it needs a decision instead: nightlatch resolve",
    retry="it is in doubt: nightlatch resolve decides",
    resolve="without an outcome: it needs one",
    approve="something changed since the plan was made, so nothing was published",
)
NOT_ALLOWED = Exit(
    77,
    "not allowed: at this stage, or from inside a run",
    run="an effect or a write was refused: the job's stage holds it back",
    once="called in a run whose writes wait for an approval",
    publish="called in a run whose writes wait for an approval",
    push="called in a run whose writes wait for an approval",
    approve="not allowed from inside a run",
    promote="evidence is missing, or it was called from inside a run",
    budget="not allowed from inside a run",
    store="remove: not allowed from inside a run",
    unpause="not allowed from inside a run",
    resolve="not allowed from inside a run",
    check="--apply: not allowed from inside a run",
    slots="--from: not allowed from inside a run",
    gate="adopt, forget: not allowed from inside a run",
    lease="raise, release --force: not allowed from inside a run",
)
CONFIG = Exit(78, "bad configuration", "run retry check serve tick service")
CANCELLED = Exit(120, "cancelled", "run", approve="it was cancelled meanwhile, and nothing was published")
OVER_BUDGET = Exit(121, "over budget", "run batch")
STALLED = Exit(122, "stalled", "run")
LEASE_LOST = Exit(
    123,
    "the lease was lost",
    "run batch lock",
    once="it was not started: the lease was lost before its intent was recorded",
    lease="not held under this grant",
    publish="the lease is not held any more",
    push="the lease is not held any more",
    approve="the lease was lost; approve it again",
)
TIMED_OUT = Exit(124, "timed out", "run", once="it was not started: it timed out before its intent was recorded")
OURS = Exit(125, "Nightlatch itself failed", _EVERY_COMMAND)
NOT_EXECUTABLE = Exit(126, "the command cannot be executed", "run once lock")
NOT_FOUND = Exit(127, "the command was not found", "run once lock")
INTERRUPTED = Exit(
    130, "interrupted by Ctrl-C", "run lock once", batch="interrupted by Ctrl-C; items in flight have finished"
)
TERMINATED = Exit(
    143,
    "ended by SIGTERM; 128 + N when signal N ended the command",
    "run lock once",
    batch="ended by a signal, as in a shutdown: items in flight were ended and have failed",
)


def of(command: str) -> list[tuple[str, str]]:
    """The exit codes of a command, each with its meaning there: (code, words)."""
    names = (command, _SAME_AS.get(command, command), _EVERY_COMMAND)
    found = [(row, next((row.words[name] for name in names if row.words.get(name)), "")) for row in ROWS]
    return [(row.shown, words) for row, words in found if words]
