"""Sealing: every gate of a lease refuses the older grants before any work is begun."""

from __future__ import annotations

from ..errors import OtherStore, StaleToken, StoreUnreachable
from ..gates import open as open_gate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..core.model import Mark
    from ..core.protocols import Gate
    from .inherited import Inherited
    from .lease import Lease

_TRIES = 3


def seal_all(lease: Lease | Inherited, registered: Iterable[str], declared: Iterable[Gate]) -> None:
    """Seal what is registered under the lease's name, and register and seal what is declared besides.

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
        lease.raise_above(highest)
        # Sealed under the lower token, an earlier gate would let in a grant that the store has forgotten.
        gates = _opened(_registered(lease)) | gates
    raise StoreUnreachable(f"the gates of {lease.name} could not be sealed: their marks keep rising. Try again")


def _opened(urls: Iterable[str]) -> dict[str, Gate]:
    return {url: open_gate(url) for url in urls if not _elsewhere(url)}


def _registered(lease: Lease | Inherited) -> tuple[str, ...]:
    record = lease.store.read(lease.name)
    ttl = record.ttl if record else lease.store.default_ttl
    return lease.store.acquire(lease.name, lease.grant, lease.holder, ttl).gates  # the same grant: let in again


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


def _elsewhere(url: str) -> bool:
    """What is on another machine's own disk is sealed by the holders there: nobody here can write to it."""
    from ..system import identity

    scheme, _, rest = url.partition("://")
    return scheme in ("file", "folder", "sqlite") and rest.partition("/")[0] not in ("", identity.machine())
