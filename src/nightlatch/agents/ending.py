"""Cancel an agent, and poll until its vendor shows that it has ended: a cancel that was sent proves nothing."""

from __future__ import annotations

from ..system import clock
from .seam import ENDED, Unclear, poll

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .seam import Adapter, Seen

_LOOK_EVERY = 0.5  # seconds
_CANCEL_AGAIN = 3.0  # seconds after an accepted cancel that has no visible effect


def end(
    adapter: Adapter, handle: str, until: float, report: Callable[[Seen], None] = lambda _: None
) -> tuple[Seen | None, str]:
    """Returns (the ended agent as its vendor shows it, ""), or (None, why its end is not known) at `until`, by the
    suspend-proof clock. `report` gets the result of every poll."""
    cancel_at, trouble = 0.0, "it goes on"
    while True:
        if clock.now() >= cancel_at:
            try:
                adapter.cancel(handle)
                cancel_at = clock.now() + _CANCEL_AGAIN
            except Exception as error:  # noqa: BLE001 - any adapter's; if the agent ended before, polling shows it
                trouble, cancel_at = str(error), clock.now() + max(getattr(error, "later", 0.0), _LOOK_EVERY)
        try:
            found = poll(adapter, handle)
            report(found)
            if found.status in ENDED:
                return found, ""
        except Unclear as error:
            trouble = str(error)
        if clock.now() + _LOOK_EVERY > until:
            return None, trouble
        clock.sleep(_LOOK_EVERY)
