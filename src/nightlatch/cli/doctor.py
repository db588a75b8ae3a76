"""nightlatch doctor"""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
import time

from ..core.passwords import hide_password
from ..core.printable import printable
from ..database import dsn, schema
from ..errors import Error
from ..store import url
from ..system import clock, identity, lifetime, storage, tree
from .arguments import Parser
from .told import store_of_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Finding = tuple[str, str, str, str]  # (ok | warn | fail, what was looked at, what was found, what to do)

_PURPOSE = """\
Check this machine and the store: durability, file system, clock, schema, permissions, processes.

Each finding is one line; what is not well says what to do. exit code: 0, or 69 if something fails."""


def main(argv: list[str]) -> int:
    parser = Parser("doctor", _PURPOSE, "  nightlatch doctor\n  nightlatch doctor --json")
    parser.add_argument("--json", action="store_true", help="one JSON object a finding")
    args = parser.parse_args(argv)
    failed = False
    for grade, about, found, advice in findings(url.resolve(args.store or store_of_run())):
        failed = failed or grade == "fail"
        if args.json:
            import json

            print(json.dumps({"version": 1, "grade": grade, "about": about, "found": found, "advice": advice}))
        else:
            print(f"{grade:<5} {about:<12} {printable(found)}" + (f"\n      → {printable(advice)}" if advice else ""))
    return 69 if failed else 0


def findings(where: str) -> Iterator[Finding]:
    yield from _machine()
    if where.startswith("sqlite:") and not os.path.exists(url.folder_of(where).removesuffix(".d")):
        yield "ok", "store", "there was none: it is made now", ""
    try:
        store = url.connect(where)
        started = time.perf_counter()
        identity_of_store = store.id
        took = time.perf_counter() - started
    except Error as error:
        yield "fail", "store", hide_password(where), str(error)
        return
    yield "ok", "store", f"{store.url} (id {identity_of_store[:8]}, opened in {took * 1000:.0f} ms)", ""
    if where.startswith("sqlite:"):
        yield from _sqlite(where.removeprefix("sqlite:///"))
    elif where.startswith("git+"):
        from ..store.git import checkup

        yield from checkup.findings(where)
    elif where.startswith(dsn.SCHEMES):
        from . import doctor_postgres

        yield from doctor_postgres.findings(where)
    yield from _folder(store.folder)


def _machine() -> Iterator[Finding]:
    yield "ok", "python", f"{sys.version.split()[0]}, SQLite {sqlite3.sqlite_version}", ""
    yield "ok", "clock", f"{clock.now():.0f} s since boot, sleep included", ""
    if clock.wall() < 1_700_000_000:
        yield "fail", "wall clock", time.ctime(), "set the clock: tokens are at least its milliseconds"
    if sys.platform == "linux":
        same = identity.boot() and identity.machine() != identity.boot()
        yield (
            ("ok", "identity", f"machine {identity.machine()[:8]}, boot {identity.boot()[:8]}", "")
            if same
            else (
                "warn",
                "identity",
                "no /etc/machine-id",
                "run systemd-machine-id-setup, so that reboots are recognised",
            )
        )
        try:
            tree.become_subreaper()
            yield "ok", "processes", "subreaper works: runaway children are found by the kernel", ""
        except OSError as error:
            yield (
                "warn",
                "processes",
                f"no subreaper: {error}",
                "runaway children are found by their environment only",
            )
    else:
        yield (
            "warn",
            "processes",
            f"no subreaper on {sys.platform}",
            "runaway children are found by their environment only",
        )


def _sqlite(path: str) -> Iterator[Finding]:
    folder = os.path.dirname(path)
    yield (
        "ok",
        "file system",
        f"{storage.file_system(folder) or 'local'}: locks and write-ahead log work here",
        "",
    )
    for place, allowed in ((folder, 0o700), (path, 0o600)):
        mode = stat.S_IMODE(os.stat(place).st_mode)
        others = mode & ~allowed & 0o077
        if others:
            yield (
                "warn",
                "permissions",
                f"{place} is {mode:04o}",
                f"others can look in: chmod {allowed:04o} {place}",
            )
        else:
            yield "ok", "permissions", f"{place} is {mode:04o}", ""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        (broken,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        meta = dict(connection.execute(schema.READ).fetchall())
    finally:
        connection.close()
    yield (
        ("ok", "durability", "write-ahead log, every commit flushed to the disk", "")
        if mode == "wal"
        else (
            "warn",
            "durability",
            f"journal mode {mode}",
            f"another program changed it: sqlite3 {path} 'PRAGMA journal_mode=WAL'",
        )
    )
    if broken != "ok":
        yield (
            "fail",
            "integrity",
            broken,
            "restore a backup, then nightlatch lease raise NAME --above N for each lease",
        )
    yield "ok", "schema", f"{meta['store.schema']} (this program knows {schema.newest('store')})", ""
    space = os.statvfs(folder)
    free = space.f_bavail * space.f_frsize
    yield (
        ("ok", "space", f"{free / 1e9:.1f} GB free", "")
        if free > 100_000_000
        else ("warn", "space", f"{free / 1e6:.0f} MB free", f"make room on the disk of {folder}")
    )


def _folder(folder: str) -> Iterator[Finding]:
    live = os.path.join(folder, "live")
    names = os.listdir(live) if os.path.isdir(live) else []
    over = sum(lifetime.is_over(os.path.join(live, name)) for name in names)
    yield "ok", "holders", f"{len(names) - over} alive on this machine, {over} gone without a release", ""
