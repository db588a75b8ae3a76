"""`python -m tests`: all tests, two workers for each core. Tests that fail there are run once more, alone.

The tests stop, kill and time real processes: half of their time they wait, and yet all cores are busy with them. A test
that fails beside the others and passes alone is named at the end: the machine was too busy, or it is a race that is
worth a look.
"""

from __future__ import annotations

import compileall
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

FAILED = 1  # pytest's exit code for tests that failed
MOST = 8  # of thousands; more failures than these are not a coincidence
WORKERS = 2 * (os.cpu_count() or 1)
ROOT = Path(__file__).parents[1]
LAST_FAILED = ROOT / ".pytest_cache/v/cache/lastfailed"


def pytest(*words: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *words], check=False).returncode


def main(words: list[str]) -> int:
    for signum in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):  # ignored under nohup, and behind a script's `&`
        signal.signal(signum, signal.SIG_DFL)
    for folder in ("src", "tests"):  # thousands of processes load them, also where PYTHONDONTWRITEBYTECODE is set
        compileall.compile_dir(ROOT / folder, quiet=2)
    code = pytest("-n", str(WORKERS), "--dist", "worksteal", *words)
    failed = list(json.loads(LAST_FAILED.read_text())) if code == FAILED else []
    if not 0 < len(failed) <= MOST:
        return code
    print(f"\nOnce more, alone: what failed beside the others ({len(failed)})", flush=True)
    code = pytest("--last-failed", *words)
    if code == 0:
        print("\nPassed alone, and failed beside the others. Please report it, with the output above:")
        print("".join(f"  {test}\n" for test in failed), end="", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
