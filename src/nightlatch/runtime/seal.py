"""Sealing: every gate of a lease refuses the older grants before any work is begun."""

from __future__ import annotations

from ..errors import GateUnreachable, OtherStore, StaleToken, StoreUnreachable
from ..gates import open as open_gate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..core.model import Mark
    from ..core.protocols import Gate
    from .inherited import Inherited
    from .lease import Lease

_TRIES = 3


def seal_in_work(lease: Lease | Inherited, gate: Gate) -> None:
    """Register a gate and seal it while the work goes on.

    The token is not raised here, whatever stands there: the work has read things under the old one, and
    a holder that a restored store has brought back to life would overtake the one that overtook it.
    """
    lease.store.register(lease.name, lease.grant, gate.url)
    try:
        gate.seal(lease.mark, str(lease.holder))
    except OtherStore:
        raise
    except StaleToken as stale:
        if stale.stands is None:
            raise
        raise StaleToken(
            f"{stale}. If nobody has, and the store was restored from an older backup: nightlatch lease raise "
            f"{lease.name} --above {stale.stands.token}, then start again",
            offered=stale.offered,
            stands=stale.stands,
        ) from stale


def seal_all(lease: Lease | Inherited, registered: Iterable[str], declared: Iterable[Gate]) -> None:
    """Before any work: seal what is registered under the lease's name, and what is declared besides.

    A mark above our token means that the store has forgotten grants (it was restored from a backup):
    the token is raised above that mark and every gate sealed again, the first ones too.
    """
    gates = _opened(registered)
    for gate in declared:
        if gate.url not in gates:
            lease.store.register(lease.name, lease.grant, gate.url)
        gates[gate.url] = gate  # the caller's own object, which may know more than its URL: a password
    for _ in range(_TRIES):
        highest = max((_refusal(gate, lease.mark, str(lease.holder)) for gate in gates.values()), default=0)
        if not highest:
            return
        # Then all of them again: sealed under the lower token, one would let in a grant that the store has forgotten.
        lease.raise_above(highest)
    raise StoreUnreachable(f"the gates of {lease.name} could not be sealed: their marks keep rising. Try again")


def _opened(urls: Iterable[str]) -> dict[str, Gate]:
    return {url: open_gate(url) for url in urls if not _elsewhere(url)}


def _refusal(gate: Gate, mark: Mark, by: str) -> int:
    """Seal; 0, or the token of the mark that stands in the way."""
    try:
        gate.seal(mark, by)
        return 0
    except OtherStore:
        raise
    except StaleToken as stale:
        if stale.stands is None:
            raise
        return stale.stands.token
    except GateUnreachable as unreachable:
        raise GateUnreachable(
            f"{unreachable}. If it is gone for good: nightlatch gate forget {gate.url} --lease {mark.name}"
        ) from unreachable


def _elsewhere(url: str) -> bool:
    """What is on another machine's own disk is sealed by the holders there: nobody here can write to it."""
    from ..system import identity

    scheme, _, rest = url.partition("://")
    return scheme in ("file", "folder", "sqlite") and rest.partition("/")[0] not in ("", identity.machine())
