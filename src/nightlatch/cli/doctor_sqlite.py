"""What `nightlatch doctor` looks at in an SQLite store."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator

from ..database import schema
from ..ledger.location import files
from ..system import storage
from .doctor import Finding, fail, ok, warn


def findings(where: str) -> Iterator[Finding]:
    path, _ = files(where)
    folder = os.path.dirname(path)
    yield ok("file system", f"{storage.file_system(folder) or 'local'}: locks and write-ahead log work here")
    for place, allowed in ((folder, 0o700), (path, 0o600)):
        mode = stat.S_IMODE(os.stat(place).st_mode)
        found = f"{place} is {mode:04o}"
        if mode & ~allowed & 0o077:
            yield warn("permissions", found, f"others can look in: chmod {allowed:04o} {place}")
        else:
            yield ok("permissions", found)
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        (journal_mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        (check,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        meta = dict(connection.execute(schema.READ).fetchall())
    finally:
        connection.close()
    if journal_mode == "wal":
        yield ok("durability", "write-ahead log, every commit flushed to the disk")
    else:
        cure = f"another program changed it: sqlite3 {path} 'PRAGMA journal_mode=WAL'"
        yield warn("durability", f"journal mode {journal_mode}", cure)
    if check != "ok":
        yield fail("integrity", check, "restore a backup, then nightlatch lease raise NAME --above N for each lease")
    yield ok("schema", f"{meta['store.schema']} (this program knows {schema.newest('store')})")
    space = os.statvfs(folder)
    free = space.f_bavail * space.f_frsize
    if free > 100_000_000:
        yield ok("space", f"{free / 1e9:.1f} GB free")
    else:
        yield warn("space", f"{free / 1e6:.0f} MB free", f"make room on the disk of {folder}")
