"""An effect, from the first look to its record:

    look → hold (the key's lease) → look again, probe → begin → act → judge and record

Between begin and record only the command knows whether it has acted. If any process dies there, the effect is in
doubt, and an effect in doubt is never repeated without a decision.
"""

from __future__ import annotations

import os
import select
import sys
import time

from ....core import duration
from ....core import effects as rules
from ....core.effects import DONE, FAILED, FIRST_PAUSE, IN_DOUBT, LONGEST_PAUSE
from ....core.value import value
from ....errors import Busy, InDoubt, LeaseLost, Nested, StaleToken, StoreUnreachable, UsageError
from ....ledger import open_for
from ....ledger.effects import Effect
from ....store import url
from ....system import clock, program, redaction, tree, warden
from ....system.warden_messages import Ended, NotStarted, Report, Started
from ...shared.effect_records import EffectRecords, doubt_message, hint
from ...shared.leases.lease import Lease
from ..supervision import GRACE, Supervision
from .probe_wait import Interruptible, pause_without_stall

RESULT = 4096  # bytes of standard output that are kept as the result

_DONE_BY_PROBE, _NOT_DONE_BY_PROBE = 0, 1  # exit codes of a probe
_NOT_STARTED = {  # exit code and reason, by why the warden did not start the command
    warden.LOST: (LeaseLost.exit_code, "the lease was lost"),
    warden.TIMED_OUT: (124, "it timed out before its intent was recorded"),
}
_ENDED_BY = {warden.LEFTOVERS: "", warden.SIGNALLED: "Ctrl-C or a shutdown", warden.TIMED_OUT: "it timed out"}
_INTERRUPTED = 130  # exit code after Ctrl-C, which reaches the command directly on a terminal


@value(frozen=True, kw_only=True)
class OnceRequest:
    """An effect to be done once by a command. Times are seconds."""

    key: str
    command: list[str]
    scope: str = rules.STORE_WIDE
    probe: tuple[str, ...] = ()  # () for none
    not_done: frozenset[int] = frozenset()  # exit codes that prove that nothing was done
    input: str = ""  # fingerprint
    timeout: float = 600.0
    settling: float = 10.0  # how long after the deadline a killed client's request may be in a server's queue
    wait: float = 0.0


@value(frozen=True, kw_only=True)
class EffectOutcome:
    """`done` now, `skipped` (done before), or `failed` (proven not done). For an effect in doubt, InDoubt is raised."""

    status: str
    exit_code: int
    message: str
    effect: Effect | None = None
    result: str = ""


def once(request: OnceRequest, *, store: str | None = None, screen: int = 1) -> EffectOutcome:
    """Do the effect unless it is done. Raises InDoubt when nobody knows whether it was done, Busy while another process
    does it.

    Needs its own process, as `Supervision` does.
    """
    return _Once(request, store, screen).go()


