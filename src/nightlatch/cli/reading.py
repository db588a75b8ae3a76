"""What the commands that show something share: the store that is meant, and since when."""

from __future__ import annotations

import os

from ..core import advice, duration
from ..observe import reader
from ..observe.reader import NoStore, StoreReader
from ..store import url
from ..system import clock


def open_reader(store: str | None, *, listing: bool = False) -> StoreReader:
    """Of the store that `--store` names, or of the run that this is called in."""
    try:
        return StoreReader(url.resolve(store))
    except NoStore as error:
        raise _explained(error, store, listing) from None


def existing(store: str | None, *, listing: bool = False) -> str:
    """The URL of a store that is there."""
    where = url.resolve(store)
    try:
        reader.existing(where)
    except NoStore as error:
        raise _explained(error, store, listing) from None
    return where


def _explained(error: NoStore, store: str | None, listing: bool) -> NoStore:
    """To list what is in the default store before its first use is not an error."""
    named = "--store" if store else url.ENV if os.environ.get(url.ENV) else ""
    yet = f", which {named} names: is that what you meant?" if named else " yet."
    first = f"The first run makes it: {advice.command('run', 'hello', '--', 'echo', 'hello')}"
    error.args = (f"{error}{yet} {first}; all commands: nightlatch --help",)
    if listing and not named:
        error.exit_code = 0
    return error


def since_of(text: str | None) -> float | None:
    return None if text is None else clock.wall() - duration.parse(text, what="--since")
