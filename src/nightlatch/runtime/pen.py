"""A pen for a run's steps: who has many of them is lent the ledger's file, and writes them without the supervisor.

A word to the supervisor and back takes about as long as the write itself. What is written is the same, by the same
code, behind the same fence; threads that write at once share a commit. Only for a ledger in a file of this machine:
the password of a server is the supervisor's alone.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ..core import states
from ..errors import Error
from ..ledger import place, step_log
from ..ledger.turns import Turns
from ..system import clock
from .drive import Ask
from .tell import tell

if TYPE_CHECKING:
    from ..ledger.step_log import Step

_AFTER = 8  # words about steps: a ledger takes longer to open than they take to say
_COUNT_EVERY = 1.0  # seconds between two words on how far a map is


class Pen:
    """For the threads of one process."""

    def __init__(self) -> None:
        self._words, self._made_by = 0, os.getpid()
        self._turns: Turns[Step] | None = None
        self._counted_at = 0.0

    def write(self, request: dict[str, Any]) -> bool:
        """Record what a request tells of steps, durable when this returns True; False: ask the supervisor to.

        It is asked where a reason is given, since it knows which words are secret.
        """
        if self._made_by != os.getpid():
            return False  # a fork has the parent's locks in whatever state they were
        self._words += 1
        if self._words == _AFTER:
            self._turns = _borrowed()
        if self._turns is None or any(reason for *_, reason in request["steps"]):
            return False
        self._turns.take(*(step_log.step(*step) for step in request["steps"]))
        self._count(request)
        return True

    def _count(self, request: dict[str, Any]) -> None:
        """How far a map is, for people who look."""
        now = clock.now()
        if request.get("of") and (now - self._counted_at > _COUNT_EVERY or request["done"] == request["of"]):
            self._counted_at = now
            tell(do="progress", done=request["done"], total=request["of"], message=request["message"])


class Record(Ask):
    """Steps to be recorded: by the pen, where a plain call waits for it; an event loop asks the supervisor."""

    __slots__ = ("pen",)

    def __init__(self, pen: Pen, **request: Any) -> None:
        super().__init__(do="step", **request)
        self.pen = pen

    def now(self) -> Any:
        return {} if self.pen.write(self.request) else super().now()


def _borrowed() -> Turns[Step] | None:
    """The ledger's writer, if its file can be opened from here: a sandbox may stand between."""
    path = tell(do="pen")["ledger"]
    if not os.path.exists(path):
        return None
    try:
        ledger = place.in_file(path)
        run = ledger.run(os.environ["NIGHTLATCH_RUN"])
    except Error:
        return None
    mine = run and run.state == states.RUNNING and os.environ["NIGHTLATCH_SOCKET"].endswith("/" + run.grant[:24])
    return Turns(ledger.step_writer(run).append) if run and mine else None
