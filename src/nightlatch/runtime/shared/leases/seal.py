"""Sealing: before any work begins, every gate of a lease is made to refuse older grants."""

from __future__ import annotations

from ....core import advice, fence
from ....errors import GateUnreachable, LeaseLost, OtherStore, StaleToken, StoreUnreachable
from ....gates import kind_of
from ....gates import open as open_gate
from ....store import held
from ....system import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ....core.protocols import Gate
    from ...child.inherited import Inherited
    from .lease import Lease

_TRIES = 3


def seal_in_work(lease: Lease | Inherited, gate: Gate) -> None:
    """Seal a gate while the work goes on, then register it, before its first write.

    In this order a gate that cannot be sealed is not registered, and a registered one has a mark. If another holder
    took over between the two, the store refuses the registration, and nothing was written.
    """
    try:
        if not _has_mark(gate, lease.name) and gate.url in lease.store.gates(lease.name):
            _expect_mark(gate, lease.name)
        _seal_without_raising(lease, gate)
    except StaleToken as stale:
        if stale.current and (stale.current.store, stale.current.name) == (lease.store.id, lease.name):
            # The store may have been restored from a backup and forgotten the gate: register it, so that the next
            # holder meets this mark.
            lease.store.register(lease.name, lease.grant, gate.url)
        raise
    except GateUnreachable as unreachable:
        known = gate.url in lease.store.gates(lease.name)
        raise GateUnreachable(f"{unreachable}. {_hint(gate.url, lease.name, known)}") from unreachable
    lease.store.register(lease.name, lease.grant, gate.url)
    _note_registered(lease, gate)


def _seal_without_raising(lease: Lease | Inherited, gate: Gate) -> None:
    """Seal with the token we have, even if the mark is higher: the work has read data under this token. If it were
    raised, a stale holder that a restored store knows again would overtake its successor."""
    try:
        gate.seal(lease.mark, str(lease.holder), lease.known)
    except OtherStore:
        raise
    except StaleToken as stale:
        if stale.current is None:
            raise
        raise StaleToken(
            f"{stale}. If nobody has, and the store was restored from an older backup: "
            f"{advice.command('lease', 'raise', lease.name, '--above', str(stale.current.token))}, then start again",
            offered=stale.offered,
            current=stale.current,
        ) from stale


def seal_all(lease: Lease | Inherited, registered: Iterable[str], declared: Iterable[Gate]) -> None:
    """Before any work: seal what is registered under the lease's name, and what is declared besides.

    A mark that the store cannot explain means that the store was restored from a backup and has forgotten grants, and
    perhaps done keys: raises `Forgotten`, and the mark stays until a person raises the token. An adopted mark may be
    higher than our token: then the token is raised, and every gate is sealed again, the first ones too.

    Declared gates are registered after all of them are sealed: a mistyped target must not block later holders.
    """
    gates = _open_gates(registered)
    known = set(gates)
    gates |= {gate.url: gate for gate in declared}  # the caller's own objects, which may have a password
    for url in known:
        _expect_mark(gates[url], lease.name)
    _seal(lease, gates, known)
    for url, gate in gates.items():
        if url not in known:
            lease.store.register(lease.name, lease.grant, url)
        _note_registered(lease, gate)


def _note_registered(lease: Lease | Inherited, gate: Gate) -> None:
    """From now on this holder may write through the gate without registering it again."""
    if hasattr(gate, "registered"):
        gate.registered = lease.mark


def _seal(lease: Lease | Inherited, gates: dict[str, Gate], known: set[str]) -> None:
    for _ in range(_TRIES):
        highest = max((_try_to_seal(gate, lease, new=url not in known) for url, gate in gates.items()), default=0)
        if not highest:
            return
        # Then seal all again: a gate with the lower token would accept a grant that the store has forgotten.
        lease.raise_above(highest)
    raise StoreUnreachable(f"the gates of {lease.name} could not be sealed: their marks keep rising. Try again")


def _has_mark(gate: Gate, name: str) -> bool:
    """False only if the gate knows that it was never sealed under this name."""
    return not hasattr(gate, "has_mark") or bool(gate.has_mark(name))


def _expect_mark(gate: Gate, name: str) -> None:
    """Tell the gate that it was sealed before: if its disk is not mounted now, no new mark may be made in its place."""
    if hasattr(gate, "expect_mark"):
        gate.expect_mark(name)


def _open_gates(urls: Iterable[str]) -> dict[str, Gate]:
    return {url: open_gate(url) for url in urls if not _on_another_machine(url)}


def _try_to_seal(gate: Gate, lease: Lease | Inherited, *, new: bool) -> int:
    """Seal the gate. Returns 0, or the token of its mark if that is higher than ours."""
    mark = lease.mark
    try:
        gate.seal(mark, str(lease.holder), lease.known)
        return 0
    except OtherStore:
        raise
    except StaleToken as stale:
        if stale.current is None:
            raise
        if lease.known is None or lease.known.explains(stale.current):
            return stale.current.token
        record = lease.store.read(lease.name)
        if record is None or record.grant != lease.grant:
            raise LeaseLost(held.lost_sentence(record, lease.name), reason="taken") from stale
        raise fence.forgotten(gate.url, mark, stale.current) from stale
    except GateUnreachable as unreachable:
        raise GateUnreachable(f"{unreachable}. {_hint(gate.url, mark.name, not new)}") from unreachable


def _hint(url: str, name: str, known: bool) -> str:
    if known:
        return f"If it is gone for good: {advice.command('gate', 'forget', url, '--lease', name)}"
    return f"Nothing was ever written there under {name}: is it the right target?"


def _on_another_machine(url: str) -> bool:
    """Is the gate on another machine's disk? Then holders there seal it, and nobody here can write to it."""
    kind, machine = kind_of(url), url.partition("://")[2].partition("/")[0]
    return kind is not None and kind.on_disk and machine not in ("", identity.machine())
