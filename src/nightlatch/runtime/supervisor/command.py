"""A command under its warden: the work of `lock`, `once`, a run and a dry-run."""

from __future__ import annotations

import os

from ...system.warden import Warden

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.tenure import Tenure
    from ...system.lifetime import Lifetime
    from ...system.warden_messages import Report


class CommandWork:
    def __init__(
        self,
        argv: Sequence[str],
        *,
        captured: Sequence[int] = (),
        blocked: bool = False,
        metered: bool = False,
    ) -> None:
        """`captured`: the command's standard streams (1, 2) that this process reads, from the descriptors in `streams`.
        `blocked`: start the command with termination signals blocked; it unblocks them when its handlers are installed.
        `metered`: its usage figures are at the end of its output."""
        self.name, self._argv = argv[0], list(argv)
        self._captured, self._blocked, self._metered = captured, blocked, metered
        self.streams: dict[int, int] = {}  # by standard stream: the descriptor to read it from

    def prepare(self, grant: str, lifetime: Lifetime | None) -> None:
        pipes = {number: os.pipe() for number in self._captured}
        self.streams = {number: reading_end for number, (reading_end, _) in pipes.items()}
        out, err = (pipes[number][1] if number in pipes else number for number in (1, 2))
        self._warden = Warden(grant, (out, err) if pipes else None, lifetime=lifetime, blocked=self._blocked)
        for _, writing_end in pipes.values():
            os.close(writing_end)

    def reattach(self) -> bool:
        return False  # an earlier attempt's command was proven gone before this one got the lease

    def start(self, environment: dict[str, str], *, cwd: str, grace: float, limit: float | None) -> None:
        if limit is not None:
            self._warden.limit(limit)
        self._warden.start(self._argv, environment, cwd=cwd, grace=grace)

    @property
    def descriptors(self) -> tuple[int, ...]:
        return (self._warden.fileno(),)

    def report(self, seconds: float = 0.0) -> Report | None:
        return self._warden.report(seconds)

    def keep(self, tenure: Tenure) -> None:
        self._warden.keep(tenure)

    def pass_on(self, signum: int) -> None:
        self._warden.pass_on(signum)

    def ask_to_end(self, why: str, grace: float, signum: int) -> None:
        self._warden.ask_to_end(why, grace, signum)

    def bound(self, at: float) -> None:
        """End the command if its current effect is not over at this time; inf: no such deadline."""
        self._warden.bound(at)

    def supervisor_works(self, works: bool) -> None:
        """Tell the warden whether this process itself runs something that must not outlive the grant."""
        self._warden.supervisor_works(works)

    def used(self, printed: bytes) -> dict[str, float]:
        if not self._metered:
            return {}
        from ..shared.usage import from_output

        return from_output(printed)

    def end(self) -> None:
        self._warden.dismiss()

    def close(self) -> None:
        self._warden.close()
        for reading_end in self.streams.values():
            os.close(reading_end)
