"""nightlatch check"""

from __future__ import annotations

import os

from ..config import crontab as crontab_jobs
from ..config import forecast, place, programs
from ..config.load import Config, load
from ..config.mistakes import shown
from ..core import advice, duration, hosts
from ..core import definition as definitions
from ..core import row as rows
from ..core.job import NONE, Job
from ..core.passwords import hide_password
from ..core.printable import printable
from ..core.slots import TURN
from ..core.value import value
from ..errors import BadConfig, StoreUnreachable, UsageError
from ..ledger import open_for
from ..observe.reader import NoStore, existing
from ..observe.stages import sentence
from ..runtime.shared.job import definition
from ..runtime.supervisor.run.spending import of_all_jobs
from ..scheduler import asleep
from ..scheduler.people import JobSlots
from ..scheduler.scheduled import Scheduled
from ..scheduler.served import Served
from ..store import url
from ..system import clock, crontab, identity, services, zone
from ..system.identity import person
from . import screen
from .arguments import Parser
from .json_out import print_json
from .only_people import require_person

_PURPOSE = """\
Check nightlatch.toml: print every mistake with its line number (exit code 78), and check that its store can be reached
(69 if not). If the file is valid, print for each job its next slots, and those around the next clock change; whether
its program is found with the PATH of the service; which machines may run it; and what happens to its slots while this
machine sleeps.

--asleep simulates the next 30 days, as if this machine slept at those hours every day and every run succeeded at once.

--apply puts this file's jobs into force on all machines that share the store, even if one of them has a newer file. The
other machines then start none of these jobs until they have the same file."""

_EXAMPLES = """\
  nightlatch check
  nightlatch check --asleep 23:00-07:00
  nightlatch check --apply
  nightlatch check --json"""


@value(frozen=True, kw_only=True)
class JobCheck:
    """What the check found about one job."""

    job: Job
    forecast: forecast.Forecast | None
    missing: list[str]  # program, folder and files that are not found
    machines: str
    sleeping: str
    stage: str
    crontab: str  # the crontab line that starts this job too; "" if none does
    elsewhere: str  # another nightlatch.toml served here with this job and store; "" if there is none

    def facts(self) -> dict[str, object]:
        change = self.forecast.change if self.forecast else None
        return {
            "version": 1,
            "job": self.job.name,
            "schedule": list(self.job.schedule),
            "tz": self.job.tz or None,
            "next": [forecast.shown(slot, self.job.tz) for slot in self.forecast.slots] if self.forecast else [],
            "around_change": [forecast.shown(slot, self.job.tz) for slot in change.slots] if change else [],
            "missing": self.missing,
            "machines": self.machines,
            "asleep": self.sleeping,
            "stage": self.stage,
            "crontab": self.crontab or None,
            "also_in": self.elsewhere or None,
            "definition": definition(self.job),
        }


def main(argv: list[str]) -> int:
    parser = Parser("check", _PURPOSE, _EXAMPLES)
    parser.add_argument(
        "--asleep", metavar="HOURS", help="simulate the next 30 days with this machine asleep, as in 23:00-07:00"
    )
    parser.add_flag("--apply", "put this file's jobs into force on all machines")
    parser.add_flag("--json", "one JSON object per job")
    args = parser.parse_args(argv)
    config = load(place.require())
    if args.apply:
        return _apply(config, args.store)
    if args.asleep:
        return _simulate(config, asleep.parse(args.asleep), args.json)
    job_rows, store_error = _rows(config, args.store)
    found = _check_jobs(config, args.store, job_rows)
    if args.json:
        for one in found:
            print_json(one.facts())
    else:
        _show(config, found, args.store, store_ok=store_error is None)
    if store_error:
        raise store_error
    return 0


