"""nightlatch demo"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time

from .arguments import Parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_PURPOSE = """\
Two contenders for one lease, with real processes: the second is refused, the first is killed with
kill -9, the second takes over at once with a higher token, and nothing of the first is left.

Uses a store of its own in a temporary folder and leaves nothing behind."""


def main(argv: list[str]) -> int:
    Parser("demo", _PURPOSE, "  nightlatch demo").parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="nightlatch-demo-") as folder:
        os.environ["NIGHTLATCH_STORE"] = f"sqlite:///{folder}/demo.db"
        return _tell(folder)


def _tell(folder: str) -> int:
    says = os.path.join(folder, "says")
    _say("Ann's laptop starts the nightly job. It would run for an hour:")
    ann = _lock("--", "sh", "-c", f'echo "$$ $NIGHTLATCH_TOKEN" > {says}.part; mv {says}.part {says}; sleep 3600')
    _until(lambda: os.path.exists(says))
    with open(says, encoding="ascii") as file:
        child, token = map(int, file.read().split())
    _say(f"  it holds the lease with token {token}; its command is process {child}\n")

    _say("Ben's laptop fires the same cron line:")
    refused = _lock("--", "true", stderr=subprocess.PIPE)
    message = refused.communicate()[1].strip()
    _say(f"  {message}\n  exit code {refused.returncode}\n")

    _say(f"Now kill -9 of Ann's supervisor (process {ann.pid}), with 60 seconds left on its lease. Ben waits for it:")
    started = time.monotonic()
    ann.send_signal(signal.SIGKILL)
    ann.wait()
    ben = _lock("--wait", "30s", "--", "sh", "-c", 'echo "$NIGHTLATCH_TOKEN"', stdout=subprocess.PIPE)
    higher = int(ben.communicate()[0])
    took = time.monotonic() - started
    alive = os.path.exists(f"/proc/{child}") if sys.platform == "linux" else _alive(child)
    _say(f"  taken over after {took:.2f} s with token {higher}")
    _say(f"  Ann's command (process {child}) is {'STILL ALIVE' if alive else 'gone: that was proven first'}\n")
    ok = refused.returncode == 75 and higher > token and not alive and ben.returncode == 0
    _say("No two holders at once, tokens only rise, no orphan works on." if ok else "This is NOT how it should be.")
    return 0 if ok else 1


def _lock(*words: str, **pipes: int) -> subprocess.Popen[str]:
    program = [sys.executable, "-c", "from nightlatch.cli.main import main; main()", "lock", "nightly"]
    return subprocess.Popen([*program, *words], text=True, **pipes)  # type: ignore[call-overload,no-any-return]


def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.01)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _say(line: str) -> None:
    print(line, flush=True)
