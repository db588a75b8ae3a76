"""How a run ended, as one value: for the exit code, the log line, and `--verdict FILE`."""

from __future__ import annotations

import os
import sys
import time

from ...core.printable import logfmt
from ...core.units import Amounts
from ...core.value import value
from ...system import durable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...errors import Error, Stop
    from ...ledger.records import RunRow
    from .plan import Plan

SKIPPED = "skipped"
LOG_CAP = 8 << 20  # bytes after which runs.log is renamed to runs.log.1


@value(frozen=True, kw_only=True)
class Verdict(Amounts):
    """`status` is the run's status, or `skipped` if its key was already done."""

    job: str
    key: str
    status: str
    exit_code: int
    run: str = ""
    slot: str = ""
    attempt: int = 0
    token: int = 0
    reason: str = ""
    elapsed: float = 0.0
    host: str = ""
    head: str = ""
    at: float = 0.0
    retry_after: float = 0.0  # seconds that the command asked to wait
    due: float = 0.0  # when the next try of a waiting run may be made
    held: float = 0.0  # until when it waits for an approval
    tried: bool = True  # False: nothing was begun, and this is how an earlier start ended

    def line(self) -> str:
        """The line that a finished run prints."""
        return logfmt(self._line_facts())

    def json_line(self) -> str:
        """The same as JSON, for runs.log."""
        import json

        return json.dumps({name: fact for name, fact in self._line_facts().items() if fact not in (None, "")})

    def _line_facts(self) -> dict[str, object]:
        return {
            "ts": _moment(self.at),
            "job": self.job,
            "run": self.run,
            "key": self.key,
            "slot": self.slot,
            "attempt": self.attempt or None,
            "token": self.token or None,
            "status": self.status,
            "exit": self.exit_code,
            "due": _moment(self.due) if self.due else None,
            "held": _moment(self.held) if self.held else None,
            "elapsed": f"{self.elapsed:.1f}s",
            **{unit: amount or None for unit, amount in self.by_unit().items()},
            "host": self.host,
            "reason": self.reason,
            "head": self.head,
        }

    def facts(self) -> dict[str, object]:
        return {"version": 1, **self.__dict__}


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def of(run: RunRow, *, exit_code: int, host: str, at: float, head: str = "", retry_after: float = 0.0) -> Verdict:
    return Verdict(
        job=run.job,
        key=run.key,
        status=run.status,
        exit_code=exit_code,
        run=run.id,
        slot=run.slot,
        attempt=run.attempt,
        token=run.token,
        reason=run.reason,
        elapsed=run.elapsed,
        **run.usage.by_unit(),
        host=host,
        head=head,
        at=at,
        retry_after=retry_after,
        due=run.due or 0.0,
        held=run.held or 0.0,
        tried=True,
    )


def append(folder: str, verdict: Verdict, *, as_json: bool = False) -> None:
    """Add a line to runs.log in one write, so that lines of runs that end together do not mix. A log that has become
    large is renamed to runs.log.1. One that cannot be written fails nothing: the ledger has the verdict."""
    path = os.path.join(folder, "runs.log")
    try:
        durable.private_folder(folder)
        _append(path, ((verdict.json_line() if as_json else verdict.line()) + "\n").encode())
    except OSError as error:
        print(f"nightlatch: {path} could not be written: {error.strerror}", file=sys.stderr)


def _append(path: str, line: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, line)
        if os.fstat(fd).st_size > LOG_CAP:
            _rotate(fd, path)
    finally:
        os.close(fd)


def _rotate(fd: int, path: str) -> None:
    """Rename the log, under a lock, and only if the path still names this file: of two runs that find it too large, the
    second must not replace runs.log.1 by the new, almost empty log."""
    import fcntl

    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        current = os.stat(path)
    except FileNotFoundError:
        return
    if os.path.samestat(current, os.fstat(fd)):
        os.replace(path, f"{path}.1")


def write(path: str, verdict: Verdict | Plan) -> None:
    """Write the verdict as JSON, whole or not at all."""
    import json

    durable.replace(os.path.abspath(path), json.dumps(verdict.facts()).encode() + b"\n", mode=0o644)


def write_error(path: str, job: str, key: str, error: Error | Stop) -> None:
    """Write that there is no verdict, and why: busy, in doubt, refused, unreachable. The field `error` is the class."""
    import json

    from ...errors import name_of

    facts = {
        "version": 1,
        "job": job,
        "key": key,
        "status": "none",
        "exit_code": error.exit_code,
        "reason": str(error),
        "error": name_of(error),
    }
    durable.replace(os.path.abspath(path), json.dumps(facts).encode() + b"\n", mode=0o644)
