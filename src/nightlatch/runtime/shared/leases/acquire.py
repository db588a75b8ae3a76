"""Acquiring a lease: request it, judge its holder, take it over; or queue for it."""

from __future__ import annotations

import os

from ....core.model import Begun, Granted, Holder, Record, Takeover
from ....core.tenure import Tenure
from ....core.value import replace
from ....errors import Busy, Nested, StoreUnreachable, UsageError
from ....system import clock, durable, filelock, tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ....core.protocols import ReleaseWaiter, Store

_NAMED = 10  # processes, at most, that the new record names as not proven gone
_RETRY = 0.5  # seconds between two tries while the store does not answer


def acquire(
    store: Store, name: str, grant: str, holder: Holder, ttl: float, wait: float, begin: Begun | None = None,
    on_wait: Callable[[Record | None], None] = lambda _: None, *, lazy: bool = False,
) -> tuple[Granted, Tenure]:  # fmt: skip
    """Take the lease within `wait` seconds or raise Busy. The tenure counts from before the request.

    `begin`: the key to work on, if the store lists begun keys. `on_wait`: called once with the holder's record, if we
    have to wait. `lazy`: only for a store that `may_be_lazy`.
    """
    if tree.DRY_RUN in os.environ:
        raise UsageError(
            f"the lease {name} was not acquired: this is a dry-run ({tree.DRY_RUN} is set), which takes no lease. Put "
            f"work that needs one into an effect of the job"
        )
    more: dict[str, Any] = ({"begin": begin} if begin else {}) | ({"lazy": True} if lazy else {})
    started = clock.now()
    if wait <= 0:
        return _try_once(store, name, grant, holder, ttl, more)
    if lineage():
        _check_lineage(_read(store, name))  # before we queue: others may be ahead of us
    waiter: ReleaseWaiter | None = None
    queue = _WaiterQueue(store.folder, name, wait)
    if not queue.is_next:
        on_wait(_read(store, name))
    with queue:
        try:
            while True:
                try:
                    return _try_once(store, name, grant, holder, ttl, more)
                except Nested:
                    raise
                except Busy as busy:
                    left = wait - (clock.now() - started)
                    if left <= 0:
                        raise
                    if waiter is None:
                        if queue.is_next:
                            on_wait(busy.record)
                        waiter = store.listen(name)  # then try at once: a release before this line was not heard
                    else:
                        waiter.wait(min(left, _until_expiry(busy.record)))
                except StoreUnreachable:
                    # Keep our place in the queue while a server restarts.
                    left = wait - (clock.now() - started)
                    if left <= 0:
                        raise
                    clock.sleep(min(left, _RETRY))
        finally:
            if waiter:
                waiter.close()


def _try_once(
    store: Store, name: str, grant: str, holder: Holder, ttl: float, more: dict[str, Any]
) -> tuple[Granted, Tenure]:
    try:
        return _request(store, name, grant, holder, ttl, None, more)
    except Busy as busy:
        if busy.record is None or not busy.record.grant:
            raise  # it was released meanwhile
        record = busy.record
    takeover, unproven = _judge_holder(store, record)
    if unproven:
        holder = replace(holder, unproven=", ".join(unproven[:_NAMED]))
    return _request(store, name, grant, holder, ttl, takeover, more)


def _request(
    store: Store, name: str, grant: str, holder: Holder, ttl: float, takeover: Takeover | None, more: dict[str, Any]
) -> tuple[Granted, Tenure]:
    start = clock.now()
    try:
        return store.acquire(name, grant, holder, ttl, takeover, **more), Tenure(start=start, ttl=ttl)
    except StoreUnreachable:
        # Perhaps only the reply was lost. Then the lease is ours, and nobody could take it for a TTL if we left now.
        # The store grants it to the same grant again.
        start = clock.now()
        return store.acquire(name, grant, holder, ttl, takeover, **more), Tenure(start=start, ttl=ttl)


def _until_expiry(record: Record | None) -> float:
    """Seconds until the holder's TTL has passed, which nothing announces; a short while if unknown."""
    return record.left if record and record.left is not None and record.left > 0 else clock.SLICE


def _judge_holder(store: Store, record: Record) -> tuple[Takeover, list[str]]:
    """Why the lease may be taken from its holder, and which of the holder's processes cannot be proven gone. Raises
    Busy if it may not be taken."""
    from ....store import held, proof, sightings

    unproven: list[str] = []
    _check_lineage(record)
    expired = record.left is not None and record.left <= 0
    if expired:
        # Before the lease moves, not after: an orphan must not work beside the new holder.
        unproven = proof.end_survivors(record)
        proven = False
    elif proof.gone(record):
        proven = True
    elif record.left is None and store.may_expire_by_observation(record) and sightings.lapsed(store.folder, record):
        unproven = proof.end_survivors(record)
        proven = True
    else:
        raise Busy(held.sentence(record, record.name, store.folder), record)
    return Takeover(grant=record.grant, version=record.version, proven=proven), unproven


def _read(store: Store, name: str) -> Record | None:
    try:
        return store.read(name)
    except StoreUnreachable:
        return None  # `acquire` waits for the store later


def _check_lineage(record: Record | None) -> None:
    if record and record.grant in lineage():
        raise Nested(
            f"{record.name} is held already by this program, or by the run it was started in (token {record.token}): "
            f"waiting for it would never end. Use another name here, or rely on the lease you have",
            record,
        )


def lineage() -> list[str]:
    """The grants this process works under, the outermost first."""
    return os.environ.get(tree.LINEAGE, "").split()


def set_lineage(grants: list[str]) -> None:
    if grants:
        os.environ[tree.LINEAGE] = " ".join(grants)
    else:
        os.environ.pop(tree.LINEAGE, None)


class _WaiterQueue:
    """Waiters on one machine queue, so that they get the lease in turn and only the first polls the store.

    If the first one is stopped (SIGSTOP), the others wait without the queue.
    """

    def __init__(self, folder: str, name: str, wait: float) -> None:
        path = os.path.join(durable.private_folder(os.path.join(folder, "line")), name.replace("/", "%"))
        self._lock = filelock.FairLock(path)
        self._wait = wait

        self.is_next = self._has_lock = self._lock.acquire(0)

    def __enter__(self) -> None:
        deadline = clock.now() + self._wait
        while not self._has_lock and (left := deadline - clock.now()) > 0:
            self._has_lock = self._lock.acquire(min(left, filelock.LOOK_AFTER))
            if not self._has_lock and self._lock.stopped_holder():
                return

    def __exit__(self, *_: object) -> None:
        if self._has_lock:
            self._lock.release()