class _Once:
    def __init__(self, request: OnceRequest, store: str | None, screen: int) -> None:
        self.request, self.screen = request, screen  # `screen`: where the command's output is shown
        self.store = url.connect(store)
        self.store_option = store  # as the user named it, for Nightlatch commands that the command runs
        self.records = EffectRecords(self.store, open_for(url.resolve(store)), request.scope, request.key)
        self.started = clock.now()
        self.doubtful: Effect | None = None  # the effect, if this call left it in doubt
        self.ended_by_request = False  # a signal asked the command to end
        self.grace = min(GRACE, request.timeout)
        self.hidden = redaction.secrets(os.environ)  # redacted in all that is shown or recorded

    def go(self) -> EffectOutcome:
        with Supervision(self.request.command, self.store.folder, captured=(1,)) as self.supervision:
            skipped = self._look()
            if skipped:
                return skipped
            lease = self._hold()
            self.store_env = self.supervision.store_environment(self.store_option)
            return self._do_under_lease(lease)

    # ── look ──

    def _look(self) -> EffectOutcome | None:
        """Look before taking the lease: most calls of a repeated batch end here."""
        done, recorded = self.records.peek(self.request.input)
        if done:
            return _skipped_outcome(self.request.key, done.value, done.at)
        if recorded and recorded.status == IN_DOUBT and not (self.request.probe or self.records.ledger_is_per_machine):
            raise self._doubt(recorded)  # (a ledger per machine may be out of date: then the store decides)
        return None

    def _hold(self) -> Lease:
        store, request = self.store, self.request
        try:
            return self.supervision.hold(store, self.records.lease_name, ttl=store.default_ttl, wait=request.wait)
        except Nested:
            raise
        except Busy as busy:
            raise Busy(f"the effect {self.request.key} is being done right now: {busy}", busy.record) from None

    def _do_under_lease(self, lease: Lease) -> EffectOutcome:
        recorded = self.records.look(lease, self.request.input)
        if recorded and recorded.status == IN_DOUBT:
            recorded = self._probe(lease, recorded)
        if recorded and recorded.status == DONE:
            return _skipped_outcome(self.request.key, recorded.result, recorded.changed, recorded)
        # The command may act until its end is certain: its timeout, and then the grace before SIGKILL. Both count
        # from here, however long the store takes.
        limit = clock.now() + self.request.timeout
        effect = self.records.begin(
            lease,
            recorded,
            command=self.hidden.text(" ".join(self.request.command)),
            input=self.request.input,
            lasting=self.request.timeout + self.grace,
        )
        report, printed = self._act(limit)
        try:
            return self._record(lease, effect, report, printed)
        except InDoubt:
            if self.doubtful is None or not self.request.probe or self.ended_by_request:
                raise
            return self._probe_at_once(lease, self.doubtful)

    def _probe_at_once(self, lease: Lease, doubtful: Effect) -> EffectOutcome:
        """Let the probe decide an effect that has just ended in doubt, if there is time to wait for its answer."""
        self.started = clock.now()
        decided, code = self._probe(lease, doubtful), doubtful.exit_code or 1
        if decided.status == DONE:
            return EffectOutcome(
                status=DONE, exit_code=0, message=f"{doubtful.reason}; the probe says that it is done", effect=decided
            )
        return EffectOutcome(
            status=FAILED, exit_code=code, message="the probe says that it was not done", effect=decided
        )

    # ── probe ──

    def _probe(self, lease: Lease, recorded: Effect) -> Effect:
        """Decide an effect in doubt by its probe: done, or failed. Raises InDoubt if the probe does not know.

        A probe finds what has arrived. So its "done" counts at once, and its "not done" only when a killed client's
        request can no longer be under way.
        """
        if not self.request.probe:
            raise self._doubt(recorded)
        try:
            with Interruptible() as signals:
                code, unknown = self._await_final_answer(lease, recorded, signals)
        except KeyboardInterrupt:
            raise self._doubt(recorded, "asked to end while it waited for the probe") from None
        if unknown:
            raise self._doubt(recorded, unknown)
        lease.check()
        status = DONE if code == _DONE_BY_PROBE else FAILED
        probe = self.hidden.text(" ".join(self.request.probe))
        return self.records.decide(lease, recorded, status, by=f"probe: {probe} exited with {code}")

    def _await_final_answer(self, lease: Lease, recorded: Effect, signals: Interruptible) -> tuple[int, str]:
        """Repeat `_run_probe` until its answer is final, and return that. Raises InDoubt if this takes longer than
        we may wait."""
        pause, until = FIRST_PAUSE, self.started + self.request.wait
        if recorded.deadline == recorded.changed:  # its command's end was noticed late, usually just now
            until = max(until, clock.now() + self.request.settling)
        while True:
            probed_at = clock.now()
            unsettled = recorded.deadline + self.request.settling - self.store.clock()
            code, unknown = self._run_probe(lease, signals)
            if code == _DONE_BY_PROBE or unsettled <= 0:
                return code, unknown
            answer, left = unknown or "the probe does not see it", duration.show(max(unsettled, 1.0))
            if probed_at + unsettled > until + 0.1:
                early = f"{answer}, but its request may be under way for another {left}"
                raise self._doubt(recorded, f"{early}: run it again then, or with --wait")
            if pause == FIRST_PAUSE:
                print(
                    f"nightlatch: the effect {recorded.key} is in doubt: {recorded.reason}; {answer}, but its request "
                    f"may be under way for another {left}. Waiting; Ctrl-C leaves it in doubt",
                    file=sys.stderr,
                )
            pause_without_stall(min(pause, unsettled))
            pause = min(2 * pause, LONGEST_PAUSE)

    def _run_probe(self, lease: Lease, signals: Interruptible) -> tuple[int, str]:
        """Run the probe; returns its exit code, and why that decides nothing ("" if it decides)."""
        lease.check()
        env = self.supervision.environment() | self._environment()
        signals.postpone()
        before = tree.descendants(os.getpid())
        self.supervision.warden.supervisor_works(True)
        try:
            running = program.start(self.request.probe, env=env)
            try:
                signals.resume()
                code, _, _ = running.finish(self.request.timeout)
            except BaseException:
                running.end()
                raise
            finally:
                tree.kill_since(before)
                self.supervision.warden.supervisor_works(False)
        except program.Unfinished as unfinished:
            return -1, f"the probe did not end ({unfinished})"
        except OSError as error:
            raise UsageError(f"the probe {self.request.probe[0]!r} cannot be run: {error.strerror}") from error
        if code in (_DONE_BY_PROBE, _NOT_DONE_BY_PROBE):
            return code, ""
        return code, f"the probe does not know (exit code {code}; 0 is done, 1 is not)"

    # ── act ──

    def _environment(self) -> dict[str, str]:
        """Variables for the command and the probe. The idempotency key depends only on scope and key, so that a server
        gets the same one at every try."""
        key, scope = self.request.key, self.request.scope
        own = {"NIGHTLATCH_KEY": key, "NIGHTLATCH_IDEMPOTENCY_KEY": rules.idempotency_key(key, scope)}
        return self.store_env | own

    def _act(self, limit: float) -> tuple[Report, bytes]:
        """Run the command under the warden; returns its last report, and the beginning of its output."""
        self.supervision.start(self.supervision.environment() | self._environment(), grace=self.grace, limit=limit)
        last: Report | None = None
        kept, screen, output = b"", self.screen, redaction.Redacted(self.hidden)
        stdout, its_warden = self.supervision.streams[1], self.supervision.warden
        reading = {its_warden.fileno(), stdout}
        while reading:
            poll = select.poll()
            for fd in reading:
                poll.register(fd, select.POLLIN)
            ready = {fd for fd, _ in poll.poll(clock.SLICE * 1000)}
            if stdout in ready:
                data = os.read(stdout, 1 << 16)
                shown = output.feed(data)
                kept = (kept + shown)[:RESULT]
                screen = _show(screen, shown)
                if not data:
                    reading.discard(stdout)
            report = None if last else its_warden.report()
            if report and not isinstance(report, Started):
                last = report
                reading.discard(its_warden.fileno())
                its_warden.dismiss()  # the warden holds the command's output open too
        assert last
        return last, kept

    # ── judge and record ──

    def _record(self, lease: Lease, effect: Effect, report: Report, printed: bytes) -> EffectOutcome:
        message, exit_code = "", 0
        match report:
            case NotStarted():
                status, reason, exit_code, message = FAILED, report.reason, report.exit_code, report.reason
            case Ended(started=False):
                exit_code, why = _NOT_STARTED.get(report.why, (report.exit_code, "asked to end"))
                status, reason = FAILED, f"it was not started: {why}"
            case Ended():
                exit_code = report.exit_code
                ended_by = "the lease was lost" if lease.lost else _ENDED_BY.get(report.why, report.why)
                if report.signal and not ended_by:
                    ended_by = f"signal {report.signal}"
                self.ended_by_request = report.why == warden.SIGNALLED or exit_code == _INTERRUPTED
                status, reason = rules.judge(exit_code, ended_by, self.request.not_done)
                message = f"{self.request.command[0]} {report.leftovers}" if report.leftovers else ""
            case _:
                status, reason = IN_DOUBT, "its warden was killed"
        result = printed.decode(errors="backslashreplace") if status == DONE else ""
        try:
            ended = self.records.finish(lease, effect, status, exit_code=exit_code, result=result, reason=reason)
        except (StaleToken, LeaseLost, StoreUnreachable) as unable:
            raise InDoubt(
                f"the effect {self.request.key} has ended ({reason or 'exit code 0'}), which could not be recorded, so "
                f"it is in doubt: {unable}. Look, then: {hint(self.request.scope, self.request.key)}"
            ) from None
        if status == IN_DOUBT:
            self.doubtful = ended
            raise self._doubt(ended)
        return EffectOutcome(status=status, exit_code=exit_code, message=message or reason, effect=ended, result=result)

    def _doubt(self, effect: Effect, more: str = "") -> InDoubt:
        probe = "" if self.request.probe else ", or run it again with --probe CMD (exit 0: done, 1: not done)"
        return InDoubt(f"{doubt_message(effect, more)}{probe}")


def _skipped_outcome(key: str, result: str, at: float, effect: Effect | None = None) -> EffectOutcome:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
    return EffectOutcome(
        status="skipped", exit_code=0, message=f"skipped: {key} is done since {when}", effect=effect, result=result
    )


def _show(screen: int, data: bytes) -> int:
    """Show output; returns where to show the next part: nowhere if the screen is closed; the command goes on."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(screen, view) :]
    except OSError:
        return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    return screen
