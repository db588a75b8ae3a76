"""Who comes to a gate: a lease, which registers and seals the gate by itself, or a bare mark."""

from __future__ import annotations

import os

from ..core.model import Mark
from ..system import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.protocols import Bearer, Gate


def present(gate: Gate, bearer: Bearer | Mark, sealed: Mark | None) -> tuple[Mark, str]:
    """The mark to verify, and who offers it. `sealed` is the mark that this gate object was last sealed with.

    A lease that has not sealed the gate yet does so now: registered too, so that its successors seal it
    before they work. With a bare mark that is the caller's to have done.
    """
    if isinstance(bearer, Mark):
        return bearer, f"{identity.user()}@{identity.host()} (pid {os.getpid()})"
    bearer.check()
    mark = bearer.mark
    if sealed != mark:
        bearer.use(gate)
        mark = bearer.mark  # sealing may have raised it
    return mark, str(bearer.holder)
