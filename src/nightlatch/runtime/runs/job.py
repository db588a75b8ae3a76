"""A job: a command with its bounds, checked before anything is begun."""

from __future__ import annotations

import os

from ...core import budget, duration
from ...core.model import check_name
from ...core.value import value
from ...errors import UsageError
from ..leases.lease import MINIMUM_TTL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...core.budget import Cap

BY_HAND = "by-hand-"  # how the key of a run without one begins
LOST_POLICIES = ("again", "doubt")


@value(frozen=True, kw_only=True)
class Job:
    """What is to be run, under which name and key, and within which bounds. Times are seconds."""

    name: str
    command: list[str]
    key: str = ""  # "": a run of its own, which no other run repeats
    slot: str = ""
    ttl: float | None = None  # None: the store's default
    wait: float = 0.0
    timeout: float | None = 3600.0
    stall: float | None = None
    watched: tuple[str, ...] = ()  # files and folders whose change counts as progress
    reports: bool = False  # the command reports progress through the socket
    grace: float = 10.0
    caps: tuple[Cap, ...] = ()
    meter: str = ""  # "report" (nightlatch spend), or "output" (the agent's final JSON)
    env: tuple[tuple[str, str], ...] = ()
    cwd: str = ""
    workspace: str = ""  # "scratch", "git" or "git:URL#branch": a fresh folder for each attempt
    publish: tuple[str, ...] = ()  # "FROM=TO" or "git": what lands where, through gates, when the command succeeded
    inputs: tuple[str, ...] = ()  # files whose sha256 is recorded
    lost: str = ""  # "": again where all writes go through gates, else doubt
    again: bool = False
    new: bool = False
    keep_awake: bool = False
    pass_store: bool = False  # the command may ask for the store with its password

    def check(self) -> Job:
        """This job, if it can be run as it stands; otherwise says what to add."""
        check_name(self.name)
        if not self.command:
            raise UsageError(f"no command given: nightlatch run {self.name} -- CMD …")
        if len(self.key) > 1000 or self.key != self.key.encode(errors="replace").decode():
            raise UsageError(f"{self.key[:200]!r} cannot be a key: use up to 1000 characters, in UTF-8")
        if self.ttl is not None and self.ttl < MINIMUM_TTL:
            raise UsageError(f"--ttl: use at least {duration.show(MINIMUM_TTL)}, to renew it in time")
        if self.stall is not None and not self.watched and not self.reports:
            raise UsageError(
                "--stall needs a source of progress: add --progress report (the command calls `nightlatch progress`), "
                "or --progress PATH (a file or folder that changes as the work goes on)"
            )
        if self.caps and not self.meter:
            raise UsageError(
                "a budget needs a meter: add --meter report (the command calls `nightlatch spend`), or --meter output "
                "(usage is read from the final JSON of claude -p --output-format json or codex exec --json)"
            )
        if self.lost and self.lost not in LOST_POLICIES:
            raise UsageError(f"--lost {self.lost!r} is none of {', '.join(LOST_POLICIES)}")
        kind = self.workspace.partition(":")[0]
        if kind not in ("", "scratch", "git") or self.workspace.startswith("scratch:"):
            raise UsageError(f"--workspace {self.workspace!r} is neither scratch, git nor git:URL#branch")
        if self.publish and not kind:
            raise UsageError("--publish takes from a workspace: add --workspace scratch (an empty folder) or git")
        if "git" in self.publish and kind != "git":
            raise UsageError("--publish git pushes what is committed in a clone: add --workspace git")
        for path in self.inputs:
            if not os.path.isfile(path):
                raise UsageError(f"--input {path}: there is no such file")
        return self

    @property
    def when_lost(self) -> str:
        """What becomes of an attempt whose holder died: it may have acted, unless it could only do so through gates."""
        return self.lost or ("again" if self.workspace and self.publish else "doubt")


def seconds(text: str | None, what: str) -> float | None:
    """A bound: a duration, or `none`."""
    word = text.strip().lower() if isinstance(text, str) else text
    if word is None or word == "none":
        return None
    found = 0.0 if word == "0" else duration.parse(word, what=what)
    if not found:
        raise UsageError(f"{what} {text} leaves no time: write how long, as in 30m or 1h30m, or none")
    return found


def caps(text: str | None) -> tuple[Cap, ...]:
    return budget.parse(text) if text else ()
