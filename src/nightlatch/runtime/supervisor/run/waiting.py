"""Between two tries of a run: nothing is held, and a person may cancel or retry it."""

from __future__ import annotations

from ....config import place
from ....core import statuses
from ....errors import Busy, StoreUnreachable, UsageError
from ....ledger import open_for
from ....ledger.ledger import Ledger
from ....ledger.records import RunRow
from ....store import url
from ....system import clock, identity
from ....system.light import signal
from ...shared import verdict as verdicts
from ...shared.verdict import Verdict
from ..supervision import BY_HAND, Supervision


def moved_on(before: RunRow, run: RunRow) -> bool:
    """Has another supervisor made the try, or somebody ended the run? (`nightlatch retry` makes it pending.)"""
    return run.attempt != before.attempt or run.status not in (statuses.WAITING, statuses.PENDING)


def outcome(run: RunRow) -> int:
    """The exit code for a run that moved on without us; raises `Busy` while another supervisor works on it."""
    if run.status == statuses.RUNNING:
        raise Busy(f"{run.job} ({run.key}): attempt {run.attempt} is being made by {run.holder}")
    return statuses.exit_code(run.status, run.exit_code)


def cancel(run: RunRow, ledger: Ledger) -> RunRow | None:
    """Cancel a run that waits: a person requested the end of an attempt that then failed by itself. None: the run has
    moved on."""
    return ledger.decisions.end_waiting(run, f"cancelled by {run.cancel}", run.cancel, person=True)


class Signals:
    """Signals that ask us to end, from the moment that the run waits; `received` has them in order."""

    def __init__(self, supervision: Supervision) -> None:
        # A signal that came too late for the command counts too.
        self.received = [supervision.end_signal] if supervision.end_signal else []
        self._earlier_handlers = supervision.collect_signals(self.received)

    def restore(self) -> int:
        """Restore the handlers. Returns the first signal that came meanwhile; 0: none."""
        for signum, handler in self._earlier_handlers.items():
            signal.signal(signum, handler)
        return self.received[0] if self.received else 0


def wait(verdict: Verdict, store: str | None, signals: Signals) -> RunRow | Verdict:
    """Wait until the next try may be made, and return the run; or its verdict, if somebody ended it, another
    supervisor made the try, or a signal asked us to end."""
    where = url.resolve(store)
    ledger = open_for(where)
    try:
        before, run = _wait(verdict.run, ledger, signals)
    finally:
        signum = signals.restore()
    ended = run
    if signum:
        person, by = signum in BY_HAND, f"{identity.user()}@{identity.host()}"
        reason = f"ended between two tries ({'Ctrl-C' if person else 'a shutdown, a kill'})"
        ended = ledger.decisions.end_waiting(run, reason, by, person=person) or _existing(ledger, run.id)
    elif run.cancel and run.status == statuses.WAITING:
        ended = cancel(run, ledger) or _existing(ledger, run.id)
    ledger.close()
    if not signum and not moved_on(before, ended):
        return ended
    code = 128 + signum if signum else outcome(ended)
    final = verdicts.of(ended, exit_code=code, host=verdict.host, at=clock.wall(), head=ended.anchor)
    verdicts.append(url.connect(where).folder, final, as_json=place.logs_json())
    return final


def _wait(run_id: str, ledger: Ledger, signals: Signals) -> tuple[RunRow, RunRow]:
    """The run at the beginning and at the end of the wait."""
    before = run = _existing(ledger, run_id)
    until = clock.now() + (run.due or 0.0) - ledger.clock()
    while (
        not signals.received and run.status == statuses.WAITING and not run.cancel and (left := until - clock.now()) > 0
    ):
        clock.sleep(left)
        try:
            run = _existing(ledger, run_id)
        except StoreUnreachable:
            continue  # only the next try needs the store
    return before, run


def _existing(ledger: Ledger, run_id: str) -> RunRow:
    run = ledger.run(run_id)
    if run is None:
        raise UsageError(f"run {run_id} is gone: retention has removed it")
    return run