def _check_jobs(config: Config, store: str | None, job_rows: dict[str, rows.Row]) -> list[JobCheck]:
    shared = url.ledger_of(url.resolve(store)) != url.BESIDE
    path = services.of(config.path).path() or os.environ.get("PATH", os.defpath)
    in_crontab = crontab_jobs.jobs_still_in(config.jobs, crontab.read() or "")
    elsewhere = _elsewhere(config, store)
    return [
        JobCheck(
            job=job,
            forecast=forecast.forecast(job, clock.wall()),
            missing=programs.missing(job, path),
            machines=_machines(job, shared),
            sleeping=_sleeping(job, shared),
            stage=_stage(job, job_rows.get(name)),
            crontab=in_crontab.get(name, ""),
            elsewhere=elsewhere.get(name, ""),
        )
        for name, job in config.jobs.items()
    ]


def _elsewhere(config: Config, store: str | None) -> dict[str, str]:
    try:
        folder = url.connect(store).folder
    except (UsageError, StoreUnreachable):
        return {}  # `_rows` reports the error
    return Served(folder, config.path).elsewhere(config.jobs)


def _rows(config: Config, store: str | None) -> tuple[dict[str, rows.Row], StoreUnreachable | None]:
    """The jobs' rows (none before the store exists), and the error if the store cannot be used."""
    where = url.resolve(store)
    try:
        existing(where)
        return {cursor.job: rows.read(cursor) for cursor in url.connect(where).cursors()}, None
    except NoStore:
        return {}, _why_not_created(where)
    except UsageError as error:
        raise BadConfig(f"{shown(config.path)}: store: {error}") from None
    except StoreUnreachable as error:
        return {}, StoreUnreachable(f"while the store does not answer, nothing starts and slots wait: {error}")


def _why_not_created(where: str) -> StoreUnreachable | None:
    """Why the first start would fail to create the store; None if it can."""
    if url.ledger_of(where) != url.BESIDE:
        return None
    folder = os.path.dirname(os.path.abspath(url.folder_of(where)))
    while not os.path.exists(folder):
        folder = os.path.dirname(folder)
    if os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK):
        return None
    return StoreUnreachable(f"the store cannot be created: {folder} is not a folder that you may write to")


def _stage(job: Job, row: rows.Row | None) -> str:
    if row is None and not job.stage:
        return 'unattended from its first slot; to watch it first, set stage = "manual"'
    return sentence(job, row)


def _machines(job: Job, shared: bool) -> str:
    here, turn = identity.host(), hosts.turn(job.hosts, identity.host())
    if not job.hosts:
        return "any that serves this store" if shared else "only this one: the store is a file on it"
    order = ", then ".join(job.hosts)
    if turn is None:
        return f"{order}; not this one ({here})"
    wait = f", {duration.show(turn * TURN)} after the first" if turn else ""
    return f"{order}; this one is number {turn + 1}{wait}"


def _sleeping(job: Job, shared: bool) -> str:
    if not job.schedule:
        return "it has no schedule"
    others = "" if len(job.hosts) == 1 or not shared else "another machine that is awake runs them; if none is, "
    if job.catch_up == NONE:
        return f"{others}slots are skipped"
    bound = "" if job.late is None else f", unless that is more than {duration.show(job.late)} late"
    return f"{others}the newest missed slot runs when this machine wakes{bound}"


def _how_to_start() -> str:
    serve, install = advice.command("serve"), advice.command("service", "install")
    return f" Start it: {serve}; at every login: {install}"


def _show(config: Config, found: list[JobCheck], store: str | None, *, store_ok: bool) -> None:
    where = url.resolve(store)
    count = f"{len(found)} job{'' if len(found) == 1 else 's'}"
    print(printable(f"{shown(config.path)}: {count}, store {hide_password(where)}, timezone {config.timezone}"))
    if url.ledger_of(where) == url.OF_EACH_MACHINE and (together := of_all_jobs(config.path)):
        caps = ",".join(map(str, together))
        print(
            f"budget {caps} for all jobs together: counted on each machine separately, since with this store each has "
            f"its own ledger. A job's own daily and monthly caps count across machines"
        )
    for one in found:
        print("\n" + screen.paint(printable(one.job.name), screen.BOLD) + printable(f"  {one.job.target.shown[:200]}"))
        for about, what in _lines(one):
            print(printable(f"  {about:<9}{what}"))
    missing = sum(bool(one.missing) for one in found)
    failing = f"{missing} job{'' if missing == 1 else 's'} would fail, since something is not found; the rest is valid."
    start = "" if services.of(config.path).path() else _how_to_start()
    print(f"\n{failing if missing else 'The file is valid.'}{start if store_ok else ''}")


