"""A caller at a gate: a lease, which seals and registers the gate by itself, or only a mark."""

from __future__ import annotations

import os

from ..core.model import Mark
from ..system import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.protocols import Bearer, Registrable


def sealed_mark(gate: Registrable, bearer: Bearer | Mark) -> tuple[Mark, str]:
    """The mark to verify, and a description of its holder.

    A lease that has not sealed and registered the gate yet does so now, so that later holders seal it before they
    work. A caller with only a mark must have done both itself.
    """
    if isinstance(bearer, Mark):
        return bearer, f"{identity.person()} (pid {os.getpid()})"
    bearer.check()
    mark = bearer.mark
    if gate.registered != mark:
        bearer.use(gate)
        mark = bearer.mark  # sealing may have raised it
    return mark, str(bearer.holder)
