"""Shared by the commands that show something: which store, and since when."""

from __future__ import annotations

import datetime
import os

from ..config import place
from ..core import advice, duration
from ..errors import UsageError
from ..observe import reader
from ..observe.reader import NoStore, StoreReader
from ..store import url
from ..system import clock


def open_reader(store: str | None, *, listing: bool = False) -> StoreReader:
    """A reader of the store that `--store` names, else of the one that applies here. `listing`: see `_with_advice`."""
    try:
        return StoreReader(url.resolve(store))
    except NoStore as error:
        raise _with_advice(error, store, listing) from None


def existing_url(store: str | None, *, listing: bool = False) -> str:
    """The store's URL. Raises `NoStore`, with advice, if the store does not exist."""
    where = url.resolve(store)
    try:
        reader.existing(where)
    except NoStore as error:
        raise _with_advice(error, store, listing) from None
    return where


def _with_advice(error: NoStore, store: str | None, listing: bool) -> NoStore:
    """The error with advice. A command that only lists (`listing`) exits with 0 if the default store was never used."""
    named = "--store" if store else url.ENV if os.environ.get(url.ENV) else ""
    which = f", which {named} names: is that what you meant?" if named else " yet."
    words = ("serve",) if place.find() else ("run", "hello", "--", "echo", "hello")
    first = f"The first run creates it: {advice.command(*words)}"
    other = "" if named else "; if your runs are in another store, name it: --store URL"
    error.args = (f"{error}{which} {first}{other}; all commands: nightlatch --help",)
    if listing and not named:
        error.exit_code = 0
    return error


def since_of(text: str | None) -> float | None:
    """The moment that `--since` names: 24h for that long ago, or a day or time as in 2026-11-01T02:00."""
    if text is None:
        return None
    try:
        return datetime.datetime.fromisoformat(text).timestamp() if "-" in text else _ago(text)
    except ValueError:
        return _ago(text)


def _ago(text: str) -> float:
    try:
        return clock.wall() - duration.parse(text, what="--since")
    except UsageError as error:
        raise UsageError(f"{error}; or write a day, as in 2026-11-01") from None
