"""What `nightlatch doctor` finds out about a store in a git remote."""

from __future__ import annotations

import os
import time

from ...errors import StoreUnreachable
from ...system import clock, identity
from . import names
from .objects import Pack
from .repository import Move, Moved, Refused, check_version
from .store import connect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Finding = tuple[str, str, str, str]

_TIMEOUT = 30.0
_MANY_REFS = 5_000


def findings(where: str) -> Iterator[Finding]:
    """Pushes to a ref of its own, `@doctor`, and takes nobody's lease."""
    yield "ok", "git", f"{check_version()}", ""
    repository = connect(where).repository
    started = time.perf_counter()
    stands = repository.look(timeout=_TIMEOUT)
    took = time.perf_counter() - started
    yield "ok", "remote", f"{repository.shown} answers in {took * 1000:.0f} ms", ""
    if len(stands) > _MANY_REFS:
        yield (
            "warn",
            "refs",
            f"{len(stands)} refs: every look transfers their names",
            "keep the leases in a small repository of their own: --store git+URL",
        )
    yield _compares(where, stands.get(names.ROOT + "@doctor", ""))
    path = repository.remote.url.removeprefix("file://")
    if os.path.isdir(path):
        yield _flushes(
            repository.git("--git-dir", path, "config", "--default", "", "core.fsync").decode().strip(), path
        )


def _compares(where: str, stands: str) -> Finding:
    """Does the server compare before it swaps? Asked by a push that must fail after one that must not."""
    repository, ref = connect(where).repository, names.ROOT + "@doctor"
    pack = Pack()
    first, second = (pack.commit(f"doctor\n\n{identity.new_id()}", at=clock.wall()).oid for _ in range(2))
    repository.write(pack)
    try:
        repository.swap([Move(ref=ref, old=stands, new=first)], timeout=_TIMEOUT)
    except Refused as refused:
        return "fail", "writing", f"{repository.shown} refuses pushes to {ref}: {refused}", "allow refs/nightlatch/*"
    except Moved:
        return "ok", "comparing", "another doctor writes at this very moment, and came first", ""
    try:
        # Both refs or none, the second from a place where it does not stand.
        repository.swap(
            [Move(ref=f"{ref}-{second[:8]}", old="", new=second), Move(ref=ref, old=second, new=second)],
            timeout=_TIMEOUT,
        )
    except Moved:
        return "ok", "comparing", "compare-and-swap holds, alone and for several refs at once", ""
    except StoreUnreachable as error:
        return "fail", "comparing", str(error), "use another server, or --store postgresql://…"
    return "fail", "comparing", "a push that must fail went through", "this server cannot keep leases: use another"


def _flushes(setting: str, path: str) -> Finding:
    if "all" in setting or "objects" in setting:
        return "ok", "durability", f"core.fsync = {setting}: a push is on the disk before it is acknowledged", ""
    return (
        "warn",
        "durability",
        "git does not flush single objects to the disk by default: a power failure there can take the last done keys",
        f"git --git-dir {path} config core.fsync all",
    )
