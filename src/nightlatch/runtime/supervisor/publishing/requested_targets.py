"""Targets that a run's command requests: `nightlatch publish` and `nightlatch push` inside a run.

Like the targets that a run publishes to at its end (`targets`), but with paths that the command names. `adopts` says
whether an earlier attempt of the same run has already published the same content.
"""

from __future__ import annotations

import errno
import os

from ....errors import UsageError
from ....gates import address, kind_of
from ....gates.file import File
from ....gates.folder import KEEP, Folder
from ....gates.on_disk import OnDisk, check_outside_releases
from ....ledger import kinds
from ....system import fingerprint
from ....system.open_beneath import open_beneath
from .push_target import PushTarget
from .replace_target import ReplaceTarget
from .targets import REPLACED, CommandFolder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .targets import Facts, Publisher
    from .workspace import Workspace


def gate_for(source: str | int | None, target: str, keep: int | None) -> Any:
    """The gate for the target. On disk, a folder replaces a folder, and only folders can be rolled back."""
    kind = kind_of(target)
    if kind and kind.published_to and not kind.on_disk:
        return kind.load()(target, keep=keep or KEEP)
    path = address.to_path(target) if "://" in target else target
    if os.path.isdir(path if source is None else source):
        gate: OnDisk = Folder(path, keep=keep or KEEP)
    elif path.endswith("/"):
        raise UsageError(f"{target} is a folder, but the source is a file: write {target}NAME")
    else:
        gate = File(path)
    check_outside_releases(gate.path)
    return gate


def _opened(workspace: str, path: str) -> int:
    try:
        return open_beneath(workspace, os.path.relpath(path, workspace))
    except OSError as error:
        if error.errno == errno.EXDEV:
            raise UsageError(f"{path} is a link that leads out of the workspace {workspace}: not published") from error
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error


class RequestedReplace(ReplaceTarget):
    """Replaces the file, folder or object `target` with `source`; without a source, with its previous release."""

    def __init__(
        self, source: str | None, target: str, *, keep: int | None = None, adopt: bool = False, beneath: str = ""
    ) -> None:
        """`beneath`: a workspace that `source` is in; no link is followed out of it."""
        self._source_path = source
        self._from = _opened(beneath, source) if source and beneath else source  # a descriptor, or a path
        try:
            self.gate = gate_for(self._from, target, keep)
            self._check(adopt)
        except BaseException:
            self.close()
            raise
        self._adopt = adopt

    def _check(self, adopt: bool) -> None:
        if adopt and not (self.gate.takes_folders and self._source_path is not None):
            raise UsageError("--adopt is for publishing a folder")
        if self._source_path is None and not self.gate.keeps_releases:
            raise UsageError(f"{self.gate.path} is a file: releases are kept of folders and objects only")

    def close(self) -> None:
        if isinstance(self._from, int):
            os.close(self._from)

    def current_release(self) -> str:
        """The release that the target shows now; "" for a file, which has none."""
        return str(self.gate.release())

    def write(self, lease: object, digest: str = "") -> str:
        """Publish, or roll back; returns the release that the target shows then."""
        if self._from is None:
            return str(self.gate.rollback(lease))
        adopt = {"adopt": True} if self._adopt else {}
        return str(self.gate.publish(lease, self._from, digest=digest, **adopt) or "")

    def describe(self, workspace: Workspace | CommandFolder, publisher: Publisher) -> Facts:
        if self._from is None:
            return {"from": "the release before"}
        return {"from": str(self._source_path), "sha256": fingerprint.of(self._from)} | self._tokens(publisher)

    def land(self, workspace: Workspace | CommandFolder, facts: Facts, publisher: Publisher) -> str:
        return self.write(publisher.lease, facts.get("sha256", ""))

    def adopts(self, before: Facts, outcome: str, publisher: Publisher) -> bool:
        if self._from is None or outcome == kinds.NOT_PUBLISHED or before.get("sha256") != fingerprint.of(self._from):
            return False
        how = self.landed(before, None)
        if how == REPLACED and self.gate.landings()[-1].mark.token == publisher.lease.token:
            return False  # this attempt itself has replaced it, and now publishes it again
        return bool(how)


class RequestedPush(PushTarget):
    """Pushes HEAD of the repository in `folder`; uncommitted changes stay uncommitted."""

    def __init__(
        self, folder: str, remote: str, branch: str, done: tuple[str, str] | None, workspace: str = ""
    ) -> None:
        """`workspace`: the run's, if the folder is in it. Then no hook or setting of that repository is used."""
        from ....gates.git import Git

        guard = ""
        if workspace:
            from . import clone

            folder = clone.top(workspace, folder)
            guard = clone.guard_inside(workspace, folder)
        self.gate = Git(remote, branch, folder=folder, trusted=not workspace)
        self.folder, self.done, self.guard = folder, done, guard
        self.since = ""  # the last commit that this attempt has pushed there
        self.unsure = False  # this attempt has pushed there, and it is unknown whether that landed

    def describe(self, workspace: Workspace | CommandFolder, publisher: Publisher) -> Facts:
        """The tip with its trailers: if the push has to rebase it, only they identify the commit."""
        work, token = self._work(CommandFolder(path=self.folder, guard=self.guard)), str(publisher.lease.token)
        tip = work.add_trailers(work.tip(), self._trailers(publisher) | {"Nightlatch-Token": token})
        facts = {"commit": tip, "base": self.since} | ({} if self.unsure else {"run": publisher.run, "token": token})
        return facts | ({"scope": self.done[0], "key": self.done[1]} if self.done else {})

    def _contains(self, facts: Facts, fresh: Workspace | CommandFolder) -> bool:
        if "run" in facts:
            return super()._contains(facts, fresh)
        # Only its id proves it: an earlier push of the same attempt has the same trailers, and may have landed.
        return bool(self._work(fresh).contains(facts["commit"], fresh.commit))

    def _result_trailer(self, facts: Facts) -> Facts:
        return {}

    def land(self, workspace: Workspace | CommandFolder, facts: Facts, publisher: Publisher) -> str:
        return self.gate.push(
            publisher.lease, folder=self.folder, done=self.done, trailers=self._trailers(publisher), guard=self.guard
        )

    def adopts(self, before: Facts, outcome: str, publisher: Publisher) -> bool:
        """Did an earlier attempt push for this key, and die before it settled the key? Then settle it now."""
        if self.done is None or outcome == kinds.NOT_PUBLISHED or (before.get("scope"), before.get("key")) != self.done:
            return False
        if outcome != kinds.PUBLISHED:
            tip = self.gate.fetch(self.folder, self.guard)
            if not self.landed(before, CommandFolder(path=self.folder, commit=tip, guard=self.guard)):
                return False
        publisher.lease.store.settle(publisher.lease.name, publisher.lease.grant, *self.done, value=before["commit"])
        return True

    @staticmethod
    def _trailers(publisher: Publisher) -> dict[str, str]:
        return {"Nightlatch-Job": publisher.job, "Nightlatch-Run": publisher.run}
