"""A store by its URL."""

from __future__ import annotations

import os

from ..core import given
from ..core.passwords import hide_password
from ..database import dsn
from ..errors import StoreUnreachable, UsageError
from ..system import storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.protocols import Store

ENV = "NIGHTLATCH_STORE"

_shared: dict[str, Store] = {}


def resolve(url: str | None) -> str:
    """The URL in force: the one given, the environment's, or the default file of this user."""
    if url is not None:
        given.text(url, "the store's URL", empty=True)
    return url or os.environ.get(ENV) or f"sqlite:///{storage.state_folder()}/nightlatch.db"


def folder_of(url: str) -> str:
    """Where this machine keeps lifetime locks, queues and sightings for a store."""
    if url.startswith("sqlite:"):
        return _sqlite_path(url) + ".d"
    import hashlib

    named = hide_password(url)  # a new password makes no new store
    return os.path.join(storage.state_folder(), "stores", hashlib.sha256(named.encode()).hexdigest()[:16])


def connect(url: str | None = None) -> Store:
    """Name a store. Nothing is opened before the first verb."""
    url = resolve(url)
    if url.startswith("sqlite:"):
        from ..database.sqlite import Sqlite
        from .sql import SqlStore

        return SqlStore(url, Sqlite(_sqlite_path(url), "store"), folder_of(url))
    if url.startswith("git+"):
        from .git import store

        return store.connect(url)
    if url.startswith(dsn.SCHEMES):
        return _postgres(url)
    raise UsageError(
        f"{hide_password(url)!r} does not name a store. Use sqlite:///file (a relative path), sqlite:////path/to/file, "
        f"git+origin or postgresql://user@host/database; "
        f"without --store and {ENV} it is a file in {storage.state_folder()}"
    )


def shared(url: str | None = None) -> Store:
    """The store of this process for a URL: opening one, and closing the last connection to it, takes time."""
    where = resolve(url)
    if where not in _shared:
        _shared[where] = connect(where)
    return _shared[where]


def _postgres(url: str) -> Store:
    try:
        from ..database.postgres import Postgres
    except ImportError as error:
        raise StoreUnreachable(
            f"the store {hide_password(url)} needs psycopg 3 ({error}): pip install 'nightlatch[postgres]'"
        ) from error
    from .sql import SqlStore

    return SqlStore(hide_password(url), Postgres(url, "store"), folder_of(url))


def _sqlite_path(url: str) -> str:
    path = url.removeprefix("sqlite:///")
    if path == url or not path or path == ":memory:":
        raise UsageError(
            f"{url!r} names no file. Write sqlite:///leases.db for a file in this folder, "
            f"or sqlite:////var/lib/leases.db (four slashes) for a path from the root"
        )
    return os.path.abspath(os.path.expanduser(path))
