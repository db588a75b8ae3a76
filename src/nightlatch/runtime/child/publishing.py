"""Publish and push from inside a run: the supervisor does it, under the run's lease."""

from __future__ import annotations

import os

from ...errors import Error, LeaseLost, StaleToken
from ..shared.client import send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def uses_run_lease() -> bool:
    """Is the lease in the environment the run's own, not one that was acquired inside the run?"""
    path, grant = os.environ.get("NIGHTLATCH_SOCKET", ""), os.environ.get("NIGHTLATCH_GRANT", "")
    return bool(path) and grant.startswith(os.path.basename(path))


def publish(source: str | None, target: str, *, keep: int | None = None, adopt: bool = False) -> dict[str, Any]:
    """Returns the supervisor's reply. `source` None: go back to the previous release. Paths are relative to this
    process's folder."""
    path, workspace = (None, "") if source is None else _located(source)
    return send(
        do="publish",
        source=path,
        beneath=workspace,
        target=target if "://" in target else os.path.join(os.getcwd(), target),
        keep=keep,
        adopt=adopt,
    )


def _located(source: str) -> tuple[str, str]:
    """The absolute path, and the workspace that contains it ("" if none does). In a workspace the supervisor itself
    follows links, but none that leads out of it."""
    path = os.path.normpath(os.path.join(os.getcwd(), source))
    workspace = os.environ.get("NIGHTLATCH_WORKSPACE", "")
    for root in (workspace, os.path.realpath(workspace)) if workspace else ():
        if path.startswith(f"{root}/"):
            return path, root
    return os.path.realpath(source), ""  # resolved here: in the supervisor /dev/stdin is another file


def push(remote: str, branch: str, *, folder: str = ".", key: str | None = None, scope: str = "") -> dict[str, Any]:
    return send(do="push", folder=os.path.abspath(folder), remote=remote, branch=branch, key=key, scope=scope)


def note_refusal(what: str, refused: StaleToken | LeaseLost) -> None:
    """Record that a gate refused a lease acquired inside the run, for `nightlatch show` of the run."""
    marks = (refused.offered, refused.current) if isinstance(refused, StaleToken) else (None, None)
    token, current = (mark.token if mark else None for mark in marks)
    try:
        send(do="refused", what=what, reason=str(refused), token=token, stands=current)
    except Error:
        pass  # a failed report must not hide the refusal
