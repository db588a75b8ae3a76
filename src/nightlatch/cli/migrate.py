"""nightlatch migrate"""

from __future__ import annotations

from ..database import sqlite_presence
from ..errors import UsageError
from ..ledger import location
from ..store import url
from ..store.sql import SqlStore
from .arguments import Parser

_PURPOSE = """\
Bring the store's tables up to date. Every command does that when needed; use this one if Nightlatch's database user
may not create tables, or to replace a store that is gone with a new one (--new).

Migrations only add, so programs of the previous version keep working."""

_EXAMPLES = """\
  nightlatch migrate --store postgresql://owner@db/jobs
  nightlatch migrate --dump-sql --store postgresql://db/jobs | psql -h db -U owner jobs"""


def begin_anew(store: SqlStore) -> None:
    if url.ledger_of(store.url) != url.BESIDE:
        raise UsageError("--new is for a store in a file; on PostgreSQL, drop the schema instead")
    for file in location.files(store.url):
        sqlite_presence.begin_anew(file)


def main(argv: list[str]) -> int:
    parser = Parser("migrate", _PURPOSE, _EXAMPLES)
    parser.add_flag("--dump-sql", "print the SQL and change nothing")
    parser.add_flag("--new", "SQLite: create a new store in place of one that is gone")
    args = parser.parse_args(argv)
    store = url.connect(args.store)
    if not isinstance(store, SqlStore):
        raise UsageError(f"{store.url} has no tables: there is nothing to migrate")
    if args.new:
        begin_anew(store)
    pending = store.pending()
    if args.dump_sql:
        print("".join(f"{statement};\n" for statement in pending), end="")
        return 0
    outcome = f"made the tables of {store.url}" if pending else f"{store.url} is up to date"
    print(f"{outcome} (store id {store.id[:8]})")
    return 0
