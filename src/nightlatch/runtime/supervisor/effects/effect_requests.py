"""Effects of a run's command, in the supervisor: it holds the effect's lease, and records intent and end.

The lease of an effect's key is taken with the run's own grant and lifetime: before it expires, another holder gets it
only on proof that this run's whole tree is gone. It lasts as long as the effect may take, and a command that takes
longer is ended. So nobody else trusts a probe, or acts, while a process of this run may still act.
"""

from __future__ import annotations

from _thread import allocate_lock

from ....core import effects as rules
from ....core import statuses
from ....core.effects import DONE, FAILED, IN_DOUBT
from ....errors import Busy, Error, InDoubt, LeaseLost, Nested, StaleToken, StoreUnreachable, UsageError
from ....ledger import kinds
from ....system import clock
from ...shared.effect_records import EffectRecords, doubt_message, hint
from ...shared.leases.acquire import acquire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ....ledger.effects import Effect
    from ....ledger.ledger import Ledger
    from ....ledger.writer import Writer
    from ...shared.leases.lease import Lease
    from ..socket.reported import Reported

GRACE = 2.0  # seconds between SIGTERM and SIGKILL for a command whose effect is overdue
_MARGIN = 1.0  # seconds until an overdue effect is noticed, and its command killed


class EffectLease:
    """The lease of an effect's key, under the run's grant."""

    def __init__(self, lease: Lease, name: str, ttl: float) -> None:
        lease.check()
        self.name, self.grant, self.holder = name, lease.grant, lease.holder
        self._store = lease.store
        self.token = acquire(lease.store, name, lease.grant, lease.holder, ttl, 0.0)[0].token

    def release(self) -> None:
        """Try a few times: if the lease stays, others have to wait for its TTL."""
        for _ in range(5):
            try:
                return self._store.release(self.name, self.grant)
            except LeaseLost:
                return None
            except StoreUnreachable:
                clock.sleep(0.2)
        return None


class _OpenEffect:
    """An effect that this run works on."""

    def __init__(self, records: EffectRecords, probes: bool) -> None:
        self.records, self.probes = records, probes
        self.held: EffectLease | None = None
        self.effect: Effect | None = None
        self.began = False  # the intent of this try is recorded
        self.settle = 0.0  # seconds after the deadline in which a request may still be under way
        self.probed_at = 0.0  # by the store's clock
        self.until = float("inf")  # when the effect is overdue

    def unsettled(self) -> float:
        """Seconds until the probe's "not done" is final: until then a request may be under way."""
        assert self.effect
        return self.effect.deadline + self.settle - self.probed_at


