"""Reading nightlatch.toml as a whole: a `Config`, or every mistake in it at once (exit code 78)."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from typing import Any

from ..core.job import Job
from ..core.value import replace, value
from ..errors import BadConfig
from ..system import identity, storage, zone
from . import lines
from .jobs import ALERTS, Jobs
from .mistakes import Mistakes, Path, shown
from .settings import SETTINGS, Section, default_at_once, default_interpreter, import_function
from .targets import Stamp, stamp

TABLES = ("defaults", "jobs")  # read by config/jobs.py
RESERVED = ("keep",)  # keys that a later version may use


@value(frozen=True, kw_only=True)
class Config:
    """A valid nightlatch.toml."""

    path: str
    text: str
    settings: dict[str, Any]  # by name; only those that the file sets
    timezone: str
    jobs: dict[str, Job]
    stamps: tuple[Stamp, ...]  # of every file that it was read from

    @property
    def folder(self) -> str:
        return os.path.dirname(self.path)

    @property
    def store(self) -> str:
        """The store's URL; "" if the file names none."""
        return str(self.settings.get("store", ""))

    @property
    def at_once(self) -> int:
        return int(self.settings.get("at_once") or default_at_once())

    @property
    def interpreter(self) -> str:
        return str(self.settings.get("interpreter") or default_interpreter(self.folder))

    @property
    def changed(self) -> bool:
        """Has one of its files changed since it was read?"""
        return any(one != stamp(one[0]) for one in self.stamps)

    def job(self, name: str) -> Job:
        if name in self.jobs:
            return self.jobs[name]
        import difflib

        near = difflib.get_close_matches(name, self.jobs, n=1)
        hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(self.jobs) or 'no jobs'}"
        raise BadConfig(f"{shown(self.path)} has no job {name!r}: {hint}")


def load(path: str, *, host: str = "") -> Config:
    """The configuration for this machine, or for `host`. Raises `BadConfig` with every mistake."""
    file_stamp = stamp(path)
    text = _read(path)
    document, mistakes = _parse(path, text)
    folder = os.path.dirname(path)
    for key in _paths_with_null_bytes(document):
        mistakes.add(key, "a text holds the character \\u0000, which no file name or command can have")
    mistakes.raise_any()
    rows = {row.name: row for row in SETTINGS}
    top = Section(document, (), folder, mistakes)
    known = top.table((*rows, *TABLES, *RESERVED))
    for name in known.keys() & set(RESERVED) - rows.keys():
        known[name].mistake(f"{name} is reserved for a later version")
    settings = {name: row.read(known[name]) for name, row in rows.items() if name in known}
    jobs = Jobs(
        timezone=settings.get("timezone") or zone.name(),
        interpreter=settings.get("interpreter") or default_interpreter(folder),
        file=path,
        host=host or identity.host(),
    )
    if "defaults" in known:
        jobs.defaults(known["defaults"])
    found = jobs.read(known["jobs"]) if "jobs" in known else {}
    if not settings.get("timezone") and _is_shared(settings.get("store")) and jobs.needs_timezone:
        top.mistake(
            f'timezone is missing: machines that share a store must agree on it. Example: timezone = "{zone.name()}"',
            "store",
        )
    if jobs.alerts or settings.get(ALERTS):
        settings[ALERTS] = _with_jobs(settings.get(ALERTS), jobs.alerts)
    mistakes.raise_any()
    return Config(
        path=path,
        text=text,
        settings=settings,
        timezone=settings.get("timezone") or zone.name(),
        jobs=found,
        stamps=(file_stamp, *jobs.files),
    )


def alerts_of(path: str) -> Any:
    """The settings of alerts, or None if the file has none. Mistakes elsewhere in the file are ignored."""
    document, mistakes = _parse(path)
    folder, row = os.path.dirname(path), next(row for row in SETTINGS if row.name == ALERTS)
    found = row.read(Section(document[ALERTS], (ALERTS,), folder, mistakes)) if ALERTS in document else None
    jobs = document.get("jobs")
    tables = jobs.items() if isinstance(jobs, dict) else ()
    own = {
        name: Section(table[ALERTS], ("jobs", name, ALERTS), folder, mistakes)
        for name, table in tables
        if isinstance(table, dict) and ALERTS in table
    }
    mistakes.raise_any()
    return _with_jobs(found, own) if found else None


def _with_jobs(everywhere: Any, jobs: dict[str, Section]) -> Any:
    """The settings of `[alerts]`, with each job's own settings added."""
    read_job: Any = import_function("observe.alerts.settings:read_job")
    found = {name: read_job(section, everywhere) for name, section in jobs.items()}
    return replace(everywhere, jobs=found) if everywhere and found else everywhere


def settings_of(path: str, *names: str, text: str | None = None) -> dict[str, Any]:
    """The named top-level keys that are set in the file, or in `text` instead. Mistakes elsewhere are ignored."""
    document, mistakes = _parse(path, text)
    found = {
        row.name: row.read(Section(document[row.name], (row.name,), os.path.dirname(path), mistakes))
        for row in SETTINGS
        if row.name in names and row.name in document
    }
    mistakes.raise_any()
    return found


def _in_words(error: str) -> str:
    """An error of tomllib, with what to write instead."""
    if error.startswith("Cannot declare (") and error.endswith(" twice"):
        name = error.partition("(")[2].rpartition(")")[0].replace("'", "").replace(", ", ".").rstrip(",.")
        return f"there are two [{name}]: give one of them another name, or make them one"
    if error.startswith("Expected ']'"):
        return f"{error}. Names have letters, digits, - and _, as in [jobs.my-job]"
    return f'{error}. Text needs quotes, as in timeout = "30m"'


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read().replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(f"{shown(path)} cannot be read: {error}") from None


def _parse(path: str, text: str | None = None) -> tuple[dict[str, Any], Mistakes]:
    """Parse the file, or `text` instead."""
    text = _read(path) if text is None else text
    try:
        return tomllib.loads(text), Mistakes(path, lines.find(text))
    except tomllib.TOMLDecodeError as error:
        what, _, place = str(error).rpartition(" (at ")
        line = place.removeprefix("line ").partition(",")[0]
        at = line if line.isdecimal() else str(text.count("\n") + 1)  # tomllib says "at end of document"
        raise BadConfig(f"{shown(path)}:{at}: {_in_words(what or str(error))}") from None
    except RecursionError as error:
        raise BadConfig(f"{shown(path)} cannot be read: {error}") from None


def _paths_with_null_bytes(value: Any, path: Path = ()) -> Iterator[Path]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from [path] if "\0" in key else _paths_with_null_bytes(inner, (*path, key))
    elif isinstance(value, list):
        for inner in value:
            yield from _paths_with_null_bytes(inner, path)
    elif isinstance(value, str) and "\0" in value:
        yield path


def _is_shared(store: str | None) -> bool:
    return bool(store) and not str(store).startswith(storage.FILE_URL)
