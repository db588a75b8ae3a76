"""A pen: who has much to record is lent the ledger, and writes it without the supervisor.

A word to the supervisor and back takes about as long as the write itself. What is written is the same, by the same
code, behind the same fence; threads that write at once share a commit. It is lent for steps and for runs inside the
run, to plain calls: an event loop, which must not wait for a disk, goes on asking the supervisor. It is lent where no
secret is needed to open the ledger: the password in a store's URL is the supervisor's alone.
"""

from __future__ import annotations

import os
from threading import Thread
from typing import TYPE_CHECKING, Any

from ...shared.client import tell
from .drive import Ask

if TYPE_CHECKING:
    from .direct_writer import Lent

_AFTER = 8  # words: a ledger takes longer to open than they take to say


class Record(Ask):
    """A word that the pen can write down."""

    __slots__ = ()

    def now(self) -> Any:
        written = _pen.write(self.request)
        return tell(**self.request) if written is None else written


class Pen:
    """For the threads of one process."""

    def __init__(self) -> None:
        self._words, self._made_by = 0, os.getpid()
        self._lent: Lent | None = None

    def write(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """The answer, when it is recorded, durable; None: ask the supervisor."""
        if self._made_by != os.getpid():
            return None  # a fork has the parent's locks in whatever state they were
        self._words += 1
        if self._words == _AFTER:
            self._borrow()
        return self._lent.write(request) if self._lent else None

    def _borrow(self) -> None:
        told = tell(do="pen")
        if told["ledger"].startswith("/"):
            self._open(told)
        elif told["ledger"]:
            # A driver has to be imported, and a connection made: meanwhile the supervisor is asked.
            Thread(target=self._open, args=(told,)).start()

    def _open(self, told: dict[str, str]) -> None:
        from . import direct_writer as lent

        self._lent = lent.opened(told)


_pen = Pen()
