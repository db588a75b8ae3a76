"""Runs a shell line that goes on for ever until it says that it serves, then ends it as Ctrl-C would."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

_READY = ("serving ", "the pages are at", "http://127.0.0.1")


def main(line: str) -> int:
    process = subprocess.Popen(
        ["bash", "-c", line], process_group=0, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout
    for said in process.stdout:
        print(said, end="", flush=True)
        if any(word in said for word in _READY):
            os.killpg(process.pid, signal.SIGINT)
    code = process.wait()
    return 0 if code in (0, 130, -signal.SIGINT) else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
