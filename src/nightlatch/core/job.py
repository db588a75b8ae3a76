"""A job, declared once: what is run, and the table of its options.

Each field with a row is an option: --keep-awake of `nightlatch run`, keep_awake of `@nightlatch.job`,
`nightlatch.run()` and `nightlatch.toml`. Help shows them in this order. `where` says where an option is valid: one that
only a schedule needs is valid in `nightlatch.toml` alone. `defines=False`: changing it does not make it another job.
"""

from __future__ import annotations

from ..errors import BadOption, UsageError
from . import duration, options, target
from .model import check_name
from .options import NOT_IN_FILE, OF_A_START, OF_THE_FILE, as_flag
from .stage import HOLDS, PROMOTE_AFTER, STAGES, START, WRITES
from .target import Command, Each, Function
from .tenure import MINIMUM_TTL
from .units import METERED
from .value import replace, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .budget import Cap
    from .options import Names

BY_HAND = "by-hand-"  # prefix of the key that is made for a run started without one
LOST_POLICIES = ("again", "doubt")
METERS = ("gateway", "report", "output")  # usage is read from: model calls; `nightlatch spend`; the final JSON
GATEWAY = "gateway"
REPORT = "report"  # as a source of progress: the command calls `nightlatch progress`
SKIP, QUEUE, CANCEL = OVERLAPS = ("skip", "queue", "cancel")  # what happens to a slot while an older run is working
ONE, NONE = CATCH_UPS = ("one", "none")  # what happens to missed slots: one run of the newest, or none

_VERSION = 2  # of the format of a packed job
_FACTS = ("name", "due", "missed", "since", "file", "defined_as")  # fields of a packed job that are not options
_LONGEST_KEY = 1000


