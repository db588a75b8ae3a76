"""Any vendor, by commands in any language: `launch`, `poll`, `cancel` and, optionally, `find`.

A command gets the handle as NIGHTLATCH_HANDLE and JSON on standard input (`launch` and `find`: the fields of `Ask`),
and prints JSON. Exit code 2 of `find` means that it cannot tell; any other code except 0 is a failure. A failed launch
may have started work: only exit code 1 with `{"launched": false}` on standard output proves that it has not.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess

from ..errors import UsageError
from .fields import without
from .seam import STATUSES, UNKNOWN, Ask, NotLaunched, Seen, Unclear, _Unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_NOT_LAUNCHED, _NOT_KNOWN = 1, 2  # exit codes
_TIMEOUT = 30.0  # seconds that a command may take
_VERBS = ("launch", "poll", "cancel", "find")


class CommandAdapter:
    lag = 5.0
    vendor = ""
    budgets = ("usd", "tokens")

    def __init__(self, fields: Mapping[str, Any]) -> None:
        missing = [verb for verb in ("launch", "poll", "cancel") if not fields.get(verb)]
        if missing:
            raise UsageError(f"the provider command needs {', '.join(missing)}: a command line for each")
        self._command_lines = {verb: fields[verb] for verb in _VERBS if fields.get(verb)}
        if "find" in self._command_lines:
            self.find = self._find  # an adapter without this attribute cannot find (`seam.can`)

    def launch(self, ask: Ask, handle: str) -> str:
        code, reply, error = self._run("launch", handle, ask)
        if code == 0 and isinstance(reply.get("handle"), str) and reply["handle"]:
            return str(reply["handle"])
        if code == _NOT_LAUNCHED and reply.get("launched") is False:
            raise NotLaunched(error, _seconds(reply.get("later")))
        raise Unclear(f"the launch command did not answer with a handle: {error}")

    def _find(self, ask: Ask, handle: str) -> str | _Unknown | None:
        code, reply, error = self._run("find", handle, ask)
        if code == 0 and "handle" in reply:
            return str(reply["handle"]) if reply["handle"] else None
        if code == _NOT_KNOWN:
            return UNKNOWN
        raise Unclear(f"the find command failed: {error}")

    def poll(self, handle: str) -> Seen:
        code, reply, error = self._run("poll", handle)
        if code or not reply:
            raise Unclear(f"the poll command cannot tell: {error}", _seconds(reply.get("later")) or 0.0)
        state = str(reply.get("status"))
        return Seen(
            status=state if state in STATUSES else STATUSES[0],
            reason=str(
                reply.get("reason") or ("" if state in STATUSES else f"a state that is not known here: {state}")
            ),
            steps=int(reply.get("steps") or 0),
            usd=float(reply["usd"]) if reply.get("usd") is not None else None,
            counts={"input": int(reply.get("tokens") or 0)},
            model=str(reply.get("model") or ""),
            answer=str(reply.get("answer") or ""),
            waits_for=str(reply.get("waits_for") or ""),
            page=str(reply.get("page") or ""),
        )

    def cancel(self, handle: str) -> None:
        code, _, error = self._run("cancel", handle)
        if code:
            raise Unclear(f"the cancel command failed: {error}")

    def _run(self, verb: str, handle: str, ask: Ask | None = None) -> tuple[int, dict[str, Any], str]:
        """(exit code, reply, what went wrong)"""
        line = self._command_lines[verb]
        argv = ["sh", "-c", line] if isinstance(line, str) else [str(part) for part in line]
        facts = {} if ask is None else {**ask.__dict__, "fields": without(ask.fields, *_VERBS)}
        with subprocess.Popen(
            argv,
            env={**os.environ, "NIGHTLATCH_HANDLE": handle},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        ) as process:
            try:
                out, err = process.communicate(json.dumps(facts, default=dict).encode(), timeout=_TIMEOUT)
            except BaseException as error:
                os.killpg(process.pid, signal.SIGKILL)
                if isinstance(error, subprocess.TimeoutExpired):
                    raise Unclear(f"the {verb} command took longer than {_TIMEOUT:.0f}s") from None
                raise
        last_line = err.decode(errors="replace").strip().rpartition("\n")[2]
        try:
            reply = json.loads(out or b"{}")
        except ValueError:
            reply = None
        if not isinstance(reply, dict):
            return process.returncode or 1, {}, f"its output is not a JSON object: {out[:100]!r}"
        return process.returncode, reply, last_line or f"exit code {process.returncode}"


def _seconds(found: object) -> float | None:
    return float(found) if isinstance(found, int | float) and found >= 0 else None
