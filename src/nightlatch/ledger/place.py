"""Where a store's ledger stands."""

from __future__ import annotations

import os

from ..database import dsn
from ..store import url as store
from .ledger import Ledger


def open_for(store_url: str | None = None) -> Ledger:
    """A file of its own beside an SQLite store (a writer stopped inside a ledger transaction stops no renewal),
    the same database for PostgreSQL, and for every other store a file of this machine."""
    url = store.resolve(store_url)
    if url.startswith("sqlite:"):
        return in_file(files(url)[1])
    store.connect(url).close()  # a URL that names no store names no ledger
    if url.startswith(dsn.SCHEMES):
        return at(url)
    return in_file(os.path.join(store.folder_of(url), "ledger.db"))


def files(url: str) -> tuple[str, str]:
    """Of an SQLite store: where it stands, and where its ledger does."""
    path = store.folder_of(url).removesuffix(".d")
    stem, ending = os.path.splitext(path)
    return path, f"{stem}-ledger{ending}"


def at(address: str) -> Ledger:
    """By what `Ledger.address` says."""
    if not address.startswith(dsn.SCHEMES):
        return in_file(address)
    from ..database.postgres import Postgres

    server = Postgres(address, "ledger")
    return Ledger(server, server)


def in_file(path: str) -> Ledger:
    from ..database.sqlite import Sqlite

    return Ledger(Sqlite(path, "ledger"), Sqlite(path, "ledger"))