@value(frozen=True, kw_only=True)
class Job:
    """What to run, under which name and key, and within which bounds. Times are seconds."""

    name: str
    target: Command | Function | Each
    due: str = ""  # the slot this start is for
    missed: int = 0  # how many older slots this start makes up for
    since: str = ""  # the last slot that succeeded
    file: str = ""  # the nightlatch.toml that declares it: its paths are relative to that file's folder
    defined_as: str = ""  # its definition; "": made from target and options

    schedule: tuple[str, ...] = options.texts(
        'when it is due: "0 2 * * *", "@daily", "every 45m", or a list of those; omit it for a job run only by hand',
        metavar="WHEN",
        where=OF_THE_FILE,
    )
    key: str = options.text("names the work: a key that is done is not done again", defines=False, where=NOT_IN_FILE)
    slot: str = options.text("use this schedule's newest due time as slot and key", metavar="WHEN", where=NOT_IN_FILE)
    tz: str = options.text("the schedule's time zone (default: this machine's)", metavar="ZONE")
    overlap: str = options.text(
        "what happens to a slot that comes due while the previous run is still working: skip, queue or cancel",
        SKIP,
        metavar="POLICY",
        choices=OVERLAPS,
        refused={"allow": "two runs of a job would write at once, and one that was lost could not be fenced off. Use "
                          "skip, queue or cancel, or two jobs"},
        where=OF_THE_FILE,
    )  # fmt: skip
    catch_up: str = options.text(
        "after missed slots: one (run the newest of them) or none (skip them all)",
        ONE,
        metavar="POLICY",
        choices=CATCH_UPS,
        where=OF_THE_FILE,
    )
    late: float | None = options.bound("skip a slot that is more overdue than this", "none", where=OF_THE_FILE)
    jitter: float = options.time(
        "delay each slot by up to this much; the delay depends only on job and slot",
        "0s",
        where=OF_THE_FILE,
        defines=False,
    )
    hosts: tuple[str, ...] = options.texts(
        "the machines that may run it, in this order; each waits 30s longer than the one before it",
        metavar="HOST",
        where=OF_THE_FILE,
        defines=False,
    )
    stage: str = options.text(
        "manual, supervised or unattended: where a new job begins (default unattended)",
        metavar="STAGE",
        choices=STAGES,
        where=OF_THE_FILE,
        defines=False,
    )
    hold: str = options.text(
        "what a supervised job holds back until `nightlatch approve`: writes (default with publish), start (default "
        "without), or none",
        metavar="WHAT",
        choices=HOLDS,
        where=OF_THE_FILE,
        defines=False,
    )
    expires: float = options.time(
        "how long it waits for the approval before it is cancelled", "3d", where=OF_THE_FILE, defines=False
    )
    promote_after: tuple[int, ...] = options.wholes(
        "clean runs needed for a promotion: from manual, and from supervised",
        PROMOTE_AFTER,
        where=OF_THE_FILE,
        defines=False,
    )
    tags: tuple[tuple[str, str], ...] = options.pairs(
        'label its usage, as in {site = "example.org"}', where=OF_THE_FILE, defines=False
    )
    version: tuple[str, ...] = options.texts(
        'prints the version of the program, as in ["claude", "--version"]; called again when the program has changed',
        metavar="CMD",
        where=OF_THE_FILE,
        defines=False,
    )
    ttl: float | None = options.time("how long the lease lasts without a renewal (default 60s)")
    wait: float = options.time("how long to wait if the lease is held", "0s")
    timeout: float | None = options.bound("end it after this long (wall clock), or none", "1h")
    stall: float | None = options.bound("end it after this long without progress")
    progress: tuple[str, ...] = options.texts(
        "what counts as progress: report, or changes to this file or folder", metavar="SOURCE"
    )
    grace: float = options.time("time between SIGTERM and SIGKILL", "10s")
    budget: tuple[Cap, ...] = options.caps("the most it may use: usd=2,usd/day=10,tokens/month=1000000")
    meter: str = options.text(
        "how usage is measured: gateway (default with a cap in usd, tokens or calls), report or output",
        metavar="HOW",
        choices=METERS,
    )
    env: tuple[tuple[str, str], ...] = options.variables("a variable for the command")
    env_file: str = options.text(
        "a file of NAME=VALUE lines for the command, read at each start; all its values are treated as secrets",
        metavar="FILE",
        where=OF_THE_FILE,
    )
    cwd: str = options.text("where the command runs", metavar="FOLDER")
    workspace: str = options.text("scratch, git or git:URL#branch: run it in a fresh folder", metavar="KIND")
    publish: tuple[str, ...] = options.texts(
        "after success, publish FROM in the workspace to a file, folder/ or s3://; or git", metavar="FROM=TO"
    )
    input: tuple[str, ...] = options.texts("record this file's sha256 with the run", metavar="FILE")
    require: tuple[str, ...] = options.texts(
        "a shell line that must succeed first; otherwise the command is not started", metavar="LINE"
    )
    ensure: tuple[str, ...] = options.texts(
        "a shell line that must succeed afterwards; otherwise nothing is published and the run needs attention",
        metavar="LINE",
    )
    ping: str = options.text(
        "notify this address, as Healthchecks expects: URL/start, URL, URL/fail; URL/log while it waits",
        metavar="URL",
        defines=False,
    )
    lost: str = options.text(
        "after a lost attempt (killed, shut down, lease lost): again (default with --publish) or doubt",
        metavar="POLICY",
        choices=LOST_POLICIES,
    )
    pass_store: bool = options.flag("let nightlatch commands inside the run use the store's password")
    keep_awake: bool = options.flag("keep the machine from sleeping while it runs")
    retries: int = options.whole("how often to try again if it fails")
    backoff: float = options.time("pause before the first retry; doubles each time", "10s")
    again: bool = options.flag("start from the beginning, even if the key is done", where=OF_A_START, defines=False)
    new: bool = options.flag(
        "without a key: start a new run, do not continue an unfinished one", where=OF_A_START, defines=False
    )

    def check(self, name: Names = as_flag) -> Job:
        """Return this job if its options fit together; otherwise raise `BadOption`, which says what to add.

        `name` spells an option as the front end does."""
        check_name(self.name)
        if not self.command:
            raise UsageError(
                f"there is no command to run: nightlatch run {self.name} -- CMD …, or add [jobs.{self.name}] to "
                f"nightlatch.toml"
            )
        for mistake in self.mistakes(name):
            raise mistake
        return self

    def mistakes(self, name: Names) -> Iterator[BadOption]:
        """Every reason why its options do not fit together."""
        if len(self.key) > _LONGEST_KEY or self.key != self.key.encode(errors="replace").decode():
            yield BadOption(f"{self.key[:200]!r} cannot be a key: use up to {_LONGEST_KEY} characters, in UTF-8", "key")
        if self.slot and self.key and self.key != self.due:
            yield BadOption(f"{name('slot')} makes the key itself: drop {name('key')}", "key")
        if self.tz and not (self.slot or self.schedule):
            yield BadOption(f"{name('tz')} is the time zone of a schedule: add {name('slot', 'WHEN')}", "tz")
        if self.new and (self.key or self.slot):
            yield BadOption(
                f"{name('new')} is for a run without a key: drop it, or drop {name('key')} and {name('slot')}", "new"
            )
        if self.ttl is not None and self.ttl < MINIMUM_TTL:
            yield BadOption(f"{name('ttl')}: use at least {duration.show(MINIMUM_TTL)}, to renew it in time", "ttl")
        if self.stall is not None and not self.progress:
            yield BadOption(
                f"{name('stall')} needs a source of progress: add {name('progress', REPORT)} (the command calls "
                f"`nightlatch progress`), or {name('progress', 'PATH')} (a file or folder that changes as the work "
                f"goes on)",
                "stall",
            )
        yield from self._mistakes_of_results(name)

    def _mistakes_of_results(self, name: Names) -> Iterator[BadOption]:
        kind = self.workspace.partition(":")[0]
        if kind not in ("", "scratch", "git") or self.workspace.startswith("scratch:"):
            yield BadOption(
                f"{name('workspace')} {self.workspace!r} is neither scratch, git nor git:URL#branch", "workspace"
            )
        if self.publish and not kind:
            yield BadOption(
                f"{name('publish')} takes from a workspace: add {name('workspace', 'scratch')} (an empty folder) or "
                f"{name('workspace', 'git')}",
                "publish",
            )
        if "git" in self.publish and kind != "git":
            yield BadOption(
                f"{name('publish', 'git')} pushes what is committed in a clone: add {name('workspace', 'git')}",
                "publish",
            )

        if self.ping and not self.ping.startswith(("http://", "https://")):
            yield BadOption(f"{name('ping')} {self.ping!r}: write an address that begins with https://", "ping")
        if self.hold == WRITES and not (self.workspace and self.publish):
            yield BadOption(
                f"{name('hold', WRITES)} holds what is published: add {name('workspace')} and {name('publish')}, or "
                f"use {name('hold', START)}",
                "hold",
            )
        if len(self.promote_after) != len(PROMOTE_AFTER):
            yield BadOption(
                f"{name('promote_after')} needs two numbers: clean runs as manual, and as supervised", "promote_after"
            )

    @property
    def holds(self) -> str:
        """What a supervised run holds back until it is approved: its writes, or its start."""
        return self.hold or (WRITES if self.workspace and self.publish else START)

    @property
    def command(self) -> list[str]:
        """The words of the command that it runs."""
        return list(self.target.words)

    @property
    def metered_by(self) -> str:
        """Where usage figures come from: one of METERS, or "" if usage is not measured."""
        return self.meter or metering_of(self.budget)

    @property
    def watched(self) -> tuple[str, ...]:
        """Files and folders whose change counts as progress."""
        return tuple(source for source in self.progress if source != REPORT)

    @property
    def when_lost(self) -> str:
        """again or doubt, if its holder died: the run may have acted, unless all its results go through `publish`."""
        return self.lost or ("again" if self.workspace and self.publish else "doubt")

    def at(self, due: str, *, missed: int = 0, since: str = "") -> Job:
        """This job for one slot, which becomes its key."""
        return replace(self, key=due, due=due, missed=missed, since=since)

    def definition(self) -> str:
        """What the job is, as text to be hashed."""
        return self.defined_as or options.definition(self, target=self.target.definition)

    def pack(self) -> dict[str, Any]:
        """The job for JSON: any process can start it from that. Keep it private, it holds the values of `env`."""
        facts = {field: self.__dict__[field] for field in _FACTS}
        return {"version": _VERSION, **facts, "target": target.pack(self.target), "options": options.changed(self)}


def metering_of(caps: tuple[Cap, ...]) -> str:
    """The meter for these caps where the job names none; "" without caps."""
    return GATEWAY if any(cap.unit in METERED for cap in caps) else REPORT if caps else ""


def unpack(packed: dict[str, Any]) -> Job:
    """The job that `pack` packed."""
    if packed["version"] != _VERSION or not packed["options"].keys() <= options.rows(Job).keys():
        raise UsageError(
            f"the job {packed['name']} was packed by another version of Nightlatch: start it with that one"
        )
    facts = {field: packed[field] for field in _FACTS}
    return Job(target=target.unpack(packed["target"]), **facts, **options.restored(packed["options"]))
