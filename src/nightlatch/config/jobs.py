"""The jobs of nightlatch.toml: `[defaults]`, `[jobs.NAME]`, `[jobs.NAME.on.HOST]`, read by the table in core/job.py."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC
from itertools import islice, pairwise
from typing import Any

from ..core import duration, hosts, options, schedule
from ..core.agent import for_agent
from ..core.batch import Batch
from ..core.job import Job
from ..core.model import check_name
from ..core.options import BATCH, FILE, Option, as_setting
from ..core.target import Command
from ..core.value import replace
from ..errors import BadOption, UsageError
from ..system import zone
from .examples import EXAMPLES
from .settings import Section
from .targets import TARGETS, JobTarget, Stamp

PER_HOST = ("command", "cwd", "env", "env_file")  # the keys that `on.HOST` may override

_JOB_OPTIONS = options.rows(Job, FILE)
_BATCH_OPTIONS = {name: row for name, row in options.rows(Batch, BATCH).items() if row.defines}
_NOT_FOR_A_BATCH = ("stall", "progress", "workspace", "input", "require", "ensure")
ONLY_OF_A_BATCH = ("items", *(name for name in _BATCH_OPTIONS if name not in _JOB_OPTIONS))
KEYS = (*_JOB_OPTIONS, *TARGETS, "args", *ONLY_OF_A_BATCH)

ALERTS = "alerts"  # a job's table, read later, together with the alerts of all jobs
_NO_COMMAND = Command(words=())
_SAMPLE = 50  # slots whose distances are compared with a job's jitter
_SAMPLE_FROM = 1_767_225_600  # fixed, so that the result does not depend on the day


class Jobs:
    """Reads the jobs one after another. Mistakes are noted, and reading goes on."""

    def __init__(self, *, timezone: str, interpreter: str, file: str, host: str) -> None:
        self._timezone, self._interpreter, self._file, self._host = timezone, interpreter, file, host
        self.files: list[Stamp] = []  # of the files that commands were read from, by @FILE
        self.alerts: dict[str, Section] = {}  # by job, not read yet
        self.needs_timezone = False  # a cron expression depends on the file's time zone
        self._defaults: dict[str, Any] = {}

    def defaults(self, section: Section) -> None:
        """Read the values for every job that does not set its own."""
        for key, at in section.table([key for key in KEYS if key != "items"]).items():
            row = _JOB_OPTIONS.get(key) or _BATCH_OPTIONS.get(key)
            if row is None or _read_options({key: row}, {key: at.value}, section):
                self._defaults[key] = at.value

    def read(self, section: Section) -> dict[str, Job]:
        """The valid jobs by name, as this machine runs them."""
        if not isinstance(section.value, dict):
            section.mistake("jobs must be tables: [jobs.articles]")
            return {}
        found = {name: self._job(name, section.at(name)) for name in section.value}
        return {name: job for name, job in found.items() if job}

    def _job(self, name: str, section: Section) -> Job | None:
        before = len(section.mistakes)
        try:
            check_name(name)
        except UsageError as error:
            section.mistake(str(error))
        own = section.table((*KEYS, "on", ALERTS))
        if ALERTS in own:
            self.alerts[name] = own.pop(ALERTS)
        given = self._merged({key: at.value for key, at in own.items()})
        if "agent" in given:
            given = for_agent(given)
        is_batch = "items" in given
        self._check_kind(own, is_batch, section)
        found = self._target(given, section)
        batch_values = _read_options(_BATCH_OPTIONS, given, section) if is_batch else {}
        values = _read_options(
            {key: row for key, row in _JOB_OPTIONS.items() if not (is_batch and key in _BATCH_OPTIONS)}, given, section
        )
        self._check_schedule(values, section)
        for wrong in Job(name=name, target=_NO_COMMAND, **values).mistakes(as_setting):
            section.mistake(str(wrong), wrong.field)
        batch = self._batch(name, given["items"], batch_values, found, section) if is_batch and found else None
        if len(section.mistakes) > before or found is None:
            return None
        job = batch.job(sys.executable, **values) if batch else Job(name=name, target=found.target, **values)
        target = (*job.target.definition, *found.defined_as) if batch else found.defined_as
        job = replace(job, file=self._file, defined_as=options.definition(job, target=target))
        self.files += found.files
        return self._for_this_host(job, own.get("on"), is_batch)

    def _merged(self, own: dict[str, Any]) -> dict[str, Any]:
        """The job's keys over the defaults; `env` and `tags` are merged."""
        kept = {
            key: value for key, value in self._defaults.items() if not (key in TARGETS and own.keys() & TARGETS.keys())
        }
        if "items" in own:
            kept = {key: value for key, value in kept.items() if key not in _NOT_FOR_A_BATCH}
        else:
            kept = {key: value for key, value in kept.items() if key not in ONLY_OF_A_BATCH}
        for key in ("env", "tags"):
            if isinstance(kept.get(key), dict) and isinstance(own.get(key), dict):
                own = {**own, key: {**kept[key], **own[key]}}
        return {**kept, **own}

    def _target(self, given: dict[str, Any], section: Section) -> JobTarget | None:
        kinds = [kind for kind in TARGETS if kind in given]
        if len(kinds) != 1:
            examples = " or ".join(EXAMPLES[kind] for kind in TARGETS)
            name = ".".join(section.path)
            section.mistake(f"{name} has {' and '.join(kinds) or 'no command'}: write one of {examples}", *kinds[1:])
            return None
        if "args" in given and "python" not in given:
            section.mistake("args are those of a Python function: add " + EXAMPLES["python"], "args")
        try:
            return TARGETS[kinds[0]](given[kinds[0]], given, section.folder, self._interpreter)
        except UsageError as error:
            section.mistake(f"{error}. Example: {EXAMPLES[kinds[0]]}", kinds[0])
            return None

    def _batch(self, name: str, items: Any, values: dict[str, Any], found: JobTarget, section: Section) -> Batch | None:
        if not isinstance(items, str) or not items:
            section.mistake(f"items must name a file. Example: {EXAMPLES['items']}", "items")
            return None
        if not isinstance(found.target, Command):
            section.mistake("`items` is for a command, started for each item: use command, not python", "python")
            return None
        words = list(found.target.words)
        if found.is_shell_line:
            values, words = {**values, "shell": True}, words[2:]
        batch = Batch(name=name, items=items, command=words, continued_by=f"nightlatch run {name}", **values)
        try:
            return batch.check(as_setting)
        except BadOption as error:
            section.mistake(f"{error}. Example: {EXAMPLES[error.field]}", error.field)
            return None

    def _check_kind(self, own: dict[str, Section], is_batch: bool, section: Section) -> None:
        for key in own:
            if is_batch and key in _NOT_FOR_A_BATCH:
                section.mistake(
                    f"{key} is not for a batch, whose items are watched singly. Remove `{key}` or `items`", key
                )
            if not is_batch and key in ONLY_OF_A_BATCH:
                section.mistake(f"{key} is for a batch: add {EXAMPLES['items']}", key)

    def _check_schedule(self, values: dict[str, Any], section: Section) -> None:
        """Check the schedule, and add the time zone that it is in."""
        if not values.get("schedule"):
            values.pop("tz", None)  # from the defaults
            return
        is_cron = any(not text.lower().startswith("every") for text in values["schedule"])
        self.needs_timezone |= is_cron and not values.get("tz")
        values["tz"] = values.get("tz") or self._timezone
        try:
            there = zone.find(values["tz"])
        except UsageError as error:
            section.mistake(f"{error}. Example: {EXAMPLES['tz']}", "tz")
            there = UTC  # the schedule may be wrong too
        try:
            found = schedule.parse(values["schedule"], there)
        except UsageError as error:
            section.mistake(f"{error}. Example: {EXAMPLES['schedule']}", "schedule")
            return
        if not (jitter := values.get("jitter")):
            return
        shortest = min(
            later - slot for slot, later in pairwise(islice(found.between(_SAMPLE_FROM, float("inf")), _SAMPLE))
        )
        if jitter >= shortest:
            shown = duration.show(shortest)
            section.mistake(f"jitter {duration.show(jitter)} must be less than the {shown} between two slots", "jitter")

    def _for_this_host(self, job: Job, on: Section | None, is_batch: bool) -> Job:
        """The job with the overrides for this machine, which are not part of its definition."""
        for host, section in (on.table(on.value) if on else {}).items():
            given = {key: at.value for key, at in section.table(PER_HOST).items()}
            values = _read_options({key: _JOB_OPTIONS[key] for key in PER_HOST if key in _JOB_OPTIONS}, given, section)
            found = self._target(given, section) if "command" in given else None
            if is_batch and found:
                section.mistake("a batch must have the same command on all machines", "command")
                found = None
            if not hosts.same(host, self._host):
                continue
            if "env" in values:
                values["env"] = tuple((dict(job.env) | dict(values["env"])).items())
            job = replace(job, target=found.target if found else job.target, **values)
            self.files += found.files if found else ()
        return job


def _read_options(table: Mapping[str, Option], given: dict[str, Any], section: Section) -> dict[str, Any]:
    """The given values, read by the rows of `table`. A wrong value is noted as a mistake and left out."""
    found = {}
    for key in [key for key in table if key in given]:
        try:
            found[key] = table[key].read(given[key], as_setting)
        except BadOption as error:
            section.mistake(f"{error}. Example: {EXAMPLES[key]}", key)
    return found
