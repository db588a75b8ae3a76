"""Shared by the commands that show something: which store, and since when."""

from __future__ import annotations

import os

from ..config import place
from ..core import advice, duration
from ..observe import reader
from ..observe.reader import NoStore, StoreReader
from ..store import url
from ..system import clock


def open_reader(store: str | None, *, listing: bool = False) -> StoreReader:
    """Read the store that `--store` names, else the one that applies here. `listing`: see `_explained`."""
    try:
        return StoreReader(url.resolve(store))
    except NoStore as error:
        raise _explained(error, store, listing) from None


def existing(store: str | None, *, listing: bool = False) -> str:
    """The URL of a store that exists."""
    where = url.resolve(store)
    try:
        reader.existing(where)
    except NoStore as error:
        raise _explained(error, store, listing) from None
    return where


def _explained(error: NoStore, store: str | None, listing: bool) -> NoStore:
    """With advice. A command that only lists (`listing`) exits with 0 before the default store's first use."""
    named = "--store" if store else url.ENV if os.environ.get(url.ENV) else ""
    yet = f", which {named} names: is that what you meant?" if named else " yet."
    words = ("serve",) if place.find() else ("run", "hello", "--", "echo", "hello")
    first = f"The first run makes it: {advice.command(*words)}"
    error.args = (f"{error}{yet} {first}; all commands: nightlatch --help",)
    if listing and not named:
        error.exit_code = 0
    return error


def since_of(text: str | None) -> float | None:
    return None if text is None else clock.wall() - duration.parse(text, what="--since")
