"""The top-level keys and tables of nightlatch.toml: one row each.

To add one, add a row to `SETTINGS`. Its `read` gets a `Section` (the value, its path in the file, the file's folder)
and returns the value of `config.settings["name"]`. It reports each mistake with `section.mistake(…)`, so that all are
shown at once, each with its line. If the reader is in a layer that imports this one, `read` is its
name, such as "web.settings:read"; it is imported only if the file has that key. If the key was in `RESERVED` in
config/load.py, take it out there.

`[defaults]` and `[jobs]` are read by config/jobs.py. A key of a job is a row of core/job.py, with an example in
config/examples.py; or a row of `TARGETS` in config/targets.py, if it says what is run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from ..core import checks
from ..errors import UsageError
from ..system import storage, zone
from .mistakes import Mistakes, Path, shown


class Section:
    """One value of the file, and its path there."""

    def __init__(self, value: Any, path: Path, folder: str, mistakes: Mistakes) -> None:
        self.value, self.path, self.folder, self.mistakes = value, path, folder, mistakes

    def mistake(self, what: str, *keys: str) -> None:
        """`what` is wrong with the value, or with a key inside it."""
        self.mistakes.add((*self.path, *keys), what)

    def table(self, known: Iterable[str]) -> dict[str, Section]:
        """The sections of its known keys; each unknown key is noted as a mistake."""
        if not isinstance(self.value, dict):
            self.mistake(f"{'.'.join(self.path)} must be a table: [{'.'.join(self.path)}]")
            return {}
        for key in self.value.keys() - set(known):
            self.mistakes.unknown((*self.path, key), known)
        return {key: self.at(key) for key in known if key in self.value}

    def at(self, key: str) -> Section:
        return Section(self.value[key], (*self.path, key), self.folder, self.mistakes)


class Setting:
    """One row. `example` is a line of TOML, for error messages and the docs."""

    def __init__(
        self, name: str, read: Callable[[Section], Any] | str, help: str, *, default: str, example: str
    ) -> None:
        self.name, self.help, self.default, self.example = name, help, default, example
        self._read = read

    def read(self, section: Section) -> Any:
        """The value of the key; None if it is wrong, which is noted as a mistake."""
        try:
            return import_function(self._read)(section) if isinstance(self._read, str) else self._read(section)
        except UsageError as error:
            section.mistake(f"{error}. Example: {self.example}")
            return None


def import_function(name: str) -> Callable[[Section], Any]:
    module, _, function = name.partition(":")
    found: Callable[[Section], Any] = getattr(import_module(f"nightlatch.{module}"), function)
    return found


def _store(section: Section) -> str:
    return storage.absolute_store(checks.text(section.value, "store"), section.folder)


def _timezone(section: Section) -> str:
    name = checks.text(section.value, "timezone")
    zone.find(name)
    return name


def _at_once(section: Section) -> int:
    return checks.whole(section.value, "at_once", least=1)


def _interpreter(section: Section) -> str:
    path = os.path.join(section.folder, os.path.expanduser(checks.text(section.value, "interpreter")))
    if not os.access(path, os.X_OK):
        raise UsageError(f"interpreter: {shown(path)} is not a program that you can start")
    return path


def _log(section: Section) -> str:
    found = checks.text(section.value, "log")
    if found not in ("logfmt", "json"):
        raise UsageError(f"log {found!r} is neither logfmt nor json")
    return found


def default_at_once() -> int:
    return 2 * (os.cpu_count() or 1)


def default_interpreter(folder: str) -> str:
    """The Python of `.venv` beside the file, else the one that runs Nightlatch."""
    venv_python = os.path.join(folder, ".venv", "bin", "python")
    return venv_python if os.access(venv_python, os.X_OK) else sys.executable


SETTINGS = [
    Setting(
        "store",
        _store,
        "the store: where leases, done keys and the state of jobs are kept",
        default="a file of this user",
        example='store = "git+origin"',
    ),
    Setting(
        "timezone",
        _timezone,
        "the time zone of every schedule; required if machines share a store",
        default="this machine's",
        example='timezone = "Europe/Berlin"',
    ),
    Setting("at_once", _at_once, "how many runs a machine has at a time", default="2 × cores", example="at_once = 4"),
    Setting(
        "interpreter",
        _interpreter,
        "the Python interpreter for `python` jobs",
        default="`.venv` beside the file, else Nightlatch's own",
        example='interpreter = ".venv/bin/python"',
    ),
    Setting("log", _log, "the format of runs.log: logfmt or json", default="logfmt", example='log = "json"'),
    Setting(
        "alerts",
        "observe.alerts.settings:read",
        "which alerts are sent where: see [alerts](alerts.md)",
        default="none",
        example='alerts = { webhook = { url = "https://example.org/hook" } }',
    ),
    Setting(
        "pages",
        "web.settings:read",
        "the web pages, on loopback. `port`: their port; `url`: the https address at which a proxy shows them; "
        "`metrics_port`: a port where Prometheus needs no token: see [the pages](pages.md)",
        default="port 4747",
        example='pages = { port = 4747, url = "https://nightlatch.example.org" }',
    ),
    Setting(
        "budget",
        "config.metering:read_budget",
        "the most that all jobs together may use in a day or a month",
        default="none",
        example='budget = { "usd/day" = 20 }',
    ),
    Setting(
        "prices",
        "config.metering:read_prices",
        "prices of a model, in usd per million tokens; they replace the listed ones",
        default="genai-prices",
        example='prices."my-model" = { input = 1.5, output = 6, cache_read = 0.15 }',
    ),
    Setting(
        "gateway",
        "config.metering:read_gateway",
        "`ceiling`: the price for models without one; `allow`: more paths that may be called, with usd per call",
        default="such calls are refused",
        example='gateway = { ceiling = { input = 30, output = 150 }, allow = { "v1/audio/speech" = 0.05 } }',
    ),
]
