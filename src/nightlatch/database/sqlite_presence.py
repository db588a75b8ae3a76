"""A store that was here and is gone is not a new one, which would hand out held leases and forget what is done."""

from __future__ import annotations

import os

from ..errors import StoreUnreachable
from ..system import presence


def expect(path: str) -> None:
    """Before the file is made. The queue's file is made after the store's own, and stays when that is gone."""
    if os.path.exists(path):
        return
    # Looked at again afterwards: another process may be making the store at this moment.
    if (os.path.exists(f"{path}.queue") or presence.recall(path)) and not os.path.exists(path):
        raise _gone(path, "is gone: it was here before. Mount its disk, or restore its file from a backup")


def confirm(path: str, its_id: str) -> None:
    """After it was opened: is it the one that was here before?"""
    known = presence.recall(path)
    if known and known != its_id:
        raise _gone(path, f"is another one than before (id {its_id[:8]}, not {known[:8]}). Mount the other one's disk")
    presence.remember(path, its_id)


def begin_anew(path: str) -> None:
    """On a person's word: what is here now, or made next, is the store."""
    if not os.path.exists(path):
        for ending in (".queue", "-wal", "-shm"):
            try:
                os.unlink(path + ending)
            except FileNotFoundError:
                pass
    presence.forget(path)


def _gone(path: str, said: str) -> StoreUnreachable:
    return StoreUnreachable(
        f"the store {path} {said}. Or go on without what it knew of leases, done keys and gates: "
        f"nightlatch migrate --new --store sqlite:///{path}"
    )
