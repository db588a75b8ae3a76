"""What a command does differently when it is called from inside a run."""

from __future__ import annotations

import os

from ..errors import LeaseLost, StaleToken


def note_refusal(what: str, refused: StaleToken | LeaseLost) -> None:
    """Inside a run: note in the run's record that this write came too late. Elsewhere do nothing."""
    if os.environ.get("NIGHTLATCH_RUN") and os.environ.get("NIGHTLATCH_SOCKET"):
        from ..runtime.child import publishing

        publishing.note_refusal(what, refused)
