"""A job with many steps to record writes them to the ledger itself, without asking the supervisor each time.

A request to the supervisor and its reply take about as long as the write, so this doubles the rate. The job writes the
same rows, by the same code, behind the same fence; threads that write at once share a commit. It does so for steps and
nested runs, in plain calls only: an event loop must not wait for a disk, so there the supervisor writes. The job
writes only to a ledger that opens without a secret: the password in a store's URL is for the supervisor alone.
"""

from __future__ import annotations

import os

from ...shared.client import send
from .drive import SupervisorRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .direct_writer import DirectWriter

_OPEN_AFTER = 8  # requests: opening a ledger takes longer than sending this many


class RecordRequest(SupervisorRequest):
    """A request whose record the job can write to the ledger itself."""

    __slots__ = ()

    def now(self) -> Any:
        written = _direct.write(self.request)
        return send(**self.request) if written is None else written


class _Direct:
    """Opens the direct writer, one for all threads of this process, when there is enough to write."""

    def __init__(self) -> None:
        self._requests, self._owner_pid = 0, os.getpid()
        self._writer: DirectWriter | None = None

    def write(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """Record the request durably and return the reply; None if the supervisor has to be asked."""
        if self._owner_pid != os.getpid():
            return None  # a fork has the parent's locks in whatever state they were
        self._requests += 1
        if self._requests == _OPEN_AFTER:
            self._begin()
        return self._writer.write(request) if self._writer else None

    def _begin(self) -> None:
        reply = send(do="direct-writer")
        if reply["ledger"].startswith("/"):
            self._open(reply)
        elif reply["ledger"]:
            # A server: until its driver is imported and the connection made, the supervisor records.
            from threading import Thread

            Thread(target=self._open, args=(reply,)).start()

    def _open(self, reply: dict[str, str]) -> None:
        from .direct_writer import open_writer

        self._writer = open_writer(reply)


_direct = _Direct()
