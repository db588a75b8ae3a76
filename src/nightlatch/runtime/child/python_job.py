"""The child of a Python job: python -m nightlatch.runtime.child.python_job MODULE:QUALNAME ARGUMENTS

MODULE is a module's name or a file. ARGUMENTS is a JSON object: `args`, `kwargs`, and the `path` that modules
are imported from. If the function raises, the exception is reported with its traceback, and the exit code is 1,
or that of the Nightlatch error: 76 if a person has to decide.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import os
import sys
import traceback
from typing import Any

from ...errors import Error, InDoubt, OnlyPlanned, StaleToken, Stop, UsageError
from ..shared import importing
from ..shared.client import send
from .publishing import note_refusal


def main(argv: list[str]) -> int:
    if len(argv) != 2:
        raise UsageError("this is started by a job's .run(): MODULE:QUALNAME and its arguments")
    arguments = json.loads(argv[1])
    sys.path[:] = [*arguments["path"], *(folder for folder in sys.path if folder not in arguments["path"])]
    try:
        with importing.mark_import():
            function = _find(argv[0])
        result = function(*arguments["args"], **arguments["kwargs"])
        if inspect.iscoroutine(result):
            import asyncio

            asyncio.run(result)
        return 0
    except Stop as stop:
        print(f"nightlatch: {stop}", file=sys.stderr)
        return stop.exit_code
    except OnlyPlanned as unknown:
        return _report_partial_plan(unknown)
    except importing.StartedMeanwhile as unguarded:
        reason = f"{unguarded}{_where(unguarded)}"
        print(f"nightlatch: {reason}", file=sys.stderr)
        send(do="fail", reason=reason)
        return unguarded.exit_code
    except Exception as error:  # noqa: BLE001 - every exception is recorded
        code = error.exit_code if isinstance(error, Error) else 1
        if isinstance(error, StaleToken) and error.offered:
            note_refusal(error.offered.name, error)  # by a gate, for a lease acquired in this process
        _report(error, attention=code == InDoubt.exit_code)
        return code


def _find(name: str) -> Any:
    module_name, _, qualname = name.rpartition(":")
    found: Any = _from_file(module_name) if module_name.endswith(".py") else importlib.import_module(module_name)
    for part in qualname.split("."):
        found = getattr(found, part)
    return found


def _from_file(path: str) -> Any:
    """Import a script under another name than `__main__`, so that its main part does not run here."""
    spec = importlib.util.spec_from_file_location("__nightlatch_job__", path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} cannot be loaded as a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # as an import does: dataclasses and pickle look there
    spec.loader.exec_module(module)
    return module


def _report_partial_plan(unknown: OnlyPlanned) -> int:
    """A dry-run ends where it needs a result that does not exist; what it planned so far counts."""
    send(do="fail", reason=f"{unknown}{_where(unknown)}", planned=True)
    return 0


def _where(error: Exception) -> str:
    """Where in the user's own code the error came from, as ", at FILE:LINE"; "" if not from there."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep
    theirs = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(package)]
    return f", at {theirs[-1].filename}:{theirs[-1].lineno}" if theirs else ""


def _report(error: Exception, *, attention: bool) -> None:
    # Without the frame of this file, which helps nobody.
    trace = error.__traceback__.tb_next if error.__traceback__ else None
    text = "".join(traceback.format_exception(type(error), error, trace))
    print(text, end="", file=sys.stderr)
    from .steps.step import reason_of

    try:
        send(do="fail", reason=reason_of(error), traceback=text, attention=attention)
    except Error as not_recorded:
        print(f"nightlatch: the exception could not be recorded: {not_recorded}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