def _lines(check: JobCheck) -> list[tuple[str, str]]:
    tz, found = check.job.tz, [("next", "by hand only: nightlatch run " + check.job.name)]
    if check.forecast:
        found = [("next", ", ".join(forecast.shown(slot, tz) for slot in check.forecast.slots))]
        if change := check.forecast.change:
            way = f"clocks go {'forward' if change.by > 0 else 'back'} by {duration.show(abs(change.by))}"
            around = ", ".join(forecast.shown(slot, tz) for slot in change.slots)
            found.append(("change", f"{forecast.shown(change.at, tz)[4:14]} {way}: {around}"))
    found.append(("needs", "; ".join(check.missing) or "all found"))
    if check.job.schedule:
        found += [("stage", check.stage), ("machines", check.machines), ("asleep", check.sleeping)]
    if check.crontab:
        found.append(("twice", f"your crontab starts it too; remove this line (crontab -e): {check.crontab}"))
    if check.elsewhere:
        found.append(("also in", f"{check.elsewhere}: with the same store, both count as one job. Rename one of them"))
    return found


def _simulate(config: Config, nap: asleep.Nap, as_json: bool) -> int:
    host, now, here = identity.host(), clock.wall(), zone.find()
    scheduled = {name: Scheduled(job, definition(job)) for name, job in config.jobs.items()}
    simulated = [asleep.simulate(one, nap, host, now, here) for one in scheduled.values()]
    table = [["job", "slots", "on time", "late", "collapsed", "skipped", "for example"]]
    for one in filter(None, simulated):
        if as_json:
            print_json({"version": 1, **one.__dict__, "skipped": dict(one.skipped)})
        skipped = ", ".join(f"{count} {reason}" for reason, count in one.skipped) or "0"
        tz = config.jobs[one.job].tz
        slot, started = [forecast.shown(at, tz) for at in one.example] if one.example else ("", "")
        example = f"{slot} at {started[15:20]}" if slot else ""
        numbers = [str(number) for number in (one.slots, one.on_time, one.late, one.collapsed)]
        table.append([one.job, *numbers, skipped, example])
    if not as_json:
        print("\n".join(screen.columns(table, (6, 5))))
        rest = [name for name, one in zip(scheduled, simulated, strict=True) if one is None]
        if rest:
            print(printable(f"not shown, since nothing is due here: {', '.join(rest)}"))
    return 0


def _apply(config: Config, store: str | None) -> int:
    require_person("check --apply", next(iter(config.jobs), ""), store)
    where = url.resolve(store)
    open_store, ledger = url.connect(where), open_for(where)
    job_rows = {cursor.job: rows.read(cursor) for cursor in open_store.cursors(list(config.jobs))}
    applied = 0
    for name, job in config.jobs.items():
        mine, row = definition(job), job_rows.get(name)
        if row is None or row.definition == mine:
            continue
        last_served = Served(open_store.folder).definitions.get(name, "")
        judgement = definitions.judge(row, mine, last_served, shared=url.ledger_of(where) != url.BESIDE)
        JobSlots(open_store, ledger, name, person()).define(mine)
        applied += 1
        older = ", although another machine had a newer one" if judgement == definitions.OLD else ""
        print(printable(f"{name}: this file's version is in force now{older}. On the other machines: git pull"))
    unchanged = "every job was already in force as in this file"
    print(f"{applied} job{'' if applied == 1 else 's'} changed" if applied else unchanged)
    return 0
