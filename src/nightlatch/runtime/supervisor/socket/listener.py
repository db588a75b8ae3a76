"""What a command says to its supervisor through the socket, and what is made of it."""

from __future__ import annotations

import sys

from ....core import budget
from ....errors import Error, Stop, StoreUnreachable
from ....ledger import kinds
from ....system import clock
from ....system.redaction import Redactor
from ...both.replies import Later, refusal, reply
from ...both.steps.recorder import Recorder
from ..leases import handle
from ..run.unwritten import Unwritten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ....ledger.ledger import Ledger
    from ....ledger.writer import Writer
    from ....system.warden import Warden
    from ...both.leases.lease import Lease
    from ...both.steps.nested import Inner
    from ..batches.batch import Checkpoints
    from ..effects.requests import EffectDesk
    from ..publishing.requests import PublishDesk
    from ..run.watch import Watch

_INSIDE = ("step", "close")  # of a run inside this one
_EFFECTS = ("effect", "effect-probed", "effect-ended")
_PUBLISHES = ("publish", "push")
_KNOWN = (
    "progress, spend, retry-after, check, fail, store, known, step, pen, moved, effect, effect-probed, effect-ended, "
    "open, close, publish, push and refused"
)


class Told:
    """What an attempt, or an item of a batch, has said of itself so far."""

    def __init__(self) -> None:
        self.used: dict[str, float] = {}
        self.unwritten: dict[str, float] = {}  # of that: what the ledger does not have yet
        self.unmetered = ""  # why that may not be all
        self.retry_after = 0.0  # seconds it wants to be left alone for
        self.failure = ""  # what it says it failed of
        self.attention = False  # a person has to look
        self.doubts: set[str] = set()  # effects that nobody knows the end of, and nothing can tell
        self.waited_at = float("-inf")  # it has said that it waits for a probe to be believed
        self.abandoned = ""  # an effect that it was in the middle of when it ended

    def add(self, amounts: dict[str, float]) -> None:
        for unit, amount in amounts.items():
            self.used[unit] = self.used.get(unit, 0.0) + amount


