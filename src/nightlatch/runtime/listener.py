"""What a command says to its supervisor through the socket, and what is made of it."""

from __future__ import annotations

from ..core import budget
from ..system import clock
from . import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..ledger.writer import Writer
    from .batch import Checkpoints
    from .lease import Lease
    from .watch import Watch


class Told:
    """What an attempt, or an item of a batch, has said of itself so far."""

    def __init__(self) -> None:
        self.used: dict[str, float] = {}
        self.retry_after = 0.0  # seconds it wants to be left alone for
        self.failure = ""  # what it says it failed of

    def add(self, amounts: dict[str, float]) -> None:
        for unit, amount in amounts.items():
            self.used[unit] = self.used.get(unit, 0.0) + amount


class Listener:
    """Answers one request at a time; what it records goes through the run's one writer."""

    def __init__(
        self, told: Told, store: str, lease: Lease, writer: Writer, watch: Watch, steps: Checkpoints | None
    ) -> None:
        self.told = told
        self.hidden: list[tuple[bytes, bytes]] = []  # secrets, and what stands in their place
        self._store, self._lease, self._writer, self._watch, self._steps = store, lease, writer, watch, steps

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        word, item = request.pop("do", ""), request.pop("item", "")
        told = self._steps.told_of(str(item)) if item and self._steps else self.told
        match word:
            case "progress":
                done, total, message = (request.get(word) for word in ("done", "total", "message"))
                self._writer.progress(int(done or 0), int(total or 0), str(message or ""))
                self._watch.progressed(clock.now())
                return {}
            case "spend":
                amounts = budget.amounts(f"{unit}={amount}" for unit, amount in request.items())
                self.spend(amounts)
                if told is not self.told:
                    told.add(amounts)
                return {"used": told.used}
            case "retry-after":
                told.retry_after = float(request["seconds"])
                return {}
            case "check":
                self._lease.check()
                return {"token": self._lease.token}
            case "fail":
                words = {word: str(request.get(word) or "") for word in ("reason", "traceback")}
                facts = {word: self._redacted(text) for word, text in words.items()}
                if told is self.told:
                    self._writer.event("exception", **facts)
                told.failure = facts["reason"]
                return {}
            case word if self._steps and word in self._steps.WORDS:
                answer = self._steps.answer(word, request)
                self._watch.progressed(clock.now())
                return answer
            case "store":
                return {"url": self._store}  # without a password
            case other:
                known = "progress, spend, retry-after, check, fail and store"
                raise ValueError(f"`do` is {other!r}; known are {known}")

    def spend(self, amounts: dict[str, float]) -> None:
        """Record what was used; the watch judges it against the budget."""
        self._writer.usage(**amounts)
        self.told.add(amounts)
        self._watch.spent(amounts)

    def _redacted(self, text: str) -> str:
        return output.redacted(text.encode(errors="replace"), self.hidden).decode(errors="replace")
