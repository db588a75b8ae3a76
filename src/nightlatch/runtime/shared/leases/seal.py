"""Sealing: every gate of a lease refuses the older grants before any work is begun."""

from __future__ import annotations

from ....core import advice, fence
from ....errors import GateUnreachable, LeaseLost, OtherStore, StaleToken, StoreUnreachable
from ....gates import open as open_gate
from ....store import held

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ....core.protocols import Gate
    from ...child.inherited import Inherited
    from .lease import Lease

_TRIES = 3


def seal_in_work(lease: Lease | Inherited, gate: Gate) -> None:
    """Seal a gate while the work goes on, then register it: before its first write.

    In this order what cannot be sealed is not remembered, and what is remembered has a mark. A holder that was
    overtaken between the two is refused by the store, and has written nothing.
    """
    try:
        if not _has_mark(gate, lease.name) and gate.url in lease.store.gates(lease.name):
            _expect_mark(gate, lease.name)
        _seal_as_it_is(lease, gate)
    except StaleToken as stale:
        if stale.stands and (stale.stands.store, stale.stands.name) == (lease.store.id, lease.name):
            # The store may have forgotten it, restored from a backup: then the next holder has to meet this mark.
            lease.store.register(lease.name, lease.grant, gate.url)
        raise
    except GateUnreachable as unreachable:
        known = gate.url in lease.store.gates(lease.name)
        raise GateUnreachable(f"{unreachable}. {_hint(gate.url, lease.name, known)}") from unreachable
    lease.store.register(lease.name, lease.grant, gate.url)
    _is_registered(lease, gate)


def _seal_as_it_is(lease: Lease | Inherited, gate: Gate) -> None:
    """The token is not raised here, whatever stands there: the work has read things under the old one, and
    a holder that a restored store has brought back to life would overtake the one that overtook it."""
    try:
        gate.seal(lease.mark, str(lease.holder), lease.known)
    except OtherStore:
        raise
    except StaleToken as stale:
        if stale.stands is None:
            raise
        raise StaleToken(
            f"{stale}. If nobody has, and the store was restored from an older backup: "
            f"{advice.command('lease', 'raise', lease.name, '--above', str(stale.stands.token))}, then start again",
            offered=stale.offered,
            stands=stale.stands,
        ) from stale


def seal_all(lease: Lease | Inherited, registered: Iterable[str], declared: Iterable[Gate]) -> None:
    """Before any work: seal what is registered under the lease's name, and what is declared besides.

    A mark that the store cannot explain means that it has forgotten grants (it was restored from a backup), and
    perhaps done keys: `Forgotten`, and the mark stays, until a person raises the token. One that was adopted may
    stand above our token: that is raised, and every gate sealed again, the first ones too.

    What is declared is registered when all of it is sealed: a mistyped target must not be in the way of those who
    name the right one.
    """
    gates = _opened(registered)
    known = set(gates)
    gates |= {gate.url: gate for gate in declared}  # the caller's own objects, which may know more: a password
    for url in known:
        _expect_mark(gates[url], lease.name)
    _seal(lease, gates, known)
    for url, gate in gates.items():
        if url not in known:
            lease.store.register(lease.name, lease.grant, url)
        _is_registered(lease, gate)


def _is_registered(lease: Lease | Inherited, gate: Gate) -> None:
    """From now on, and not before, this holder writes through it without asking again."""
    if hasattr(gate, "registered"):
        gate.registered = lease.mark


def _seal(lease: Lease | Inherited, gates: dict[str, Gate], known: set[str]) -> None:
    for _ in range(_TRIES):
        highest = max((_refusal(gate, lease, new=url not in known) for url, gate in gates.items()), default=0)
        if not highest:
            return
        # Then all of them again: sealed under the lower token, one would let in a grant that the store has forgotten.
        lease.raise_above(highest)
    raise StoreUnreachable(f"the gates of {lease.name} could not be sealed: their marks keep rising. Try again")


def _has_mark(gate: Gate, name: str) -> bool:
    """False, of a gate that can tell: nobody has sealed it under this name."""
    return not hasattr(gate, "has_mark") or bool(gate.has_mark(name))


def _expect_mark(gate: Gate, name: str) -> None:
    """It was sealed before: on a disk that is not mounted now no mark is to be made in its place."""
    if hasattr(gate, "expect_mark"):
        gate.expect_mark(name)


def _opened(urls: Iterable[str]) -> dict[str, Gate]:
    return {url: open_gate(url) for url in urls if not _elsewhere(url)}


def _refusal(gate: Gate, lease: Lease | Inherited, *, new: bool) -> int:
    """Seal; 0, or the token of the mark that stands in the way."""
    mark = lease.mark
    try:
        gate.seal(mark, str(lease.holder), lease.known)
        return 0
    except OtherStore:
        raise
    except StaleToken as stale:
        if stale.stands is None:
            raise
        if lease.known is None or lease.known.explains(stale.stands):
            return stale.stands.token
        record = lease.store.read(lease.name)
        if record is None or record.grant != lease.grant:
            raise LeaseLost(held.lost_sentence(record, lease.name), reason="taken") from stale
        raise fence.forgotten(gate.url, mark, stale.stands) from stale
    except GateUnreachable as unreachable:
        raise GateUnreachable(f"{unreachable}. {_hint(gate.url, mark.name, not new)}") from unreachable


def _hint(url: str, name: str, known: bool) -> str:
    if known:
        return f"If it is gone for good: {advice.command('gate', 'forget', url, '--lease', name)}"
    return f"Nothing was ever written there under {name}: is it the right target?"


def _elsewhere(url: str) -> bool:
    """What is on another machine's own disk is sealed by the holders there: nobody here can write to it."""
    from ....gates import kind_of
    from ....system import identity

    kind, machine = kind_of(url), url.partition("://")[2].partition("/")[0]
    return kind is not None and kind.on_disk and machine not in ("", identity.machine())