class Listener:
    """Answers requests; what it records goes through the run's one writer."""

    def __init__(
        self,
        told: Told,
        lease: Lease,
        ledger: Ledger,
        writer: Writer,
        watch: Watch,
        folder: str,
        batch: Checkpoints | None,
        guard: Warden,
    ) -> None:
        self.told = told
        self.hidden = Redactor()
        self._lease, self._ledger, self._writer, self._watch = lease, ledger, writer, watch
        self._guard = guard
        self._own: Recorder | None = None  # of steps
        self._batch = batch
        self.warm = False
        self.unwritten = Unwritten(writer, folder, told.unwritten)
        self.passed = ""  # the store's URL, if the command may have it with its password
        self._folder = folder
        self._effects: EffectDesk | None = None
        self._published: PublishDesk | None = None
        self._inside: Inner | None = None
        self._lent = False  # the command writes steps, and runs inside this one, itself

    def answers(self, requests: list[dict[str, Any]]) -> list[dict[str, Any] | Later]:
        """An answer for each. Steps that came together are one commit, and so are steps and ends of runs inside; the
        others are answered one by one."""
        steps = [request for request in requests if request.get("do") == "step" and not request.get("run")]
        inside = [request for request in requests if request.get("do") in _INSIDE and request.get("run")]
        told = iter(self._step(steps) if steps else ())
        told_inside = iter(self._inside_told(inside) if inside else ())
        if steps or inside:
            self._watch.progressed(clock.now())

        def answer(request: dict[str, Any]) -> dict[str, Any] | Later:
            if request.get("do") in _INSIDE and request.get("run"):
                return next(told_inside)
            return next(told) if request.get("do") == "step" else self._later(request) or self._reply(request)

        return [answer(request) for request in requests]

    def warm_up(self) -> None:
        """Import what may be needed later: in an hour the package's folder may hold another version."""
        self.warm = True
        try:
            import json  # noqa: F401 - for the socket

            from ....gates import git  # noqa: F401
            from ...both.steps import nested as inner  # noqa: F401
            from ..effects import requests as effects  # noqa: F401
            from ..publishing import requests as publishing  # noqa: F401
        except Exception as error:  # noqa: BLE001 - whatever stands there now; what was imported before goes on
            print(f"nightlatch: the package was replaced as the run began ({error!r})", file=sys.stderr)

    def tick(self, now: float) -> float:
        """Write what has waited for company; returns when to look again."""
        return self._inside.tick(now) if self._inside else float("inf")

    def overdue(self, now: float) -> tuple[str, str, float] | None:
        """(state, reason, grace) if the run has to end now, since an effect takes longer than it may."""
        return self._effects.overdue(now) if self._effects else None

    def over(self) -> None:
        """Nothing of the command is left: what it has not told the end of is in doubt."""
        if self._effects:
            self._effects.abandon()
        if self._published:
            self._published.over()
        if self._inside or self._lent:
            self._inner.abandon(lent=self._lent)

    @property
    def _inner(self) -> Inner:
        if self._inside is None:
            from ...both.steps.nested import Inner

            self._inside = Inner(self._lease, self._ledger, self._writer.run, self._folder, self._redacted)
        return self._inside

    def _recorder(self, run: str) -> Recorder:
        if run:
            return self._inner.recorder(run)
        if self._own is None:
            writer = self._writer
            self._own = Recorder(self._ledger, writer.steps, self._folder, self._redacted, writer.progress)
        return self._own

    def _later(self, request: dict[str, Any]) -> Later | None:
        """What is answered from a thread: it may take several words with a store, or a target, that is far away."""
        word = request.get("do")
        if word in _EFFECTS:
            return self._effect(str(word), request)
        if word in _PUBLISHES:
            return self._publish(str(word), request)
        return Later(lambda: self._refused(request)) if word == "refused" else None

    def _publish(self, word: str, request: dict[str, Any]) -> Later:
        if self._published is None:
            from ..publishing.requests import PublishDesk

            self._published = PublishDesk(self._lease, self._ledger, self._writer)
        self._watch.progressed(clock.now())
        return self._published.later(word, request)

    def _refused(self, request: dict[str, Any]) -> dict[str, Any]:
        """A gate has refused what the command wrote under a lease of its own."""
        run, token, stands = self._writer.run, request.get("token"), request.get("stands")
        what, reason = (self._redacted(str(request.get(word) or "")) for word in ("what", "reason"))
        facts = {"attempt": run.attempt, "what": what, "token": token, "stands": stands, "reason": reason}
        self._ledger.note(run.job, kinds.REFUSED, run=run.id, **facts)
        return {}

    def _effect(self, word: str, request: dict[str, Any]) -> Later:
        if self._effects is None:
            from ..effects.requests import EffectDesk

            self._effects = EffectDesk(
                self._lease, self._ledger, self._writer, self.told, self._redacted,
                lambda at: self._guard.tell("bound", at),
            )  # fmt: skip
        desk = self._effects
        self._watch.progressed(clock.now())
        return Later(lambda: desk.answer(word, request))

    def _reply(self, request: dict[str, Any]) -> dict[str, Any]:
        return reply(self.answer, request)

    def _step(self, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        try:
            self._recorder("").write(requests)
        except (Error, Stop) as error:
            return [refusal(error)] * len(requests)
        except Exception as error:  # noqa: BLE001 - what the command says does not end its supervisor
            if len(requests) == 1:
                return [refusal(error)]
            return [self._step([request])[0] for request in requests]  # one of them is no good; the others are
        return [{"ok": True}] * len(requests)

    def _inside_told(self, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        try:
            return self._inner.record(requests)
        except (Stop, Exception) as error:  # noqa: BLE001 - as above
            return [refusal(error)] * len(requests)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        word, item = request.pop("do", ""), request.pop("item", "")
        told = self._batch.told_of(str(item)) if item and self._batch else self.told
        match word:
            case "progress":
                done, total = (_count(request.get(word)) for word in ("done", "total"))
                self._writer.progress(done, total, self._redacted(str(request.get("message") or "")))
                self._watch.progressed(clock.now())
                return {"waiting": self._batch.waiting()} if self._batch else {}
            case "spend":
                amounts = budget.amounts(f"{unit}={amount}" for unit, amount in request.items())
                kept = self.spend(amounts, source="report", item=str(item))
                if told is not self.told:
                    told.add(amounts)
                return {"used": told.used} | ({"kept": kept} if kept else {})
            case "retry-after":
                seconds = float(request["seconds"])
                if not 0 <= seconds < float("inf"):
                    raise ValueError(f"`seconds` is {seconds}: write how long, 0 or more")
                told.retry_after = seconds
                return {}
            case "check":
                self._lease.check()
                return {"token": self._lease.token}
            case "fail":
                words = {word: str(request.get(word) or "") for word in ("reason", "traceback")}
                facts = {word: self._redacted(text) for word, text in words.items()}
                if told is self.told:
                    self._writer.event(kinds.EXCEPTION, **facts)
                told.failure, told.attention = facts["reason"], bool(request.get("attention"))
                return {}
            case "known":
                return self._recorder(str(request.get("run") or "")).known()
            case "open":
                self._watch.progressed(clock.now())
                return self._inner.open(str(request["key"]))
            case word if self._batch and word in self._batch.WORDS:
                answer = self._batch.answer(word, request)
                self._watch.progressed(clock.now())
                return answer
            case "pen":
                from ....system.durable import inode
                from ...both.effects import apart

                address, store = self._ledger.address, self._lease.store
                if address:
                    self._writer.lend()
                self._lent = self._lent or bool(address)
                away = "" if apart(store, self._ledger) else store.url
                return {"ledger": address, "inode": inode(address), "store": away}
            case "moved":
                self._watch.progressed(clock.now())
                if request.get("waits") and self._batch:
                    self._batch.waits(told)
                return {}
            case "store":
                return handle.answer(self.passed) if self.passed else {"url": self._lease.store.url}
            case other:
                raise ValueError(f"`do` is {other!r}; known are {_KNOWN}")

    def spend(self, amounts: dict[str, float], **about: str) -> str:
        """Record what was used, for the watch to judge. Returns where it is kept, if not in the store."""
        verb, kept = self._writer.used(amounts, about), ""
        try:
            if self.unwritten:
                raise StoreUnreachable("it is away")
            self._writer.take(verb)
        except StoreUnreachable as away:
            try:
                self.unwritten.keep(amounts, verb)
            except OSError as error:
                raise StoreUnreachable(f"not recorded: {away}, and it cannot be kept here ({error})") from error
            kept = "the store is away: it is on this machine's disk, and recorded when the store is back"
        self.told.add(amounts)
        self._watch.spent(amounts)
        return kept

    def _redacted(self, text: str) -> str:
        return self.hidden.text(text)


def _count(given: object) -> int:
    """How far something is, as every database can count."""
    found: int = int(given or 0)  # type: ignore[call-overload]
    if not 0 <= found < 1 << 63:
        raise ValueError(f"{found} is no count")
    return found
