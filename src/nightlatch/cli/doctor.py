"""nightlatch doctor"""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from importlib import import_module

from ..database import dsn
from ..errors import Error
from ..ledger import place
from ..store import url
from ..system import clock, identity, lifetime, tree
from .arguments import Parser
from .told import store_of_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Finding = tuple[str, str, str, str]  # (ok | warn | fail, what was looked at, what was found, what to do)

_PURPOSE = """\
Check this machine and the store: durability, file system, clock, schema, permissions, processes.

Each finding is one line; what is not well says what to do."""


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
            print(f"{grade:<5} {about:<12} {found}" + (f"\n      → {advice}" if advice else ""))
    return 69 if failed else 0


def findings(where: str) -> Iterator[Finding]:
    yield from _machine()
    new = url.ledger_of(where) == url.BESIDE and not os.path.exists(place.files(where)[0])
    try:
        store = url.connect(where)
        started = time.perf_counter()
        identity_of_store = store.id
        took = time.perf_counter() - started
    except Error as error:
        yield "fail", "store", dsn.redact(where), str(error)
        return
    if new:
        yield "ok", "store", "there was none: it is made now", ""
    yield "ok", "store", f"{store.url} (id {identity_of_store[:8]}, opened in {took * 1000:.0f} ms)", ""
    scheme = url.scheme_of(where)
    if scheme and scheme.checkup:
        yield from import_module(f"nightlatch.{scheme.checkup}").findings(where)
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


def _folder(folder: str) -> Iterator[Finding]:
    live = os.path.join(folder, "live")
    names = os.listdir(live) if os.path.isdir(live) else []
    over = sum(lifetime.is_over(os.path.join(live, name)) for name in names)
    yield "ok", "holders", f"{len(names) - over} alive on this machine, {over} gone without a release", ""
