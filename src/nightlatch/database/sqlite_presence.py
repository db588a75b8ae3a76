"""A file of a store or a ledger that existed and is gone must not be made again: a new store would hand out leases that
are held, and repeat work that is done."""

from __future__ import annotations

import os

from ..errors import StoreUnreachable
from ..system import presence


def expect(path: str, known: str = "") -> None:
    """Raise if the store's file was at the path and is gone. Called before the file is made. The queue's file, which
    is made after the store's and stays, shows that. `known`: the id of the store that this process had open there."""
    if os.path.exists(path):
        return
    # The store is checked again at the end: another process may be making it at this moment.
    if (known or os.path.exists(f"{path}.queue") or presence.recall(path)) and not os.path.exists(path):
        raise _wrong_store(path, "is gone: it was here before. Mount its disk, or restore its file from a backup")


def expect_ledger(path: str) -> None:
    """The same for the file of a ledger: an empty one would have forgotten what is in doubt, and repeat it silently."""
    if os.path.exists(path) or not os.path.exists(f"{path}.queue") or os.path.exists(path):
        return
    raise StoreUnreachable(
        f"the ledger {path} is gone: it was here before, and has the runs and effects that are in doubt. Restore the "
        f"file; or, to go on without it, remove {path}.queue too"
    )


def confirm(path: str, its_id: str, known: str = "") -> None:
    """Raise if the store at the path is not the one that was there before. Called after it was opened."""
    known = known or presence.recall(path)
    if known and known != its_id:
        raise _wrong_store(
            path, f"is not the same as before (id {its_id[:8]}, not {known[:8]}). Mount the other one's disk"
        )
    presence.remember(path, its_id)


def begin_anew(path: str) -> None:
    """Forget the old store, as a person decided: what is at the path now, or is made next, is the store."""
    if not os.path.exists(path):
        for ending in (".queue", "-wal", "-shm"):
            try:
                os.unlink(path + ending)
            except FileNotFoundError:
                pass
    presence.forget(path)


def _wrong_store(path: str, problem: str) -> StoreUnreachable:
    return StoreUnreachable(
        f"the store {path} {problem}. Or start a new one, without its leases, done keys and gates: "
        f"nightlatch migrate --new --store sqlite:///{path}"
    )
