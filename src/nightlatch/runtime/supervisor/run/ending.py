"""How an attempt ends: what its command did, what the warden saw, and what was decided from outside."""

from __future__ import annotations

from .... import exits
from ....core import duration, statuses
from ....system import warden
from ....system.warden_messages import Ended, NotStarted, Report, WardenDied
from ..supervision import BY_HAND, Supervision

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....errors import LeaseLost
    from ..socket.reported import Reported


class Ending:
    def __init__(self, supervision: Supervision | None = None) -> None:
        """`supervision`: its signals may have ended the attempt; None for a dry-run, which has no lease to lose."""
        self._supervision = supervision
        self.over = False  # the command has ended, or is never started
        self.decided: tuple[str, str] | None = None  # status and reason, if it is ended from outside
        self.exit_code = 0  # the command's own; 128 + N if signal N ended it
        self.why = ""  # what ended the command, as the warden reports it
        self.left = 0  # how many processes the command left behind

    def take(self, report: Report) -> None:
        """Take a report that the work has ended. Of two such reports by the warden, the first counts."""
        match report:
            case Ended() if not self.over:
                self.over, self.exit_code, self.why, self.left = True, report.exit_code, report.why, report.left
            case NotStarted():
                self.decide(statuses.FAILED, report.reason, report.exit_code)
            case WardenDied():
                self.decide(statuses.LOST, "its warden was killed; all it had started was ended", exits.OURS)

    def decide(self, status: str, reason: str, exit_code: int) -> None:
        """End the attempt with this status, whatever the command did."""
        self.decided, self.over, self.exit_code, self.why, self.left = (status, reason), True, exit_code, "", 0

    @property
    def end_signal(self) -> int:
        """The signal that asked us to end, or that a person ended the command with at the terminal. 0: none."""
        if self._supervision is None:
            return 0
        terminal_signal = self._supervision.terminal_signal
        return self._supervision.end_signal or (terminal_signal if self.exit_code == 128 + terminal_signal else 0)

    @property
    def was_interrupted(self) -> bool:
        """Did the command end because a signal asked us to end? A shutdown may reach the command before us."""
        return not self.decided and (self.why == warden.SIGNALLED or bool(self.end_signal and self.exit_code))

    def fail_if_abandoned(self, reported: Reported) -> None:
        """A process that ended in the middle of an effect has failed, whatever its exit code."""
        if reported.abandoned and not self.exit_code:
            self.exit_code = 1
            reported.failure = reported.failure or f"its process ended in the middle of the effect {reported.abandoned}"

    def fail_if_complained(self, reported: Reported, why: str) -> None:
        """A command whose last output says why it failed has failed, whatever its exit code."""
        if why and not self.exit_code:
            self.exit_code, reported.failure = 1, reported.failure or why

    def judge(
        self, lost: LeaseLost | None, timeout: float | None, reported: Reported, *, done: bool = False
    ) -> tuple[str, str]:
        """(status, reason). `done`: a batch reported that all is done; a later request to end changes nothing."""
        if lost or self.why == warden.LOST:
            return statuses.LOST, str(lost or "the lease was lost")
        if self.why == warden.TIMED_OUT:
            return statuses.TIMED_OUT, f"not done after {duration.show(timeout or 0)}"
        if done:
            return statuses.SUCCEEDED, ""
        if self.decided:
            return self.decided
        if self.was_interrupted:
            if self.end_signal and self.end_signal not in BY_HAND:
                return statuses.LOST, "its supervisor was ended by a signal (a shutdown, a kill)"
            return statuses.CANCELLED, "its supervisor was interrupted (Ctrl-C)"
        if not self.exit_code:
            return statuses.SUCCEEDED, ""
        if reported.refused:
            return statuses.OVER_BUDGET, reported.refused
        # An effect in doubt, or an item set aside, needs a person: no retry is spent on it.
        doubts = ", ".join(sorted(reported.doubts))
        status = statuses.NEEDS_ATTENTION if reported.attention or doubts else statuses.FAILED
        return status, reported.failure or (f"in doubt: {doubts}" if doubts else f"exit code {self.exit_code}")

    def exit_code_as(self, status: str, own: int, lost: LeaseLost | None) -> int:
        """The exit code of the start. `own`: the command's exit code, 0 if it succeeded."""
        if status in (statuses.SUCCEEDED, statuses.FAILED):
            return own
        if status in (statuses.LOST, statuses.CANCELLED) and not lost and self.was_interrupted:
            return own or 128 + self.end_signal  # it was interrupted, even if it exited with 0
        return own if status == statuses.LOST and self.decided and not lost else statuses.exit_code(status)
