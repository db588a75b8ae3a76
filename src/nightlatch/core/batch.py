"""A batch: a command for each of many items, and the one table of a batch's options, as core/job.py is for a job."""

from __future__ import annotations

from ..errors import BadOption, UsageError
from . import breaker, budget, options
from .budget import Cap
from .job import GATEWAY, LOST_POLICIES, METERS, Job, metering_of
from .options import BATCH, as_flag
from .target import Each
from .value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .options import Names

FORMATS = ("jsonl", "csv", "lines")

_BATCH_ONLY = (BATCH,)


@value(frozen=True, kw_only=True)
class Batch:
    """A command, and the items it is run for. Times are seconds."""

    name: str
    items: str  # a path, or - for standard input
    command: list[str]
    json: bool = False  # print only the summary on standard output
    continued_by: str = ""  # the command line that continues this batch

    key: str = options.text("the fields that name an item: '{site}/{slug}'", metavar="TEMPLATE", where=_BATCH_ONLY)
    format: str = options.text("jsonl, csv or lines", metavar="FORMAT", choices=FORMATS, where=_BATCH_ONLY)
    jobs: int = options.whole("how many at a time; also -j N", 1, where=_BATCH_ONLY)
    timeout: float | None = options.bound(
        "for each item; one that takes longer is ended and has failed", "none", where=_BATCH_ONLY
    )
    retries: int = options.whole("how often to try a failed item again in this start", where=_BATCH_ONLY)
    backoff: float = options.time("pause before the first retry; doubles each time", "1s", where=_BATCH_ONLY)
    fail_fast: bool = options.flag("start nothing more after the first failed item", where=_BATCH_ONLY)
    max_failures: str = options.text("start nothing more after this many failures", metavar="N|P%", where=_BATCH_ONLY)
    lost: str = options.text(
        "items in flight when a batch died: doubt (default) or again (default with --publish)",
        metavar="POLICY",
        choices=LOST_POLICIES,
        where=_BATCH_ONLY,
    )
    retry_failed: bool = options.flag(
        "also retry items that were set aside after a permanent failure", where=_BATCH_ONLY, defines=False
    )
    publish: tuple[str, ...] = options.texts(
        "run each item in a fresh folder and publish FROM there to a file, folder or s3://",
        metavar="FROM=TO",
        where=_BATCH_ONLY,
    )
    budget: tuple[Cap, ...] = options.item_caps(
        "the most an item or the batch may use: usd/item=0.1,usd=5,usd/day=10", where=_BATCH_ONLY
    )
    meter: str = options.text(
        "how usage is measured: gateway (default with a cap in usd, tokens or calls), report or output",
        metavar="HOW",
        choices=METERS,
        where=_BATCH_ONLY,
    )
    shell: bool = options.flag(
        "run CMD as one shell line; item values are passed safely as parameters", where=_BATCH_ONLY
    )
    pass_store: bool = options.flag(
        "let nightlatch commands inside an item use the store's password", where=_BATCH_ONLY
    )

    def check(self, name: Names = as_flag) -> Batch:
        """Return this batch if its options fit together; otherwise raise `BadOption`, which says what to add."""
        if self.jobs < 1:
            raise BadOption(f"{name('jobs')} is {self.jobs}: use 1 or more", "jobs")
        if self.max_failures:
            try:
                breaker.Limit(self.max_failures, name("max_failures"))
            except UsageError as error:
                raise BadOption(str(error), "max_failures") from None
        return self

    @property
    def metered_by(self) -> str:
        return self.meter or metering_of(self.budget)

    @property
    def item_caps(self) -> tuple[Cap, ...]:
        return tuple(cap for cap in self.budget if cap.period == budget.ITEM)

    @property
    def own_caps(self) -> tuple[Cap, ...]:
        """The caps on the batch as a whole."""
        return tuple(cap for cap in self.budget if cap.period != budget.ITEM)

    @property
    def when_lost(self) -> str:
        return self.lost or ("again" if self.publish else "doubt")

    def definition(self) -> str:
        """What the batch is, as text to be hashed (see `Job.definition`)."""
        return options.definition(self, items=self.items, command=tuple(self.command))

    def job(self, interpreter: str, **more: Any) -> Job:
        """The run of this batch, whose command is the driver. `more`: options that only a job has."""
        from json import dumps

        facts = {"name": self.name, "items": self.items, "command": self.command, "continued_by": self.continued_by}
        packed = dumps(facts | {"options": options.changed(self)})
        target = Each(
            name=self.name,
            command=tuple(self.command),
            batch=packed,
            defined_as=self.definition(),
            interpreter=interpreter,
        )
        # The driver reads usage from the items' output and reports it, so for the run it is "report".
        meter = GATEWAY if self.metered_by == GATEWAY else "report" if self.metered_by else ""
        return Job(
            name=self.name,
            target=target,
            timeout=None,
            lost="again",
            budget=self.own_caps,
            meter=meter,
            pass_store=self.pass_store,
            **more,
        )


def unpack(target: Each) -> Batch:
    """The batch that a job's target was made from."""
    from json import loads

    facts = loads(target.batch)
    return Batch(**options.restored(facts.pop("options")), **facts)
