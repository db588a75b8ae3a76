"""Publish and push from inside a run: its supervisor does it, under the run's lease."""

from __future__ import annotations

import os

from ...errors import Error, StaleToken
from ..shared.client import send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...errors import LeaseLost


def uses_run_lease() -> bool:
    """Is the lease in the environment the run's, not one that was taken inside it?"""
    path, grant = os.environ.get("NIGHTLATCH_SOCKET", ""), os.environ.get("NIGHTLATCH_GRANT", "")
    return bool(path) and grant.startswith(os.path.basename(path))


def publish(source: str | None, target: str, *, keep: int | None = None, adopt: bool = False) -> dict[str, Any]:
    """`source` None: go back to the release before. Paths are seen from here."""
    path, workspace = (None, "") if source is None else _seen(source)
    return send(
        do="publish",
        source=path,
        beneath=workspace,
        target=target if "://" in target else os.path.join(os.getcwd(), target),
        keep=keep,
        adopt=adopt,
    )


def _seen(source: str) -> tuple[str, str]:
    """The path, and the workspace that it is in: there the supervisor follows links by itself, none that leads out."""
    path = os.path.normpath(os.path.join(os.getcwd(), source))
    workspace = os.environ.get("NIGHTLATCH_WORKSPACE", "")
    for root in (workspace, os.path.realpath(workspace)) if workspace else ():
        if path.startswith(f"{root}/"):
            return path, root
    return os.path.realpath(source), ""  # /dev/stdin is the supervisor's own there


def push(remote: str, branch: str, *, folder: str = ".", key: str | None = None, scope: str = "") -> dict[str, Any]:
    return send(do="push", folder=os.path.abspath(folder), remote=remote, branch=branch, key=key, scope=scope)


def note_refusal(what: str, refused: StaleToken | LeaseLost) -> None:
    """A gate has refused a lease that was taken inside the run: `nightlatch show` of the run has it too."""
    marks = (refused.offered, refused.stands) if isinstance(refused, StaleToken) else (None, None)
    token, stands = (mark.token if mark else None for mark in marks)
    try:
        send(do="refused", what=what, reason=str(refused), token=token, stands=stands)
    except Error:
        pass  # it must not hide what was refused
