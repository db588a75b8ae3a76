"""Pings to an external monitor, as Healthchecks reads them: that a run begins, and how it ended.

A separate process sends each ping, in up to three tries: a server that hangs, refuses or fails delays no run and
changes no verdict. The process for the first ping is ended with the run; the one for the last outlives the
supervisor.
"""

from __future__ import annotations

import os
import subprocess
import sys

from ....core import statuses
from ...shared.verdict import Verdict

_TIMEOUT = 10.0  # seconds for a try
_PAUSES = (1.0, 5.0)  # seconds between the tries


def begin(url: str) -> None:
    _start(url, "/start", "")


def end(url: str, verdict: Verdict) -> None:
    waits = verdict.status == statuses.WAITING  # for an approval, or for its next try
    suffix = "/log" if waits else "" if verdict.status == statuses.SUCCEEDED else "/fail"
    _start(url, suffix, verdict.line())


def _start(url: str, suffix: str, body: str) -> None:
    # Without our variables: the process is not part of the run, and must not be taken for something that the run left
    # behind. The URL is a secret and everybody can see command lines, so it goes through a pipe.
    env = {name: text for name, text in os.environ.items() if not name.startswith("NIGHTLATCH_")}
    argv = [sys.executable, "-P", "-S", "-c", _PROGRAM]
    try:
        process = subprocess.Popen(
            argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
    except OSError:
        return  # no process can be started: the run goes on without a ping
    assert process.stdin
    with process.stdin as stdin:
        stdin.write(f"{url.rstrip('/')}{suffix}\n{body}".encode(errors="replace"))  # two lines: they fit the pipe


_PROGRAM = f"""
import sys, time, urllib.request
url, _, body = sys.stdin.buffer.read().partition(b"\\n")
request = urllib.request.Request(url.decode(), data=body or None)
for pause in (*{_PAUSES}, None):
    try:
        urllib.request.urlopen(request, timeout={_TIMEOUT}).close()
        break
    except Exception as error:
        if 400 <= getattr(error, "code", 0) < 500:
            break
    if pause is not None:
        time.sleep(pause)
"""
