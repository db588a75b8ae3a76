"""What a store's URL leads to: the store, the place of its ledger, and its folder on this machine."""

from __future__ import annotations

import os

from ..config import place
from ..core import checks
from ..core.passwords import hide_password, without_password
from ..database import dsn
from ..errors import StoreUnreachable, UsageError
from ..system import preload, storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..core.protocols import Store

ENV = "NIGHTLATCH_STORE"

_shared: dict[str, Store] = {}  # URL → the store that `shared` returned for it


def resolve(url: str | None) -> str:
    """The URL to use, the first of: `url`, NIGHTLATCH_STORE, the store of the run around us, that of nightlatch.toml,
    this user's default file."""
    if url is not None:
        checks.text(url, "the store's URL", empty=True)
    found = url or os.environ.get(ENV) or of_run() or place.store() or default()
    if found.startswith("via:"):
        from . import via_supervisor

        return via_supervisor.ask(found.removeprefix(via_supervisor.PREFIX))
    return found


def default() -> str:
    """This user's SQLite file, for when no store is named."""
    return f"{storage.FILE_URL}{storage.state_folder()}/nightlatch.db"


def of_run() -> str:
    """Inside a run: the run's store without its password, as the supervisor reports it. "" elsewhere."""
    socket = os.environ.get("NIGHTLATCH_SOCKET")
    if not socket or not os.environ.get("NIGHTLATCH_RUN"):
        return ""
    from . import via_supervisor

    return without_password(via_supervisor.ask(socket))


class Scheme:
    """A kind of store: one row of `SCHEMES` at the end of this file, and a module that implements `Store`."""

    def __init__(
        self,
        *prefixes: str,
        example: str,
        connect: Callable[[str], Store],
        ledger: str,
        checkup: str = "",
        large: bool = False,
    ) -> None:
        """`checkup`: the module whose `findings(url)` `nightlatch doctor` shows. `large`: its driver is slow to load,
        so the warden, which does not need the driver, is forked first."""
        self.prefixes, self.example, self.connect = prefixes, example, connect
        self.ledger, self.checkup, self.large = ledger, checkup, large


# Where a store's ledger is: a file beside it (so that a process stopped inside a ledger transaction blocks no renewal),
# the same database, or a file on each machine.
BESIDE, INSIDE, OF_EACH_MACHINE = "beside", "inside", "of each machine"


def scheme_of(url: str) -> Scheme | None:
    """What kind of store a URL names; None if it names none."""
    return next((scheme for scheme in SCHEMES if url.startswith(scheme.prefixes)), None)


def ledger_of(url: str) -> str:
    """Where a store's ledger is; on each machine if the scheme is not one of ours."""
    scheme = scheme_of(url)
    return scheme.ledger if scheme else OF_EACH_MACHINE


def folder_of(url: str) -> str:
    """Where this machine keeps lifetime locks, queues and sightings for a store."""
    if ledger_of(url) == BESIDE:
        return _sqlite_path(url) + ".d"
    if url.startswith("git+") and ":" not in url:  # git+origin is another store in another repository
        return connect(url).folder
    return storage.folder_for(hide_password(url))  # with a new password it is still the same store


def connect(url: str | None = None) -> Store:
    """The store at a URL. Nothing is opened before its first verb."""
    url = resolve(url)
    scheme = scheme_of(url)
    if scheme is None:
        path = os.path.abspath(os.path.expanduser(url)) if url.startswith(("/", ".", "~")) else ""
        use = f"For that file write {storage.FILE_URL}{path}" if path else f"Use {examples()}"
        raise UsageError(
            f"{hide_password(url)!r} does not name a store. {use}; "
            f"without --store and {ENV} it is a file in {storage.state_folder()}"
        )
    return scheme.connect(url)


def examples() -> str:
    """An example URL of each kind of store, for messages."""
    *most, last = (scheme.example for scheme in SCHEMES)
    return f"{', '.join(most)} or {last}"


def shared(url: str | None = None) -> Store:
    """One store for each URL in this process, since opening a store and closing its last connection take time."""
    where = resolve(url)
    if where not in _shared:
        _shared[where] = connect(where)
    return _shared[where]


def _sqlite(url: str) -> Store:
    preload.load(preload.STORE)
    from ..database.sqlite import SqliteDatabase
    from .sql import SqlStore

    path = _sqlite_path(url)
    return SqlStore(url, SqliteDatabase(path, "store", is_real=True), f"{path}.d")


def _git(url: str) -> Store:
    from .git import store

    return store.connect(url)


def _postgres(url: str) -> Store:
    try:
        from ..database.postgres import PostgresDatabase
    except ImportError as error:
        from ..system import extras

        raise StoreUnreachable(
            f"the store {hide_password(url)} needs psycopg 3 ({error}): {extras.install('postgres')}"
        ) from error
    from .sql import SqlStore

    return SqlStore(hide_password(url), PostgresDatabase(url, "store"), folder_of(url))


def _sqlite_path(url: str) -> str:
    path = url.removeprefix(storage.FILE_URL)
    if path == url or not path or path == ":memory:":
        raise UsageError(
            f"{url!r} does not name a file. Write sqlite:///leases.db for a file in this folder, "
            f"or sqlite:////var/lib/leases.db (four slashes) for a path from the root"
        )
    folder = os.path.dirname(path)
    if folder and not path.startswith(("/", "~")) and not os.path.isdir(folder):
        raise UsageError(
            f"{url!r} is a path from this folder, and there is no {folder} here. "
            f"Write {storage.FILE_URL}/{path} (four slashes) for a path from the root, or make that folder"
        )
    return os.path.realpath(os.path.expanduser(path))  # one folder of locks, whichever path names the store


SCHEMES = (
    Scheme(
        "sqlite:",
        example="sqlite:////path/to/file",
        connect=_sqlite,
        ledger=BESIDE,
        checkup="cli.doctor_sqlite",
        large=True,
    ),
    Scheme("git+", example="git+origin", connect=_git, ledger=OF_EACH_MACHINE, checkup="store.git.checkup"),
    Scheme(
        *dsn.SCHEMES,
        example="postgresql://user@host/database",
        connect=_postgres,
        ledger=INSIDE,
        checkup="cli.doctor_postgres",
        large=True,
    ),
)
