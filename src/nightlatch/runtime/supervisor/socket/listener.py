"""Handles a command's requests at the socket. Each verb is a method (verbs.py)."""

from __future__ import annotations

from ....core import budget
from ....core.units import METERED
from ....errors import NotAllowed, Stop, StoreUnreachable
from ....ledger import kinds
from ....system import clock
from ....system.redaction import Redactor
from ...shared.replies import DeferredReply, refusal
from ..run.unwritten import Unwritten
from . import verbs
from .step_verbs import StepVerbs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ....core.budget import Cap
    from ....ledger.ledger import Ledger
    from ....ledger.writer import Records, Writer
    from ...shared.leases.lease import Lease
    from ..agents.at_work import AgentsAtWork
    from ..batches.batch import Checkpoints
    from ..effects.effect_requests import EffectRequests
    from ..publishing.publish_requests import PublishRequests
    from ..run.watch import RunWatch
    from .reported import Reported
    from .step_verbs import Record


class Listener:
    """Replies to requests; records go through the run's one writer."""

    def __init__(
        self,
        reported: Reported,
        lease: Lease,
        ledger: Ledger,
        writer: Writer,
        watch: RunWatch,
        folder: str,
        batch: Checkpoints | None,
        bound: Callable[[float], None],
    ) -> None:
        self.reported = reported
        self.hidden = Redactor()
        self._lease, self._ledger, self._writer, self._watch = lease, ledger, writer, watch
        self._bound = bound  # sets the deadline of what the command is doing right now
        self._batch = batch
        self.unwritten = Unwritten(writer, folder, reported.unwritten)
        self.is_metered: Callable[[], bool] = bool  # has the gateway counted a call?
        # Called with usage that the gateway has not counted.
        self.on_spent: Callable[[dict[str, float], str], None] | None = None
        self.holding = False  # nothing may be done to the outside world: the run waits for an approval
        self.passed_store = ""  # the store's URL, if the command may have it with its password
        self._folder = folder
        self._effects: EffectRequests | None = None
        self._publish_requests: PublishRequests | None = None
        self._steps = StepVerbs(lease, ledger, writer, folder, self._redacted, self._progressed)
        self.agents: Callable[[], AgentsAtWork] | None = None  # those that the command launched at a vendor
        self.why_ending: Callable[[], str] = str  # why the run is being ended from outside; "": it is not

    def answers(self, requests: list[dict[str, Any]]) -> list[dict[str, Any] | DeferredReply]:
        """A reply to each request, in order. Those that are recorded together are done first; the others one by one."""
        replies: dict[int, dict[str, Any] | DeferredReply] = {}
        together: dict[Record, list[int]] = {}
        for index, request in enumerate(requests):
            find_record = verbs.find(self._steps, request.get("do"), verbs.MANY)
            if find_record and (record := find_record(request)):
                together.setdefault(record, []).append(index)
        for record, indexes in together.items():
            replies.update(zip(indexes, record([requests[index] for index in indexes]), strict=True))
            self._progressed()
        return [replies[index] if index in replies else self._answer(request) for index, request in enumerate(requests)]

    def _answer(self, request: dict[str, Any]) -> dict[str, Any] | DeferredReply:
        try:
            verb = request.pop("do", "")
            own, of_batch = verbs.find(self, verb) or verbs.find(self._steps, verb), verbs.find(self._batch, verb)
            method = own or of_batch
            if method is None:
                raise verbs.unknown(verb, self, self._steps, *filter(None, [self._batch]))
            answer: dict[str, Any] | DeferredReply = method(request)
            if not own:
                self._progressed()
            return answer if isinstance(answer, DeferredReply) else {"ok": True, **answer}
        except (Stop, Exception) as error:  # noqa: BLE001 - whatever a command sends, its supervisor goes on
            return refusal(error)

    def tick(self, now: float) -> float:
        """Write what waited to be written together; returns when to call this again."""
        return self._steps.tick(now)

    def overdue(self, now: float) -> tuple[str, str, float] | None:
        """(status, reason, grace) if the run has to end now, since an effect takes longer than it may."""
        return self._effects.overdue(now) if self._effects else None

    def command_ended(self) -> None:
        """Nothing of the command is left: effects whose end it did not report are in doubt."""
        if self._effects:
            self._effects.abandon()
        if self._publish_requests:
            self._publish_requests.finish()
        self._steps.abandon()

    def _progressed(self) -> None:
        self._watch.progressed(clock.now())

    # ── verbs that are answered one by one ──

    def do_progress(self, request: dict[str, Any]) -> dict[str, Any]:
        done, total = (_count(request.get(name)) for name in ("done", "total"))
        self._writer.progress(done, total, self._redacted(str(request.get("message") or "")))
        self._progressed()
        return {"waiting": self._batch.waiting()} if self._batch else {}

    def do_spend(self, request: dict[str, Any]) -> dict[str, Any]:
        reported = self._reported_by(request)
        about = {name: str(request.pop(name, "") or "")[:_LONGEST_NAME] for name in ("item", "model", "tag")}
        extra = bool(request.pop("extra", False))
        amounts = budget.amounts(f"{unit}={amount}" for unit, amount in request.items())
        counted = amounts if extra or not self.is_metered() else {u: n for u, n in amounts.items() if u not in METERED}
        if counted != amounts:  # the gateway has counted that already, from the calls themselves
            self._writer.event(kinds.NOTED, **{unit: n for unit, n in amounts.items() if unit in METERED})
            if not counted:
                return {"used": reported.used}
            amounts = counted
        kept = self.spend(amounts, source="report", **{name: self._redacted(text) for name, text in about.items()})
        if reported is not self.reported:
            reported.add(amounts)
        return {"used": reported.used} | ({"kept": kept} if kept else {})

    def do_retry_after(self, request: dict[str, Any]) -> dict[str, Any]:
        seconds = float(request["seconds"])
        if not 0 <= seconds < float("inf"):
            raise ValueError(f"`seconds` is {seconds}: write how long, 0 or more")
        self._reported_by(request).retry_after = seconds
        return {}

    def do_check(self, _: dict[str, Any]) -> dict[str, Any]:
        self._lease.check()
        return {"token": self._lease.token}

    def do_fail(self, request: dict[str, Any]) -> dict[str, Any]:
        facts = {name: self._redacted(str(request.get(name) or "")) for name in ("reason", "traceback")}
        reported = self._reported_by(request)
        if reported is self.reported:
            self._writer.event(kinds.EXCEPTION, **facts)
        reported.failure, reported.attention = facts["reason"], bool(request.get("attention"))
        return {}

    def do_store(self, _: dict[str, Any]) -> dict[str, Any]:
        if not self.passed_store:
            return {"url": self._lease.store.url}
        from ..leases.handle import answer

        return answer(self.passed_store)

    def do_may_act(self, _: dict[str, Any]) -> dict[str, Any]:
        self._check_held()
        return {}

    def do_moved(self, request: dict[str, Any]) -> dict[str, Any]:
        self._progressed()
        if request.get("waits") and self._batch:
            self._batch.waits(self._reported_by(request))
        return {}

    # ── verbs that are answered from a thread: a store, or a target, may be far away ──

    def do_effect(self, request: dict[str, Any]) -> DeferredReply:
        return self._effect("effect", request)

    def do_effect_probed(self, request: dict[str, Any]) -> DeferredReply:
        return self._effect("effect-probed", request)

    def do_effect_ended(self, request: dict[str, Any]) -> DeferredReply:
        return self._effect("effect-ended", request)

    def do_publish(self, request: dict[str, Any]) -> DeferredReply:
        return self._publish("publish", request)

    def do_push(self, request: dict[str, Any]) -> DeferredReply:
        return self._publish("push", request)

    def do_agent_begin(self, request: dict[str, Any]) -> DeferredReply:
        agents, item = self._at_work(), self._reported_by(request)
        caps = self.item_caps if request.get("item") else ()
        self._progressed()
        return DeferredReply(lambda: agents.begin(request, caps, item.used))

    def do_agent(self, request: dict[str, Any]) -> DeferredReply:
        agents, reported = self._at_work(), self._reported_by(request)
        reported.refused = self._redacted(str(request.get("refused") or "")) or reported.refused
        if request.get("moved"):
            self._progressed()

        def record() -> dict[str, Any]:
            more = agents.record(request)
            if reported is not self.reported:
                reported.add(more)
            return {"more": more}

        return DeferredReply(record)

    def do_why(self, _: dict[str, Any]) -> dict[str, Any]:
        """For a command that was asked to end."""
        return {"why": self.why_ending()}

    def _at_work(self) -> AgentsAtWork:
        if self.agents is None:
            raise ValueError("no agents are launched here")
        return self.agents()

    def do_refused(self, request: dict[str, Any]) -> DeferredReply:
        """A gate refused a write that the command made under another lease."""

        def note() -> dict[str, Any]:
            run, token, stands = self._writer.run, request.get("token"), request.get("stands")
            what, reason = (self._redacted(str(request.get(name) or "")) for name in ("what", "reason"))
            facts = {"attempt": run.attempt, "what": what, "token": token, "stands": stands, "reason": reason}
            self._ledger.journal.note(run.job, kinds.REFUSED, run=run.id, **facts)
            return {}

        return DeferredReply(note)

    def _check_held(self) -> None:
        if self.holding:
            raise NotAllowed(
                "nothing was done: this job is supervised, and what its runs write waits for an approval. An effect "
                'cannot wait: hold its start instead (hold = "start" in nightlatch.toml)'
            )

    def _effect(self, verb: str, request: dict[str, Any]) -> DeferredReply:
        self._check_held()
        if self._effects is None:
            from ..effects.effect_requests import EffectRequests

            self._effects = EffectRequests(
                self._lease, self._ledger, self._writer, self.reported, self._redacted, self._bound
            )
        effects = self._effects
        self._progressed()
        return DeferredReply(lambda: effects.answer(verb, request))

    def _publish(self, verb: str, request: dict[str, Any]) -> DeferredReply:
        self._check_held()
        if self._publish_requests is None:
            from ..publishing.publish_requests import PublishRequests

            self._publish_requests = PublishRequests(self._lease, self._ledger, self._writer)
        self._progressed()
        return self._publish_requests.defer(verb, request)

    def _reported_by(self, request: dict[str, Any]) -> Reported:
        """What the attempt, or the batch item that the request is about, has reported so far."""
        item = str(request.get("item") or "")
        return self._batch.reported_by(item) if item and self._batch else self.reported

    @property
    def item_caps(self) -> tuple[Cap, ...]:
        return self._batch.item_caps if self._batch else ()

    def metered(self, amounts: dict[str, float], item: str) -> None:
        """Count a call of the gateway, which records it itself."""
        self.reported.add(amounts)
        if item and self._batch:
            self._batch.reported_by(item).add(amounts)
        self._watch.spent()

    def spend(self, amounts: dict[str, float], **about: str) -> str:
        """Record what was used, for the watch to judge. Returns where it is kept, if the store is away; else ""."""
        return self.spend_with(amounts, about, ())

    def spend_with(self, amounts: dict[str, float], about: dict[str, str], records: Records) -> str:
        """As `spend`, with `records` in the same commit."""
        verb, kept = self._writer.used(amounts, about), ""
        verb.records = records
        try:
            if self.unwritten:
                raise StoreUnreachable("the store is away")  # what waits is written first
            self._writer.take(verb)
        except StoreUnreachable as store_error:
            try:
                self.unwritten.keep(amounts, verb)
            except OSError as error:
                raise StoreUnreachable(
                    f"not recorded: {store_error}; nor can it be kept on this machine ({error})"
                ) from error
            kept = "the store is away: the usage is on this machine's disk, and will be recorded when it is back"
        self.reported.add(amounts)
        self._watch.spent()
        if self.on_spent:
            self.on_spent(amounts, about.get("item", ""))
        return kept

    def _redacted(self, text: str) -> str:
        return self.hidden.text(text)


_LONGEST_NAME = 200  # characters of a model or a tag


def _count(given: object) -> int:
    """A count that every database can store."""
    count: int = int(given or 0)  # type: ignore[call-overload]
    if not 0 <= count < 1 << 63:
        raise ValueError(f"{count} is not a count")
    return count
