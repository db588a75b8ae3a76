"""nightlatch doctor"""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections.abc import Iterator
from datetime import date
from importlib import import_module

from ..core.passwords import hide_password
from ..core.printable import printable
from ..errors import Error, UsageError
from ..gateway import age
from ..ledger import location
from ..store import url
from ..system import cgroup, clock, identity, lifetime, tree
from .arguments import Parser
from .json_out import print_json

Finding = tuple[str, str, str, str]  # (ok | warn | fail, what was looked at, what was found, what to do)

_PURPOSE = """\
Check this machine and the store: durability, file system, clock, schema, permissions, processes.

Each finding is one line; if something is wrong, it says what to do.

--prove tests the promises with real processes, in about twenty seconds. It freezes a lease holder just before it
writes to this store and to each TARGET; another takes over and writes; the first one thaws and writes too, and must
be refused. Then it kills a holder with kill -9; its processes must be gone before the next one gets the lease. It
reports what was refused, how long each takeover took, and how this machine can prove that processes are gone. It
works on temporary things next to yours (a file or folder .nightlatch-prove-…, a table, a branch, an object) and
removes them, even if it is interrupted. TARGET: a file, a folder/, sqlite:///FILE#NAME, postgresql://…#NAME,
git+URL#BRANCH, s3://bucket/key."""

_EXAMPLES = """\
  nightlatch doctor
  nightlatch doctor --json
  nightlatch doctor --prove /srv/www/report.html /srv/www/site/ git+origin#main
  nightlatch --store postgresql://app@db/jobs doctor --prove postgresql://app@db/site#articles"""


def ok(about: str, found: str, advice: str = "") -> Finding:
    return "ok", about, found, advice


def warn(about: str, found: str, advice: str) -> Finding:
    return "warn", about, found, advice


def fail(about: str, found: str, advice: str) -> Finding:
    return "fail", about, found, advice


def main(argv: list[str]) -> int:
    parser = Parser("doctor", _PURPOSE, _EXAMPLES)
    parser.add_argument("targets", metavar="TARGET", nargs="*", help="--prove: a path, or the URL of a gate")
    parser.add_flag("--prove", "test the promises on this store and these targets")
    parser.add_flag("--json", "one JSON object per finding; with --prove one for all")
    args = parser.parse_args(argv)
    if args.targets and not args.prove:
        raise UsageError("targets are for --prove: nightlatch doctor --prove TARGET …")
    where = url.resolve(args.store)
    if args.prove:
        return _prove(where, args.targets, args.json)
    failed = False
    for grade, about, found, advice in findings(where):
        failed = failed or grade == "fail"
        if args.json:
            print_json({"version": 1, "grade": grade, "about": about, "found": found, "advice": advice})
        else:
            print(f"{grade:<5} {about:<12} {printable(found)}" + (f"\n      → {printable(advice)}" if advice else ""))
    return 69 if failed else 0


def _prove(where: str, targets: list[str], as_json: bool) -> int:
    from .prove import prove

    proof = prove(where, targets)
    if as_json:
        print_json(proof.facts())
        return 0 if proof.held else 1
    for promise in proof.promises:
        print(printable(f"{'held' if promise.held else 'BROKEN':<7} {promise.about:<20} {promise.found}"))
    for name, has, found in proof.kinds_of_proof:
        print(f"{'has' if has else 'has not':<7} {name:<20} {found}")
    for after, seconds in proof.seconds.items():
        print(f"took    {'takeover':<20} {seconds:.2f} s after a holder was {after}")
    for left in proof.left:
        print(printable(f"left    {left}"))
    print("Every promise held." if proof.held else "A promise did NOT hold here: do not rely on this store or target.")
    return 0 if proof.held else 1


def findings(where: str) -> Iterator[Finding]:
    yield from _machine()
    is_new = url.ledger_of(where) == url.BESIDE and not os.path.exists(location.files(where)[0])
    try:
        store = url.connect(where)
        started = time.perf_counter()
        store_id = store.id
        took = time.perf_counter() - started
    except Error as error:
        yield fail("store", hide_password(where), str(error))
        return
    if is_new:
        yield ok("store", "there was none: it was created now")
    yield ok("store", f"{store.url} (id {store_id[:8]}, opened in {took * 1000:.0f} ms)")
    scheme = url.scheme_of(where)
    if scheme and scheme.checkup:
        yield from import_module(f"nightlatch.{scheme.checkup}").findings(where)
    yield from _folder(store.folder)


def _machine() -> Iterator[Finding]:
    yield ok("python", f"{sys.version.split()[0]}, SQLite {sqlite3.sqlite_version}")
    yield ok("clock", f"{clock.now():.0f} s since boot, sleep included")
    if clock.wall() < 1_700_000_000:
        yield fail("wall clock", time.ctime(), "set the clock: new tokens are derived from it")
    if sys.platform == "linux":
        if identity.boot() and identity.machine() != identity.boot():
            yield ok("identity", f"machine {identity.machine()[:8]}, boot {identity.boot()[:8]}")
        else:
            cure = "run systemd-machine-id-setup, so that reboots are recognised"
            yield warn("identity", "no /etc/machine-id", cure)
    yield _subreaper()
    yield _proofs()
    yield _prices()


def _subreaper() -> Finding:
    consequence = "runaway children are found by their environment only"
    if sys.platform != "linux":
        return warn("processes", f"no subreaper on {sys.platform}", consequence)
    try:
        tree.become_subreaper()
    except OSError as error:
        return warn("processes", f"no subreaper: {error}", consequence)
    return ok("processes", "subreaper works: runaway children are found by the kernel")


def _prices() -> Finding:
    """Are the prices, which budgets in usd are counted with, recent?"""
    version, day = age.newest(date.today())
    if day is None:
        return warn("prices", "genai-prices is not installed", "pip install genai-prices: budgets in usd need it")
    days = (date.today() - day).days
    text = f"genai-prices {version}, whose newest price is from {day} ({days} days ago)"
    return ok("prices", text) if days <= age.OLD else warn("prices", text, "pip install -U genai-prices")


def _proofs() -> Finding:
    """How to prove here that a killed holder left no process. A lease moves before its TTL only if all proofs agree."""
    have = "the environments of processes, a lock that they inherit"
    if cgroup.possible():
        return ok("proofs", f"{have}, a cgroup for each run")
    cure = (
        "a process that clears its environment and closes the lock is missed; one that hides its memory delays a "
        "takeover to the TTL. With cgroups both are found: systemd-run --user --scope -p Delegate=yes nightlatch …"
    )
    return ok("proofs", f"{have}; no cgroup can be made here", cure)


def _folder(folder: str) -> Iterator[Finding]:
    if os.path.exists(folder) and not os.access(folder, os.W_OK | os.X_OK):
        yield fail("folder", f"{folder} cannot be written", "make it writable, or name another store with --store")
    else:
        yield ok("folder", f"{folder}: runs.log, and the output of runs")
    live = os.path.join(folder, "live")
    names = [name for name in os.listdir(live) if not name.endswith(lifetime.TREE)] if os.path.isdir(live) else []
    gone = sum(lifetime.is_over(os.path.join(live, name)) for name in names)
    yield ok("holders", f"{len(names) - gone} alive on this machine, {gone} gone without a release")
