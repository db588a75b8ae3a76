"""Where a store's ledger stands."""

from __future__ import annotations

import os

from ..store import url as store
from .ledger import Ledger


def open_for(store_url: str | None = None) -> Ledger:
    """Beside the store, inside it, or a file of this machine, as its scheme says."""
    url = store.resolve(store_url)
    where = store.ledger_of(url)
    if where == store.BESIDE:
        return in_file(files(url)[1])
    store.connect(url).close()  # a URL that names no store names no ledger
    if where == store.INSIDE:
        return at(url)
    return in_file(os.path.join(store.folder_of(url), "ledger.db"))


def files(url: str) -> tuple[str, str]:
    """Of a store whose ledger is beside it: its file, and the ledger's."""
    path = store.folder_of(url).removesuffix(".d")
    stem, ending = os.path.splitext(path)
    return path, f"{stem}-ledger{ending}"


def at(address: str) -> Ledger:
    """By what `Ledger.address` says."""
    if store.ledger_of(address) != store.INSIDE:
        return in_file(address)
    from ..database.postgres import Postgres

    server = Postgres(address, "ledger")
    return Ledger(server, server)


def in_file(path: str) -> Ledger:
    from ..database.sqlite import Sqlite

    return Ledger(Sqlite(path, "ledger"), Sqlite(path, "ledger"))
