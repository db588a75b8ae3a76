"""nightlatch migrate"""

from __future__ import annotations

from ..errors import UsageError
from ..store import url
from ..store.sql import SqlStore
from .arguments import Parser

_PURPOSE = """\
Bring the store's tables up to date. Any command does so at its first use; this is for a database where the
user that Nightlatch runs as may not create tables, and for a store that is to begin anew.

Migrations only add, so programs of the version before go on working."""

_EXAMPLES = """\
  nightlatch migrate --store postgresql://owner@db/jobs
  nightlatch migrate --dump-sql --store postgresql://db/jobs | psql -h db -U owner jobs"""


def begin_anew(store: SqlStore) -> None:
    if url.ledger_of(store.url) != url.BESIDE:
        raise UsageError("--new is for a store in a file; a schema on PostgreSQL is dropped there")
    from ..database import sqlite_presence

    sqlite_presence.begin_anew(store.folder.removesuffix(".d"))


def main(argv: list[str]) -> int:
    parser = Parser("migrate", _PURPOSE, _EXAMPLES)
    parser.add_argument("--dump-sql", action="store_true", help="print what would be run, and change nothing")
    parser.add_argument("--new", action="store_true", help="SQLite: begin a new store although the one before is gone")
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
    made = f"made the tables of {store.url}" if pending else f"{store.url} is up to date"
    print(f"{made} (store id {store.id[:8]})")
    return 0
