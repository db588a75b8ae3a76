"""The keeper: renews a grant from a thread of its own, and knows at any moment how far it can be trusted."""

from __future__ import annotations

import threading

from ..core.tenure import Tenure
from ..errors import LeaseLost, StoreUnreachable
from ..system import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..core.protocols import Store


class Keeper:
    """Keeps one grant from its acquire to its release or loss.

    `start` is the clock as it was before the acquire was sent. A renewal that fails is *unknown* and
    tried again; one that finds another grant is *lost*, and lost is final. `on_tenure` and `on_lost`
    are called from the keeper's thread.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        grant: str,
        tenure: Tenure,
        *,
        on_tenure: Callable[[Tenure], None] = lambda _: None,
        on_lost: Callable[[LeaseLost], None] = lambda _: None,
        now: Callable[[], float] = clock.now,
    ) -> None:
        self._store, self._name, self._grant, self._tenure = store, name, grant, tenure
        self._on_tenure, self._on_lost, self._now = on_tenure, on_lost, now
        self._changed = threading.Condition()
        self._lost: LeaseLost | None = None
        self._stopping = False
        self._thread = threading.Thread(target=self._keep, name=f"nightlatch-keeper {name}", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> LeaseLost | None:
        """Why the lease is lost; None while it is held, or may be."""
        self._notice_expiry()
        return self._lost

    def check(self) -> None:
        """Return while the lease is surely held; raise LeaseLost when it is not.

        When the last confirmation is old, wait for the next: this is the moment in which a supervised
        tree stands frozen.
        """
        while True:
            self._notice_expiry()
            with self._changed:
                if self._lost:
                    raise self._lost
                if self._now() < self._tenure.freeze_at:
                    return
                self._changed.wait(min(clock.SLICE, self._tenure.retry_every))

    def stop(self) -> None:
        """End the thread; no renewal is under way when this returns."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _keep(self) -> None:
        next_at = self._tenure.renew_at
        while self._sleep_until(next_at):
            started = self._now()
            try:
                self._store.renew(self._name, self._grant, self._tenure.ttl)
            except LeaseLost as lost:
                self._lose(lost)
            except StoreUnreachable:
                self._notice_expiry()
                next_at = self._now() + self._tenure.retry_every
            else:
                self._confirm(Tenure(start=started, ttl=self._tenure.ttl))
                next_at = self._tenure.renew_at

    def _sleep_until(self, when: float) -> bool:
        """False when there is nothing left to keep. In slices: a wait does not count time in suspend."""
        with self._changed:
            while not self._stopping and not self._lost:
                left = min(when, self._tenure.end_at) - self._now()
                if left <= 0:
                    return True
                self._changed.wait(min(left, clock.SLICE))
            return False

    def _confirm(self, tenure: Tenure) -> None:
        with self._changed:
            if self._lost or (self._now() >= self._tenure.end_at and self._now() >= tenure.end_at):
                return
            self._tenure = tenure
            self._changed.notify_all()
        self._on_tenure(tenure)

    def _notice_expiry(self) -> None:
        if self._now() >= self._tenure.end_at:
            self._lose(
                LeaseLost(
                    f"the lease {self._name} could not be renewed in time; another may hold it by now. "
                    f"Stop what you do under it",
                    reason="expired",
                )
            )

    def _lose(self, lost: LeaseLost) -> None:
        with self._changed:
            if self._lost:
                return
            self._lost = lost
            self._changed.notify_all()
        self._on_lost(lost)
