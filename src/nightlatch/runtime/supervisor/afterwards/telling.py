"""After a run: a process that tells of it where the file in force has alerts, and one that sends its trace where the
environment names a receiver. The run's exit does not wait for them and is not changed by them; so what a plain line of
cron starts is told too."""

from __future__ import annotations

import os
import sys

from ....config import place
from ...shared import trace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_TABLE = b"alerts"  # a file without this word has no alerts: it need not be parsed to know that
_ONCE = "NIGHTLATCH_ALERTS"  # =off: tests, and those who tell by themselves


def leave_behind(file: str, store: str) -> None:
    """`file`: the one that counts for the run; "": none. What goes wrong here is never the run's."""
    try:
        if file and os.environ.get(_ONCE) != "off":
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
    closed = [(os.POSIX_SPAWN_CLOSE, fd) for fd in _others()]  # no lock and no pipe of the run lives on in it
    os.posix_spawn(sys.executable, words, environment, file_actions=[*quiet, *closed], setsid=True)


def _others() -> Iterable[int]:
    for name in os.listdir("/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"):
        fd = int(name)
        try:
            if fd > 2 and os.get_inheritable(fd):
                yield fd
        except OSError:
            continue  # that of the listing itself
