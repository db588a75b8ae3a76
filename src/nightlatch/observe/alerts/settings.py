"""`[alerts]` and `[jobs.NAME.alerts]` of nightlatch.toml."""

from __future__ import annotations

import os
from typing import Any

from ...config.settings import Section
from ...core import checks, duration
from ...core.value import value
from ...errors import UsageError
from .rules import RULES
from .transports import TRANSPORTS

_OF_A_JOB = ("after", "remind", "mute", "to")
_EVERYWHERE = (*_OF_A_JOB, "digest", "group")
GROUP = 30.0  # seconds; see AlertSettings.group


@value(frozen=True, kw_only=True)
class JobAlerts:
    after: int = 1  # failures in a row before the first alert
    remind: float | None = None  # seconds between reminders; None: no reminders
    mute: tuple[str, ...] = ()  # rules whose alerts are not sent
    to: tuple[str, ...] = ()  # transports that send the alerts; (): all


@value(frozen=True, kw_only=True)
class AlertSettings:
    transports: dict[str, dict[str, Any]]  # by name: its kind and its settings
    defaults: JobAlerts = JobAlerts()
    jobs: dict[str, JobAlerts] = {}  # noqa: RUF012 - a value is frozen, and this one is never changed
    digest: str = ""  # when the morning report is sent, such as 07:00; "": never
    group: float = GROUP  # seconds that an alert waits for others, to be sent with them
    page: str = ""  # the URL of the pages

    def of(self, job: str) -> JobAlerts:
        return self.jobs.get(job, self.defaults)

    def routes(self, job: str, rule: str) -> list[str]:
        """The transports that send this rule's alerts about this job."""
        own = self.of(job)
        if rule in own.mute:
            return []
        return [name for name in self.transports if not own.to or name in own.to]


def read(section: Section) -> AlertSettings:
    """`[alerts]`: settings for all jobs, and a table for each transport."""
    if not isinstance(section.value, dict):
        raise UsageError("alerts must be a table: [alerts]")
    transports: dict[str, dict[str, Any]] = {}
    for key in section.value:
        if key in _EVERYWHERE:
            continue
        table = section.at(key)
        if not isinstance(table.value, dict):
            settings = ", ".join(_EVERYWHERE)
            section.mistake(f"alerts.{key} is neither a setting ({settings}) nor a table of a transport", key)
            continue
        kind = table.value.get("kind", key)
        if kind not in TRANSPORTS:
            section.mistake(f"{kind!r} is not a transport: use one of {', '.join(TRANSPORTS)}", key)
            continue
        transports[key] = _transport(table, kind)
    keys = _KeyReader(section)
    return AlertSettings(
        transports=transports,
        defaults=keys.of_a_job(transports),
        digest=keys.time("digest"),
        group=keys.seconds("group", GROUP) or 0.0,
    )


def read_job(section: Section, everywhere: AlertSettings | None) -> JobAlerts:
    """`[jobs.NAME.alerts]`, which overrides `[alerts]`."""
    section.table(_OF_A_JOB)
    base = everywhere.defaults if everywhere else JobAlerts()
    return _KeyReader(section, base).of_a_job(everywhere.transports if everywhere else None)


class _KeyReader:
    """Reads the keys of either table. `base`: the values of keys that the table does not have."""

    def __init__(self, section: Section, base: JobAlerts = JobAlerts()) -> None:  # noqa: B008 - it is frozen
        self._section, self._given, self._base = section, section.value, base

    def of_a_job(self, transports: dict[str, dict[str, Any]] | None) -> JobAlerts:
        after, remind = self._base.after, self._base.remind
        try:
            if "after" in self._given:
                after = checks.whole(self._given["after"], "after", least=1)
        except UsageError as error:
            self._section.mistake(str(error), "after")
        remind = None if self._given.get("remind") == "none" else self.seconds("remind", remind)
        if remind is not None and remind < 60:
            self._section.mistake('remind must be at least a minute, as in remind = "1d"', "remind")
        mute = self._names("mute", RULES, self._base.mute)
        return JobAlerts(after=after, remind=remind, mute=mute, to=self._names("to", transports, self._base.to))

    def seconds(self, key: str, default: float | None) -> float | None:
        try:
            return duration.parse(self._given[key], what=key) if key in self._given else default
        except UsageError as error:
            self._section.mistake(str(error), key)
            return default

    def time(self, key: str) -> str:
        text = self._given.get(key, "")
        hours, _, minutes = str(text).partition(":")
        if text and not (hours.isdigit() and minutes.isdigit() and int(hours) < 24 and int(minutes) < 60):
            self._section.mistake(f'{key} must be a time of the day, as in {key} = "07:00"', key)
            return ""
        return f"{int(hours):02d}:{int(minutes):02d}" if text else ""

    def _names(self, key: str, known: Any, base: tuple[str, ...]) -> tuple[str, ...]:
        found = self._given.get(key)
        if found is None:
            return base
        names = [found] if isinstance(found, str) else found
        if not isinstance(names, list):
            self._section.mistake(f'{key} must be a list, as in {key} = ["failed"]', key)
            return base
        for name in names:
            if known is not None and name not in known:
                hint = f"there is {', '.join(known)}" if known else "add a table for it, as in [alerts.ntfy]"
                self._section.mistake(f"{key}: there is no {name!r}: {hint}", key)
        return tuple(names)


def _transport(section: Section, kind: str) -> dict[str, Any]:
    """The transport's settings; instead of a secret, where to find it."""
    transport = TRANSPORTS[kind]
    found: dict[str, Any] = {"kind": kind}
    for key, at in section.table((*transport.keys, "kind")).items():
        if key in transport.secrets and isinstance(at.value, str):
            section.mistake(
                f'{key} is a secret: write where it is, as in {key} = {{ env = "NAME" }} or {{ file = "path" }}', key
            )
        elif isinstance(at.value, dict) and key in (*transport.secrets, *transport.may_be_secret):
            found[key] = _secret_place(at)
        else:
            found[key] = at.value
    for key in transport.required:
        if key not in section.value:
            section.mistake(f"{key} is missing. Example: {transport.example}")
    return found


def _secret_place(section: Section) -> dict[str, str]:
    given = section.table(("env", "file"))
    if len(given) != 1:
        section.mistake('write one of { env = "NAME" } and { file = "path" }')
        return {}
    if "file" in given:
        path = os.path.expanduser(str(section.value["file"]))
        return {"file": os.path.join(section.folder, path)}
    return {"env": str(section.value["env"])}


def revealed(setting: Any) -> Any:
    """The value of a setting that may be a secret: from the environment or a file, read when it is needed."""
    if not isinstance(setting, dict):
        return setting
    if "env" in setting:
        found = os.environ.get(setting["env"], "")
        if not found:
            raise UsageError(f"the environment has no {setting['env']}, which an alert's transport needs")
        return found
    try:
        with open(setting["file"], encoding="utf-8") as file:
            return file.read().strip()
    except OSError as error:
        raise UsageError(f"{setting['file']} cannot be read: {error.strerror}") from None