class EffectRequests:
    """May be used by any thread; only one at a time works on the same effect."""

    def __init__(
        self,
        lease: Lease,
        ledger: Ledger,
        writer: Writer,
        reported: Reported,
        redacted: Callable[[str], str],
        bound: Callable[[float], None],
    ) -> None:
        """`bound`: called with the time by which the command must have ended, even if this process is stopped; inf:
        no limit."""
        self._bound = bound
        self._lease, self._ledger, self._writer, self._reported = lease, ledger, writer, reported
        self._redacted = redacted
        self._mutex = allocate_lock()
        self._open: dict[str, _OpenEffect] = {}  # by the lease's name

    def answer(self, verb: str, request: dict[str, Any]) -> dict[str, Any]:
        records = EffectRecords(
            self._lease.store, self._ledger, str(request.get("scope") or rules.STORE_WIDE), request["key"]
        )
        if verb == "effect":
            return self._begin(records, request)
        found = self._open.get(records.lease_name)
        if found is None or found.held is None or found.effect is None:
            raise UsageError(f"the effect {records.key} is not being done here")
        self._set_until(found, float("inf"))
        if verb == "effect-probed":
            return self._probed(found, request)
        return self._ended(found, request)

    def overdue(self, now: float) -> tuple[str, str, float] | None:
        """(status, reason, grace) to end the command with, if an effect is overdue. That effect is then in doubt."""
        for one in list(self._open.values()):
            if now >= one.until:
                # With a probe, the next attempt finds out whether it was done; without one, a person has to.
                status = statuses.STALLED if one.probes else statuses.NEEDS_ATTENTION
                return status, f"the effect {one.records.key} did not end in time, and is in doubt", GRACE
        return None

    def abandon(self) -> None:
        """Call it when the command's tree is gone: effects whose end it did not report are in doubt."""
        for one in list(self._open.values()):
            if one.held and one.effect and one.began:
                self._reported.abandoned = one.records.key
                try:
                    self._finish(one, IN_DOUBT, reason="its process was gone before it reported how it ended")
                except (Error, LeaseLost):
                    continue  # the next holder of the key's lease finds it begun, and records the same
            if one.held:
                self._close(one)

    # ── begin ──

    def _begin(self, records: EffectRecords, request: dict[str, Any]) -> dict[str, Any]:
        input_, probes = str(request.get("input") or ""), bool(request.get("probes"))
        done, _ = records.peek(input_)
        if done:
            return {"status": DONE, "result": done.value}  # without the lease: most calls of a resumed run end here
        one = _OpenEffect(records, probes)
        with self._mutex:
            if records.lease_name in self._open:
                raise Busy(f"the effect {records.key} is already being done by this run: two of its steps share a key")
            self._open[records.lease_name] = one
        goes_on = False
        try:
            answer = self._begin_under_lease(one, request, input_)
            goes_on = answer["status"] in ("begun", "probe")
            return answer
        finally:
            if not goes_on:
                self._close(one)

    def _begin_under_lease(self, one: _OpenEffect, request: dict[str, Any], input_: str) -> dict[str, Any]:
        lasting = float(request["lasting"]) + GRACE + _MARGIN
        try:
            held = one.held = EffectLease(self._lease, one.records.lease_name, lasting)
        except Nested:
            raise
        except Busy as busy:
            raise Busy(f"the effect {one.records.key} is being done right now: {busy}", busy.record) from None
        recorded = one.records.look(held, input_)
        if recorded and recorded.status == DONE:
            return {"status": DONE, "result": recorded.result}
        self._set_until(one, clock.now() + float(request["lasting"]))  # counted from here, however long the store takes
        if recorded and recorded.status == IN_DOUBT:
            if not one.probes:
                raise self._doubt(recorded)
            one.effect, one.settle = recorded, float(request["settle"])
            one.probed_at = self._lease.store.clock()
            return {"status": "probe", "reason": recorded.reason}
        one.effect = one.records.begin(
            held, recorded, command=f"run {self._writer.run.id}", input=input_, lasting=lasting
        )
        one.began = True
        return {"status": "begun"}

    # ── probed, ended ──

    def _probed(self, one: _OpenEffect, request: dict[str, Any]) -> dict[str, Any]:
        assert one.held and one.effect
        try:
            if request["outcome"] != DONE and one.unsettled() > 0:
                return {"status": "wait", "seconds": one.unsettled()}
            if request["outcome"] not in (DONE, FAILED):
                reason = self._redacted(str(request.get("reason") or ""))
                raise self._doubt(one.effect, f"the probe does not know ({reason})")
            self._lease.check()
            result = str(request.get("result") or "")
            one.records.decide(
                one.held, one.effect, request["outcome"], by=f"probed by run {self._writer.run.id}", result=result
            )
            self._reported.doubts.discard(one.records.key)
            self._writer.event(kinds.EFFECT_OF_RUN, key=one.records.key, status=request["outcome"], by="probe")
            return {"status": request["outcome"]}
        finally:
            self._close(one)

    def _ended(self, one: _OpenEffect, request: dict[str, Any]) -> dict[str, Any]:
        status = request["status"]
        if status not in (DONE, FAILED, IN_DOUBT) or not one.began:
            raise ValueError(f"an effect cannot end as {status!r} here")
        reason = self._redacted(str(request.get("reason") or ""))
        try:
            ended = self._finish(one, status, result=str(request.get("result") or ""), reason=reason)
        finally:
            self._close(one)
        if status == IN_DOUBT and not one.probes:
            raise self._doubt(ended)
        return {"status": status}

    def _finish(self, one: _OpenEffect, status: str, *, result: str = "", reason: str = "") -> Effect:
        assert one.held and one.effect
        key = one.records.key
        if status == IN_DOUBT and not one.probes:
            self._reported.doubts.add(key)
        try:
            ended = one.records.finish(one.held, one.effect, status, exit_code=None, result=result, reason=reason)
        except (StaleToken, LeaseLost, StoreUnreachable) as unable:
            self._reported.doubts.add(key)
            why = f"the effect {key} could not be recorded as {status}: {unable}"
            raise InDoubt(f"{why}. Look, then: {hint(one.records.scope, key)}") from None
        self._writer.event(kinds.EFFECT_OF_RUN, key=key, status=status, reason=reason or None)
        return ended

    def _doubt(self, effect: Effect, more: str = "") -> InDoubt:
        self._reported.doubts.add(effect.key)
        return InDoubt(doubt_message(effect, more))

    def _set_until(self, one: _OpenEffect, at: float) -> None:
        with self._mutex:
            one.until = at
            self._bound(min(other.until for other in (one, *self._open.values())) + GRACE)

    def _close(self, one: _OpenEffect) -> None:
        if one.until < float("inf"):
            self._set_until(one, float("inf"))
        if one.held:
            one.held.release()
        self._open.pop(one.records.lease_name, None)
