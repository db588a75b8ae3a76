"""Where a store's ledger is kept."""

from __future__ import annotations

import os

from ..store import url as store
from .ledger import Ledger


def open_for(store_url: str | None = None) -> Ledger:
    """The ledger beside the store, inside it, or in a file of this machine, as the URL's scheme says."""
    url = store.resolve(store_url)
    where = store.ledger_of(url)
    if where == store.BESIDE:
        return in_file(files(url)[1])
    store.connect(url).close()  # refuses a URL that names no store
    if where == store.INSIDE:
        return at(url)
    return in_file(_of_this_machine(url))


def areas(url: str) -> set[str]:
    """The areas of a store that exist: `store`, `ledger`, both or neither. Creates nothing."""
    where = store.ledger_of(url)
    store.connect(url).close()  # refuses a URL that names no store
    if where == store.INSIDE:
        from ..database.postgres import PostgresDatabase

        return PostgresDatabase(url, "ledger").areas()
    if where == store.OF_EACH_MACHINE:
        return {"store", "ledger"} if os.path.exists(_of_this_machine(url)) else {"store"}
    from ..database.sqlite import SqliteDatabase

    file, ledger = files(url)
    return {"store", "ledger"} if os.path.exists(ledger) else SqliteDatabase(file, "store").areas()


def open_to_read(url: str) -> Ledger:
    """The ledger of a store that has one, for a reader."""
    where = store.ledger_of(url)
    if where == store.INSIDE:
        return at(url)
    return in_file(files(url)[1] if where == store.BESIDE else _of_this_machine(url), read_only=True)


def empty() -> Ledger:
    """An empty ledger, for a reader of a store that has none yet."""
    from ..database.sqlite import MEMORY

    return in_file(MEMORY, read_only=True)


def files(url: str) -> tuple[str, str]:
    """(the store's file, the ledger's) of a store whose ledger is beside it."""
    path = store.folder_of(url).removesuffix(".d")
    stem, ending = os.path.splitext(path)
    return path, f"{stem}-ledger{ending}"


def file_of(url: str) -> str:
    """The file of a store's ledger; "" if the ledger is in the store."""
    where = store.ledger_of(url)
    if where == store.INSIDE:
        return ""
    return os.path.realpath(files(url)[1] if where == store.BESIDE else _of_this_machine(url))


def at(address: str) -> Ledger:
    """The ledger that `Ledger.address` names."""
    if store.ledger_of(address) != store.INSIDE:
        return in_file(address)
    from ..database.postgres import PostgresDatabase

    server = PostgresDatabase(address, "ledger")
    return Ledger(server, server)


def in_file(path: str, *, read_only: bool = False) -> Ledger:
    from ..database.sqlite import SqliteDatabase

    file = SqliteDatabase(path, "ledger", read_only=read_only)
    return Ledger(file, SqliteDatabase(file.path, "ledger", read_only=read_only, is_real=True))


def _of_this_machine(url: str) -> str:
    return os.path.join(store.folder_of(url), "ledger.db")
