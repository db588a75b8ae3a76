"""The seam to a vendor: what an adapter gets, what it returns, and its five verbs.

    prepare(ask) → handle             optional; starts no work, and may be repeated
    launch(ask, handle) → handle      one request, never repeated; this is what starts work
    find(ask, handle) → handle        after a lost reply: the launch's handle, None if there is none, or UNKNOWN
    poll(handle) → Seen
    cancel(handle)                    polling shows whether it took effect

`launch` raises `NotLaunched` if it is certain that nothing was started; any other error leaves the launch in doubt.
`find` must return UNKNOWN, or raise, where it is not certain: an empty reply from an API that lags, or a 404, is not
"no".
"""

from __future__ import annotations

from ..core.value import replace, value
from ..errors import NotDone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, ClassVar, Protocol

    class Adapter(Protocol):
        lag: ClassVar[float]  # seconds until a launch is sure to show in the vendor's replies
        vendor: ClassVar[str]  # its name in price lists; "" if the vendor always reports usd
        budgets: ClassVar[tuple[str, ...]]  # units in which the vendor itself can enforce a cap

        def launch(self, ask: Ask, handle: str) -> str: ...

        def poll(self, handle: str) -> Seen: ...

        def cancel(self, handle: str) -> None: ...


RUNNING, WAITING = "running", "waiting"
SUCCEEDED, FAILED, CANCELLED, OVER_BUDGET = "succeeded", "failed", "cancelled", "over-budget"
ENDED = (SUCCEEDED, FAILED, CANCELLED, OVER_BUDGET)
STATUSES = (RUNNING, WAITING, *ENDED)


class _Unknown:
    def __repr__(self) -> str:
        return "UNKNOWN"


_HIGHEST = 1e15  # a higher figure is a vendor's error
UNKNOWN = _Unknown()  # `find` is not certain


class NotLaunched(NotDone):
    """The launch was refused, or never sent. `later`: seconds after which it may succeed; None: it never will."""

    def __init__(self, message: str, later: float | None = None) -> None:
        super().__init__(message)
        self.later = later


class Unclear(Exception):
    """A vendor's reply is missing or proves nothing. `later`: seconds that the vendor asked us to wait."""

    is_permanent = False  # True: the same request would fail again

    def __init__(self, message: str, later: float = 0.0) -> None:
        super().__init__(message)
        self.later = later

    def as_not_launched(self) -> NotLaunched:
        """For a request that cannot have started work."""
        return NotLaunched(str(self), None if self.is_permanent else self.later)


@value(frozen=True, kw_only=True)
class Ask:
    """What to launch. `fields` go into the vendor's request, under its own names."""

    agent: str
    input: str
    fields: Mapping[str, Any]
    labels: Mapping[str, str]  # identify the run and the launch, for vendors that store labels
    usd: float | None = None  # what may be spent; None: no cap
    tokens: int | None = None
    since: str = ""  # the launch is not older than this; as in 2026-11-17T02:00:00Z


@value(frozen=True, kw_only=True)
class Seen:
    """An agent as its vendor shows it now. Figures are totals since the launch."""

    status: str  # one of STATUSES
    steps: int = 0  # grows while it works
    usd: float | None = None  # None: not reported by the vendor; computed from `counts`
    counts: Mapping[str, int] = {}  # tokens of each kind (core/metering/price.py)
    model: str = ""
    answer: str = ""
    waits_for: str = ""  # the decision that it needs from a person
    reason: str = ""  # why it failed; or the vendor's name of a status that is not known here
    page: str = ""  # where people can look at it


def can(adapter: Adapter, verb: str) -> Any:
    """An optional verb of an adapter: prepare, find, fetch, every; None if the adapter lacks it."""
    return getattr(adapter, verb, None)


def poll(adapter: Adapter, handle: str) -> Seen:
    """As `adapter.poll`, but a reply that cannot be read must not end the watch: whatever the adapter raises becomes
    `Unclear`, and impossible figures become 0."""
    try:
        state = adapter.poll(handle)
        if state.status not in STATUSES:
            raise Unclear(f"the adapter returned an unknown status: {state.status!r}")
        usd = None if state.usd is None else float(state.usd)
        return replace(
            state,
            steps=_plausible(state.steps),
            usd=usd if usd is None or 0.0 <= usd <= _HIGHEST else 0.0,
            counts={kind: _plausible(count) for kind, count in state.counts.items()},
        )
    except Unclear:
        raise
    except Exception as error:
        raise Unclear(f"its answer is not understood: {type(error).__name__} {error}") from error


def _plausible(figure: int) -> int:
    return int(figure) if 0 <= figure <= _HIGHEST else 0
