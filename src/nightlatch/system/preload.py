"""The modules that `lock` and `run` load, in an order in which each finds what it imports already there.

Loading them is most of what these commands cost. For each of them `import` takes locks, asks every finder and searches
folders for a path that is known already, then reads the file with ten system calls where four are enough. That is a
third of the time of loading, so they are loaded from their paths here.
The lists only save time. A module that is missing in them is imported where it is needed, and a test compares them with
what is imported without them. (`python -X importtime` does not show what is loaded here.)
"""

from __future__ import annotations

import marshal
import os
import sys

from .light import MAGIC_NUMBER, SourceFileLoader, module_from_spec, spec_from_file_location

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType

# Parts of a command. START: until the warden is forked, which needs little. STORE: to open a SQLite store. WORK: for
# work that is not done already.
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
ledger: chain kinds typed_table records changing opening step_chain sealing tables ledger location
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
_parts: dict[str, str] = {}  # the parts of this process's command that are not loaded yet
_TAG = sys.implementation.cache_tag
_PYC_IS_IN_PYCACHE = bool(_TAG) and not sys.pycache_prefix and not sys.flags.optimize  # where Python usually keeps it


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
    path = f"{parent.__path__[0]}/{name}"
    folder, stem = (path, "__init__") if is_package else (parent.__path__[0], name)
    file, folders = f"{folder}/{stem}.py", [path] if is_package else None
    loader = SourceFileLoader(whole, file)
    spec = spec_from_file_location(whole, file, loader=loader, submodule_search_locations=folders)
    if _PYC_IS_IN_PYCACHE:
        spec.cached = f"{folder}/__pycache__/{stem}.{_TAG}.pyc"
    sys.modules[whole] = module = module_from_spec(spec)
    try:
        code = (_compiled(file, spec.cached) if _PYC_IS_IN_PYCACHE else None) or loader.get_code(whole)
        assert code
        exec(code, module.__dict__)  # noqa: S102 - as `import` does
    except BaseException:
        del sys.modules[whole]
        raise
    setattr(parent, name, module)
    return whole


def _compiled(file: str, cached: str) -> CodeType | None:
    """The code that Python has compiled from `file`, as `import` would read it; None if only `import` can tell."""
    try:
        fd = os.open(cached, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        content = os.read(fd, os.fstat(fd).st_size)
    finally:
        os.close(fd)
    source = os.stat(file)
    stamp = b"".join((part & 0xFFFFFFFF).to_bytes(4, "little") for part in (0, int(source.st_mtime), source.st_size))
    if not content.startswith(MAGIC_NUMBER + stamp):
        return None  # of another Python, or of another state of the file
    code: CodeType = marshal.loads(memoryview(content)[16:])  # noqa: S302 - as `import` does
    return code if code.co_filename == file else None
