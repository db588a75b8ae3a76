"""The keeper: a thread that renews a grant, and knows at any moment whether the lease is still held."""

from __future__ import annotations

import _thread  # not threading: this file is on the path of `lock`, which imports as little as it can

from ..core.tenure import Tenure
from ..errors import LeaseLost, StoreUnreachable
from ..system import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..core.protocols import Store


class Keeper:
    """Keeps one grant from its acquire to its release or loss.

    `tenure` starts at the time that was read before the acquire was sent. A renewal that fails is *unknown* and tried
    again; one that finds another grant is *lost*, and lost is final. `on_tenure` is called from the keeper's thread,
    `on_lost` once, from the thread that notices the loss.
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
        self._lost: LeaseLost | None = None
        self._renewal_error = ""  # why the last renewal failed
        self._state = _thread.allocate_lock()  # guards _tenure and _lost
        self._stop = _thread.allocate_lock()  # released to end the thread
        self._running = _thread.allocate_lock()  # held by the thread as long as it lives
        self._stop.acquire()
        self._running.acquire()
        self._thread = _thread.start_new_thread(self._live, ())

    @property
    def lost(self) -> LeaseLost | None:
        """Why the lease is lost; None while it is held, or may be."""
        if self._now() >= self._tenure.end_at:
            self._expire()
        return self._lost

    @property
    def is_sure(self) -> bool:
        """Was the lease confirmed recently? If not, the work is frozen until it is."""
        return not self.lost and self._now() < self._tenure.freeze_at

    @property
    def sure_until(self) -> float:
        return self._tenure.freeze_at

    def check(self) -> None:
        """Return if the lease is certainly held; raise LeaseLost if it is lost.

        When the last confirmation is old, wait for the next one; until it comes, a supervised tree is frozen.
        """
        while not self.lost:
            if self._now() < self._tenure.freeze_at:
                return
            clock.sleep(self._tenure.retry_every / 4)
        raise self._lost  # type: ignore[misc]

    def stop(self) -> None:
        """End the thread; no renewal is under way when this returns."""
        if self._stop.locked():
            self._stop.release()
        if _thread.get_ident() != self._thread:
            with self._running:
                pass

    def _live(self) -> None:
        try:
            next_at = self._tenure.renew_at
            while self._sleep_until(next_at):
                next_at = self._renew()
        finally:
            self._running.release()

    def _renew(self) -> float:
        """Renew once; returns when to do it next."""
        started = self._now()
        try:
            self._store.renew(self._name, self._grant, self._tenure.ttl)
        except LeaseLost as lost:
            self._lose(lost)
        except StoreUnreachable as error:
            self._renewal_error = str(error)
            return self._now() + self._tenure.retry_every
        else:
            self._renewal_error = ""
            self._confirm(Tenure(start=started, ttl=self._tenure.ttl))
        return self._tenure.renew_at

    def _sleep_until(self, when: float) -> bool:
        """True at `when`; False once the lease is lost or we stop. Sleeps in slices, since waits stop in suspend."""
        while not self.lost:
            left = when - self._now()
            if left <= 0:
                return True
            if self._stop.acquire(timeout=min(left, clock.SLICE)):
                self._stop.release()
                return False
        return False

    def _confirm(self, tenure: Tenure) -> None:
        with self._state:
            # If this thread woke after the end of both tenures, the lease already counts as lost.
            if self._lost or self._now() >= max(self._tenure.end_at, tenure.end_at):
                return
            self._tenure = tenure
        self._on_tenure(tenure)

    def _expire(self) -> None:
        self._lose(
            LeaseLost(
                f"the lease {self._name} could not be renewed in time"
                f"{f' ({self._renewal_error})' if self._renewal_error else ''}; another may hold it by now. "
                f"Stop what you are doing under it",
                reason="expired",
            )
        )

    def _lose(self, lost: LeaseLost) -> None:
        with self._state:
            if self._lost:
                return
            self._lost = lost
        self._on_lost(lost)
