"""After a run: start a process that sends alerts, if the file in force has any, and one that sends the trace, if the
environment names a receiver. The run does not wait for them, and they do not change its exit code. So a run that
a plain line of cron starts is reported too."""

from __future__ import annotations

import os
import sys

from ....config import place
from ...shared import trace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_TABLE = b"alerts"  # a file without this word has no alerts: it need not be parsed to know that
_SWITCH = "NIGHTLATCH_ALERTS"  # =off: for tests, and for users that send alerts themselves


def start_senders(file: str, store: str) -> None:
    """`file`: the nightlatch.toml that counts for the run; "": none. A failure here never fails the run."""
    try:
        if file and os.environ.get(_SWITCH) != "off":
            with open(file, "rb") as read:
                if _TABLE in read.read():
                    _start("alerts", file, store)
        if trace.has_receiver(os.environ):
            _start("traces", file, store)
    except OSError as error:
        print(f"nightlatch: no alert is sent now, since no process could be started: {error}", file=sys.stderr)


def _start(what: str, path: str, store: str) -> None:
    words = [sys.executable, "-m", "nightlatch", what, "send"]
    environment = {name: text for name, text in os.environ.items() if not name.startswith("NIGHTLATCH_")}
    environment |= {"NIGHTLATCH_STORE": store} | ({place.ENV: path} if path else {})
    quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    closed = [(os.POSIX_SPAWN_CLOSE, fd) for fd in _others()]  # it must not keep a lock or a pipe of the run open
    os.posix_spawn(sys.executable, words, environment, file_actions=[*quiet, *closed], setsid=True)


def _others() -> Iterable[int]:
    for name in os.listdir("/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"):
        fd = int(name)
        try:
            if fd > 2 and os.get_inheritable(fd):
                yield fd
        except OSError:
            continue  # the descriptor of the listing itself
