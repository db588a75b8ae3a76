"""The modules that `lock` and `run` load, in an order in which each finds what it imports already there.

They make up most of what these commands cost. `import` takes locks, asks every finder and looks through folders for
each of them: a fifth of the time, and all of it to find a path that is known. So they are loaded from their paths here.
The lists only save time. A module that is missing in them is imported where it is needed, and a test compares them with
what is imported without them. (`python -X importtime` does not show what is loaded here.)
"""

from __future__ import annotations

import os
import sys

from .light import SourceFileLoader, module_from_spec, spec_from_file_location

# Parts of a command. A store in SQLite is opened after the warden is forked, which needs little; work follows unless it
# is already done.
START, STORE, WORK = "start", "store", "work"

# command → part → modules, by folder
MODULES = {
    "lock": {
        START: """
core: checks duration value model passwords advice
system: clock durable storage process cgroup identity lifetime warden_messages tree warden_process warden
config: place
database: dsn
store: url
runtime.supervisor: supervision
runtime.supervisor.leases: supervise
cli: arguments lock
""",
        STORE: """
core: tenure
system: filelock presence
database: schema sqlite_presence sqlite_errors sqlite_log sqlite guarded
store: keeper sql
runtime.shared.leases: acquire lease
""",
    },
    "run": {
        START: """
core: value passwords advice checks duration units budget options statuses target model stage tenure retry job
system: clock durable storage process cgroup identity lifetime warden_messages tree warden_process warden
config: place
database: dsn
store: url
ledger:
runtime.shared: verdict job trace
runtime.supervisor: backoff supervision
runtime.supervisor.socket: reported
runtime.supervisor.run: spending preflight pipeline tries
runtime.supervisor: start
cli: verdict_line arguments run
""",
        STORE: """
core: effects
system: filelock presence zone
database: schema sqlite_presence sqlite_errors sqlite_log sqlite guarded
store: sql
ledger: chain kinds typed_table records decisions opening step_chain sealing tables ledger location
""",
        WORK: """
system: provenance token_shapes redaction
store: keeper
ledger: group_commit run_fence writer
runtime.shared: recorded_start
runtime.shared.leases: acquire lease
runtime.supervisor.socket: folders server
runtime.supervisor.run: went_in output watch attend begin ending attempt
""",
    },
}

_PACKAGE = __name__.partition(".")[0]
_parts: dict[str, str] = {}  # of this process's command, that are not loaded yet


def begin(command: str) -> None:
    """Load the first part of the command; `load` does the others. No lock is taken, so this is for a process that has
    no threads yet when it calls `load`."""
    _parts.update(MODULES.get(command, {}))
    load(START)


def load(part: str) -> None:
    """Load a part of the command that `begin` was called for, if it is not loaded yet."""
    _load(_parts.pop(part, ""))


def _load(folders: str) -> None:
    try:
        for line in folders.split("\n"):
            folder, _, names = line.partition(":")
            package = _PACKAGE
            for part in folder.split(".") if folder else ():
                package = _module(package, part, is_package=True)
            for name in names.split():
                _module(package, name)
    except OSError:
        return  # these are not plain files, or they are being replaced: `import` knows what to do


def _module(package: str, name: str, *, is_package: bool = False) -> str:
    """As `import`, from the file where it has to be."""
    whole = f"{package}.{name}"
    if whole in sys.modules:
        return whole
    parent = sys.modules[package]
    path = os.path.join(parent.__path__[0], name)
    file, folders = (f"{path}/__init__.py", [path]) if is_package else (f"{path}.py", None)
    loader = SourceFileLoader(whole, file)
    spec = spec_from_file_location(whole, file, loader=loader, submodule_search_locations=folders)
    sys.modules[whole] = module = module_from_spec(spec)
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[whole]
        raise
    setattr(parent, name, module)
    return whole
