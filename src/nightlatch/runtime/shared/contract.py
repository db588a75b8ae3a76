"""A command with what has to hold before and after it, as one command for the warden.

    require … → the command → ensure …

All of it runs in the workspace, under the run's bounds, with its output kept. A failed check is the run's reason: after
a failed `require` the command is not started; after a failed `ensure` nothing is published, and a person has to look.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...core.job import Job


def wrapped(job: Job) -> list[str]:
    """The words that the warden starts."""
    checks = [word for name in ("require", "ensure") for line in getattr(job, name) for word in (f"--{name}", line)]
    return [sys.executable, "-P", "-m", __name__, *checks, "--", *job.command]


def main(words: list[str]) -> int:
    split = words.index("--")
    checks, command = words[:split], words[split + 1 :]
    lines = list(zip(checks[::2], checks[1::2], strict=True))
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(signum, lambda *_: None)  # the command gets it too; SIG_IGN would be inherited
    for kind, line in lines:
        if kind == "--require" and (code := _run(["sh", "-c", line])):
            return _fail(f"it was not started: its precondition `{line}` ended with exit code {code}", code)
    code = _run(command)
    for kind, line in lines if not code else ():
        if kind == "--ensure" and (failed := _run(["sh", "-c", line])):
            return _fail(f"nothing is published: `{line}` ended with exit code {failed}", failed, attention=True)
    return code


def _run(words: list[str]) -> int:
    try:
        code = subprocess.run(words, check=False).returncode
    except FileNotFoundError:
        print(f"nightlatch: {words[0]} was not found on the PATH {os.environ.get('PATH', os.defpath)}", file=sys.stderr)
        return 127
    except OSError as error:
        print(f"nightlatch: {words[0]} cannot be executed: {error.strerror}", file=sys.stderr)
        return 126
    return code if code >= 0 else 128 - code


def _fail(reason: str, code: int, *, attention: bool = False) -> int:
    from .client import send

    send(do="fail", reason=reason, traceback="", attention=attention)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
