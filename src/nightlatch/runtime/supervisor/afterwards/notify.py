"""After a run: start a process that sends alerts, if nightlatch.toml has any, and one that sends the trace, if the
environment names a receiver. So a run that cron starts is reported too. Where such a process is at work already, as
beside `serve`, it sends this run's too. The run does not wait for these processes, and they do not change its exit
code."""

from __future__ import annotations

import os
import sys

from ....config import place
from ....system import process
from ...shared import trace
from ...shared.senders import SenderLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_TABLE = "alerts"  # a file without this word has no alerts: it need not be parsed to know that
_SWITCH = "NIGHTLATCH_ALERTS"  # "off": for tests, and for users who send alerts themselves


def start_senders(file: str, store: str, folder: str) -> None:
    """`file`: the nightlatch.toml that counts for the run; "": none. `folder`: the store's, on this machine. A failure
    here never fails the run."""
    try:
        if file and os.environ.get(_SWITCH) != "off" and place.mentions(file, _TABLE):
            _start_unless_taken(SenderLock("alerts", folder, file), "alerts", file, store)
        if trace.has_receiver(os.environ):
            _start_unless_taken(SenderLock("traces", folder), "traces", file, store)
    except OSError as error:
        print(f"nightlatch: no alert is sent now, since no process could be started: {error}", file=sys.stderr)


def _start_unless_taken(lock: SenderLock, what: str, path: str, store: str) -> None:
    if lock.is_taken():
        return
    words = [sys.executable, "-m", "nightlatch", what, "send"]
    environment = {name: text for name, text in os.environ.items() if not name.startswith("NIGHTLATCH_")}
    environment |= {"NIGHTLATCH_STORE": store} | ({place.ENV: path} if path else {})
    null = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    # Otherwise the sender would keep the run's locks and pipes open.
    closed = [(os.POSIX_SPAWN_CLOSE, fd) for fd in _inherited()]
    os.posix_spawn(sys.executable, words, environment, file_actions=[*null, *closed], setsid=True)


def _inherited() -> Iterable[int]:
    for fd in process.own_descriptors():
        try:
            if fd > 2 and os.get_inheritable(fd):
                yield fd
        except OSError:
            continue  # the descriptor of the listing itself
