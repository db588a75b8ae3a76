"""What a command does differently when it is called from inside a run."""

from __future__ import annotations

import os

from ..core.passwords import without_password

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..errors import LeaseLost, StaleToken


def store_of_run() -> str | None:
    """Inside a run: the run's store, which its supervisor keeps out of the environment. None elsewhere, and where
    the environment names one."""
    if "NIGHTLATCH_SOCKET" not in os.environ or os.environ.get("NIGHTLATCH_STORE"):
        return None
    from ..runtime.shared.client import send

    return without_password(str(send(do="store")["url"]))


def note_refusal(what: str, refused: StaleToken | LeaseLost) -> None:
    """Inside a run: note in the run's record that this write came too late. Elsewhere do nothing."""
    if os.environ.get("NIGHTLATCH_RUN") and os.environ.get("NIGHTLATCH_SOCKET"):
        from ..runtime.child.publishing import note_refusal as tell_of

        tell_of(what, refused)
