"""One made-up night, written with the ledger's own verbs while the clock is set to each moment: for `nightlatch demo
--pages`, pictures and tests. The clock is put back at the end."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping

from ..core import statuses
from ..core.model import Holder
from ..core.row import COLLAPSED, RAN, SKIPPED, Pause, Row, SlotRecord
from ..core.schedule import name_of
from ..core.stage import SUPERVISED
from ..ledger import kinds, open_for
from ..ledger.records import RunRow
from ..ledger.refused_starts import BUDGET
from ..ledger.sealing import NO_FACTS
from ..ledger.writer import Writer
from ..runtime.supervisor.run import kept_output
from ..store import url as stores
from ..system import clock, durable, identity

_DAY, _HOUR, _MINUTE = 86400.0, 3600.0, 60.0
_EVENING = 9.2  # the night began so many hours ago
_NIGHTS = 60  # of history before it
_EXPENSIVE_NIGHTS = 4  # the last of these nights, in which articles costs more
# job → (hour of the night, minutes, usd)
_EVERY_NIGHT = {
    "thumbnails": (1.2, 41, 0.0),
    "refactor-agent": (2.5, 70, 1.40),
    "backup": (3.0, 22, 0.0),
    "articles": (4.0, 35, 0.97),
    "crawl-feeds": (5.0, 12, 0.0),
    "site-build": (6.0, 6, 0.0),
    "newsletter": (7.0, 1.2, 0.05),
    "invoices": (8.0, 4, 0.0),
    "digest": (8.0, 3, 0.0),
    "translate": (8.5, 69, 1.37),
}
_TOKENS = {"opus-4-5": 27_000}  # model → tokens for a dollar
_COMMANDS = {"articles": "claude -p @prompts/article.md", "refactor-agent": "claude -p @prompts/refactor.md"}


class MadeUp:
    def __init__(self, url: str, now: float) -> None:
        self._store, self._ledger = stores.connect(url), open_for(url)
        self._now, self._at = now, now
        self._random = random.Random(7)  # noqa: S311 - a picture, not a secret
        self._token = 1_794_000_002_914

    # ── the clock ──

    def hour(self, hours: float) -> float:
        """The moment so many hours after the night began."""
        return self._now - _EVENING * _HOUR + hours * _HOUR

    def clock(self) -> float:
        return self._at

    # ── verbs ──

    def open(self, job: str, at: float, command: str, key: str = "") -> RunRow:
        self._at = at
        slot = name_of(round(at / 60) * 60)
        return self._ledger.open_run(
            job, key or slot, slot=slot, command=command, definition="d1f09ac2" * 8, host="mini"
        )

    def seal(
        self, run: RunRow, at: float, host: str = "mini", facts: Mapping[str, str] = NO_FACTS, grant: str = ""
    ) -> Writer:
        self._at, self._token = at, self._token + 37
        return self._ledger.seal(
            run.id, token=self._token, grant=grant or identity.new_id(), holder=_holder(host), facts=facts
        )

    def ran(
        self,
        job: str,
        at: float,
        takes: float,
        *,
        status: str = statuses.SUCCEEDED,
        usd: float = 0.0,
        model: str = "",
        reason: str = "",
        exit_code: int | None = 0,
        lines: tuple[str, ...] = (),
        timeout: str = "1h",
        host: str = "mini",
    ) -> RunRow:
        run = self.open(job, at, _COMMANDS.get(job, f"./{job}.sh"))
        writer = self.seal(run, at + 0.4, host, facts=_bounds(timeout, "4" if usd else ""))
        self._spend(writer, at, takes, usd, model, calls=2, each=16)
        self._at = at + takes
        ended = writer.finish(status, exit_code=exit_code, reason=reason, elapsed=takes)
        self._print(run.id, lines or (f"{job}: begun", f"{job}: done"))
        self._slot(job, at, RAN, run=run.id)
        return ended

    def _spend(
        self, writer: Writer, at: float, takes: float, usd: float, model: str, calls: int, each: int = 1
    ) -> None:
        for call in range(calls if usd else 0):
            self._at = at + takes * (call + 1) / (calls + 1)
            tokens = round(usd / calls * _TOKENS.get(model, 75_000))
            writer.usage({"model": model}, usd=round(usd / calls, 4), tokens=tokens, calls=each)

    def _slot(self, job: str, at: float, outcome: str, *, reason: str = "", run: str = "") -> None:
        due = float(round(at / 60) * 60)
        self._ledger.slots.put(
            [(job, SlotRecord(first=due, last=due, outcome=outcome, reason=reason, run=run, host="mini", at=at))]
        )

    def _print(self, run: str, lines: tuple[str, ...]) -> None:
        folder = durable.private_folder(kept_output.folder_of(self._store.folder, run))
        with open(f"{folder}/output", "w", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))

    def row(self, job: str, schedule: str, next_in: float, **more: object) -> None:
        due = float(round((self._now + next_in) / 60) * 60)
        if schedule and not schedule.startswith("every"):  # the night ends now, at any hour: move the schedule with it
            _, hour, *days = schedule.split()
            at = time.gmtime(due)
            schedule = " ".join([str(at.tm_min), "*" if hour == "*" else str(at.tm_hour), *days])
        row = Row(
            job=job,
            slot=self._now - _DAY,
            next_due=due,
            schedule=f"{schedule}\nUTC" if schedule else "",
            definition="d1f09ac2" * 8,
        )
        facts = {"slot": self._now - _DAY, **more}
        self._store.advance([row.move(identity.new_id(), **facts)])

    # ── the night ──

    def history(self, nights: int, calm: bool) -> None:
        """The nights before, so that there is a usual level."""
        for night in range(nights, 0, -1):
            back = self.hour(0) - night * _DAY
            for job, (hour, minutes, usd) in _EVERY_NIGHT.items():
                expensive = job == "articles" and night <= _EXPENSIVE_NIGHTS and not calm
                if (job == "digest" and night <= 3) or (job == "refactor-agent" and night in (21, 34)):
                    continue
                self.ran(
                    job,
                    back + hour * _HOUR,
                    minutes * _MINUTE * self._spread(),
                    usd=(2.84 if expensive else usd) * self._spread(),
                    model="" if not usd else "opus-4-5" if expensive else "sonnet-4-5",
                )

    def _spread(self) -> float:
        return self._random.uniform(0.9, 1.1)

    def night(self) -> None:
        hour = self.hour
        self._as_always("thumbnails", "backup", "site-build")
        self._links()
        self._articles()
        self._refactor()
        self.ran(
            "crawl-feeds",
            hour(5),
            45 * _MINUTE,
            status=statuses.TIMED_OUT,
            exit_code=None,
            timeout="45m",
            reason="not done after 45m",
            lines=("feeds: 212 of 300", "waiting for feeds.example.net:443 (attempt 212)"),
        )
        self._newsletter()
        self._sleep()
        self._slot("digest", hour(8), SKIPPED, reason="paused")
        self._translate()

    def calm_night(self) -> None:
        self._as_always(*(job for job in _EVERY_NIGHT if job != "translate"))
        self._links(calm=True)
        self._sleep()
        self._translate()

    def _as_always(self, *jobs: str) -> None:
        for job in jobs:
            begin, minutes, usd = _EVERY_NIGHT[job]
            host = "macbook" if job == "thumbnails" else "mini"
            self.ran(job, self.hour(begin), minutes * _MINUTE, usd=usd, model="sonnet-4-5" if usd else "", host=host)

    def _links(self, *, calm: bool = False) -> None:
        """A run every half hour. One failed and was acknowledged; one slot was collapsed into a later one."""
        for half in range(18):
            begin = self.hour(half / 2)
            if half == 13 and not calm:
                self._slot("link-check", begin, COLLAPSED)
            elif half == 10 and not calm:
                lines = ("checking 2,114 links", "3 links are dead")
                failed = self.ran(
                    "link-check",
                    begin,
                    2 * _MINUTE,
                    status=statuses.FAILED,
                    exit_code=1,
                    reason="exit code 1",
                    lines=lines,
                )
                self._ledger.decisions.acknowledge(failed, "ann@mini")
            else:
                self.ran("link-check", begin, 2 * _MINUTE)

    def _sleep(self) -> None:
        """The laptop is closed at two and opened at seven."""
        self._at = self.hour(8.86)
        slept = round(self._at - self.hour(4) - 4 * _MINUTE)
        self._ledger.journal.note("", kinds.SLEPT, host="macbook", elapsed=slept, until=round(self._at))
        self.ran("index-search", self.hour(9), 4 * _MINUTE, host="macbook")

    def _articles(self) -> None:
        """An attempt is lost when its laptop falls asleep; mini takes over, and the laptop's late write is refused."""
        hour = self.hour
        run = self.open("articles", hour(4), "claude -p @prompts/article.md")
        self.seal(run, hour(4) + 1, "macbook", _bounds("1h", "4"))
        stale = self._token
        writer = self.seal(run, hour(4) + 14 * _MINUTE, "mini", _bounds("1h", "4"))
        self._spend(writer, hour(4) + 15 * _MINUTE, 34 * _MINUTE, 2.84, "opus-4-5", calls=32)
        for number, step in enumerate(("outline", "draft/1", "draft/2", "draft/3", "review", "images")):
            self._at = hour(4) + (16 + number * 5) * _MINUTE
            writer.progress(number + 1, 6, step)
        self._at = hour(4) + 50 * _MINUTE
        writer.event(kinds.PUBLISHING, attempt=2, target="main", commit="9f31c0a", token=self._token)
        writer.event(kinds.PUBLISHED, attempt=2, target="main", landed="9f31c0a")
        self._at = hour(4) + 51 * _MINUTE
        writer.finish(statuses.SUCCEEDED, exit_code=0, elapsed=37 * _MINUTE)
        self._slot("articles", hour(4), RAN, run=run.id)
        self._print(
            run.id,
            (
                "review: 6 of 6 articles pass the checklist",
                "wrote content/posts/2026-11-16-fencing-tokens.md (1,412 words)",
                "warning: image alt text missing in 1 file, filled in",
                "[main 9f31c0a] Six articles for 16 November",
                "nightlatch: push 9f31c0a to main",
                "nightlatch: landed",
            ),
        )
        self._at = hour(8.87)
        self._ledger.journal.note(
            "articles",
            kinds.REFUSED,
            run=run.id,
            attempt=1,
            what="push 41be77d to main",
            token=stale,
            stands=self._token,
        )
        for minutes in (4, 9):
            self._at = hour(9) + minutes * _MINUTE
            why = "articles is not started: its budget usd/day=3 is spent. It may start again when the day is over, or"
            self._ledger.refused_starts.add("articles", BUDGET, f"{why} with a higher --budget")

    def _refactor(self) -> None:
        """A supervised job that holds its writes until a person approves them."""
        begun = self.hour(2.5)
        run = self.open("refactor-agent", begun, _COMMANDS["refactor-agent"])
        writer = self.seal(run, begun + 1, facts=_bounds("2h", "4"))
        self._spend(writer, begun, 70 * _MINUTE, 1.38, "sonnet-4-5", calls=6)
        self._at = begun + 71 * _MINUTE
        folder = durable.private_folder(f"{self._store.folder}/made-up")
        for name, size in (("notes.md", 1_240), ("report.html", 18_311), ("plan.json", 642)):
            writer.event(
                kinds.PLANNED, attempt=1, target=f"file:///srv/refactor/{name}", workspace=folder,
                definition="d1f09ac2", **{"from": name, "size": size},
            )  # fmt: skip
        writer.finish(statuses.SUCCEEDED, exit_code=0, elapsed=71 * _MINUTE, held=self._now + 2 * _DAY)
        self._slot("refactor-agent", begun, RAN, run=run.id)
        self._print(run.id, ("4 commits, 31 files changed", "writes are held until they are approved"))

    def _newsletter(self) -> None:
        run = self.open("newsletter", self.hour(7), "./send.sh")
        writer = self.seal(run, self.hour(7) + 1, facts=_bounds("10m", ""))
        self._at = self.hour(7) + 12
        writer.event(kinds.EFFECT_OF_RUN, key="send-2026-11-16", status="begun")
        self._at += 30
        writer.event(kinds.EFFECT_OF_RUN, key="send-2026-11-16", status="in-doubt", reason="no reply within 30s")
        self._at += 1
        writer.finish(statuses.IN_DOUBT, reason="no reply within 30s", elapsed=72.0)
        self._print(run.id, ("connected to smtp.example.net", "sending to 2,318 subscribers"))

    def _translate(self) -> None:
        """A run that is still running, under its lease."""
        begun = self.hour(8.5)
        grant = identity.new_id()
        self._store.acquire("translate", grant, _holder("mini"), _DAY)
        run = self.open("translate", begun, "./translate.sh")
        writer = self.seal(run, begun + 0.5, facts=_bounds("2h", "4"), grant=grant)
        for chapter in range(1, 8):
            self._at = begun + chapter * 6 * _MINUTE
            writer.usage({"model": "sonnet-4-5"}, usd=0.23, tokens=17_200, calls=1)
            writer.progress(chapter, 12, f"chapter {chapter}")
        self._print(run.id, tuple(f"chapter {n // 20 + 1}: segment {n % 20 + 1} of 20 translated" for n in range(140)))

    def jobs(self, calm: bool) -> None:
        """The jobs' rows in the store."""
        paused = Pause(by="ann@mini", at=self._now - 3 * _DAY, reason="the site moves")
        for job, schedule, due in (
            ("articles", "0 2 * * *", 18.8 * _HOUR),
            ("backup", "0 1 * * *", 17.8 * _HOUR),
            ("link-check", "every 30m", 18 * _MINUTE),
            ("translate", "30 6 * * *", 23.3 * _HOUR),
            ("crawl-feeds", "0 3 * * *", 19.8 * _HOUR),
            ("site-build", "0 4 * * *", 20.8 * _HOUR),
            ("thumbnails", "12 23 * * *", 16 * _HOUR),
            ("newsletter", "0 5 * * *", 21.8 * _HOUR),
        ):
            self.row(job, schedule, due)
        self.row("refactor-agent", "30 0 * * 1-5", 17.3 * _HOUR, stage="" if calm else SUPERVISED, clean=2)
        self.row("index-search", "10 * * * *", _HOUR)
        self.row("invoices", "0 6 * * *", 22.8 * _HOUR if calm else -72 * _MINUTE)
        self.row("digest", "0 6 * * *", 22.8 * _HOUR, paused=None if calm else paused)


def make(url: str, *, calm: bool = False, now: float | None = None, nights: int = _NIGHTS) -> None:
    """Write the night up to `now` into an empty store. `calm`: a night in which nothing needs a person."""
    now = clock.wall() if now is None else now
    night = MadeUp(url, now)
    real: Callable[[], float] = clock.wall
    clock.wall = night.clock
    try:
        night.history(nights, calm)
        night.calm_night() if calm else night.night()
        night._at = now
        night.jobs(calm)
    finally:
        clock.wall = real


def _holder(host: str) -> Holder:
    return Holder(incarnation=identity.new_id(), user="ann", host=host)


def _bounds(timeout: str, usd: str) -> dict[str, str]:
    caps = f" usd={usd}" if usd else ""
    return {"bounds": f"timeout={timeout}{caps} retries=1", "nightlatch": "0.4.0", "program": "claude"}
