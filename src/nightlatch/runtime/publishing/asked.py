"""What a run's command asks to be published by itself: `nightlatch publish` and `nightlatch push` inside a run.

The same as what a run publishes at its end (`targets`), but named by paths of the command's own. `adopts` says
whether an earlier attempt of the same run has published the very same already.
"""

from __future__ import annotations

import os

from ...errors import UsageError
from ...gates import address
from ...gates.file import File
from ...gates.folder import KEEP, Folder
from . import fingerprint
from .publish import LANDED, NOT_LANDED
from .targets import Place, Pushed, Replaced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...gates.objects import Object
    from .targets import Facts, For
    from .workspace import Workspace


def gate_for(source: str | None, target: str, keep: int | None) -> File | Folder | Object:
    """By the target; on this machine's disk a folder is what a folder is published to, and what is rolled back."""
    if target.startswith(("s3:", "gs:", "az:")):
        from ...gates.objects import Object

        return Object(target, keep=keep or KEEP)
    path = address.to_path(target) if "://" in target else target
    if os.path.isdir(path if source is None else source):
        return Folder(path, keep=keep or KEEP)
    if path.endswith("/"):
        raise UsageError(f"{target} names a folder, and a file is published to a file: write {target}NAME")
    return File(path)


class Copied(Replaced):
    """The file, folder or object `target` becomes what `source` is; without a source, what it was before."""

    def __init__(self, source: str | None, target: str, *, keep: int | None = None, adopt: bool = False) -> None:
        self.gate = gate_for(source, target, keep)
        if adopt and not (isinstance(self.gate, Folder) and source is not None):
            raise UsageError("--adopt is for publishing a folder")
        self._is_file = isinstance(self.gate, File)
        if source is None and self._is_file:
            raise UsageError(f"{self.gate.path} is a file: releases are kept of folders and objects only")
        self._from, self._adopt = source, adopt

    def shown(self) -> str:
        """The release that is shown; "" for a file, which has none."""
        return str(self.gate.current() if isinstance(self.gate, Folder) else "" if self._is_file else self.gate.key())

    def write(self, lease: object) -> str:
        """Returns the release that is shown now."""
        if self._from is None:
            return str(self.gate.rollback(lease))
        return str(self.gate.publish(lease, self._from, **({"adopt": True} if self._adopt else {})) or "")

    def describe(self, workspace: Workspace | Place, whom: For) -> Facts:
        if self._from is None:
            return {"from": "the release before"}
        return {"from": self._from, "sha256": fingerprint.of(self._from)}

    def land(self, workspace: Workspace | Place, facts: Facts, whom: For) -> str:
        return self.write(whom.lease)

    def adopts(self, before: Facts, outcome: str, whom: For) -> bool:
        if self._from is None or outcome == NOT_LANDED or before.get("sha256") != fingerprint.of(self._from):
            return False
        return self.landed(before, None)


class Head(Pushed):
    """HEAD of the repository in `folder` is pushed as it is; what is not committed stays so."""

    def __init__(
        self, folder: str, remote: str, branch: str, done: tuple[str, str] | None, workspace: str = ""
    ) -> None:
        """`workspace`: the run's, if the folder is in it. Then nothing that stands in the repository there is run."""
        from ...gates.git import Git

        guard = ""
        if workspace:
            from . import clone

            folder = clone.top(workspace, folder)
            guard = clone.guard_inside(workspace, folder)
        self.gate = Git(remote, branch, folder=folder, trusted=not workspace)
        self.folder, self.done, self.guard = folder, done, guard
        self.since = ""  # what this attempt has pushed there before
        self.unsure = False  # this attempt has pushed there, and does not know whether that landed

    def describe(self, workspace: Workspace | Place, whom: For) -> Facts:
        """With its trailers, which are all that tells if it has to follow the branch on its way."""
        work, token = self._work(Place(path=self.folder, guard=self.guard)), str(whom.lease.token)
        tip = work.sign(work.tip(), self._trailers(whom) | {"Nightlatch-Token": token})
        work.settle()  # the push reads HEAD
        facts = {"commit": tip, "base": self.since} | ({} if self.unsure else {"run": whom.run, "token": token})
        return facts | ({"scope": self.done[0], "key": self.done[1]} if self.done else {})

    def landed(self, facts: Facts, fresh: Workspace | Place) -> bool:
        if "run" in facts:
            return super().landed(facts, fresh)
        # Its trailers are those of a push before it too, which may have landed.
        return bool(self._work(fresh).contains(facts["commit"], fresh.commit))

    def land(self, workspace: Workspace | Place, facts: Facts, whom: For) -> str:
        return self.gate.push(
            whom.lease, folder=self.folder, done=self.done, trailers=self._trailers(whom), guard=self.guard
        )

    def adopts(self, before: Facts, outcome: str, whom: For) -> bool:
        """Did an earlier attempt push for this very key, and die before it could be settled? It is settled now."""
        if self.done is None or outcome == NOT_LANDED or (before.get("scope"), before.get("key")) != self.done:
            return False
        if outcome != LANDED:
            tip = self.gate.fetch(self.folder, self.guard)
            if not self.landed(before, Place(path=self.folder, commit=tip, guard=self.guard)):
                return False
        whom.lease.store.settle(whom.lease.name, whom.lease.grant, *self.done, value=before["commit"])
        return True

    @staticmethod
    def _trailers(whom: For) -> dict[str, str]:
        return {"Nightlatch-Job": whom.job, "Nightlatch-Run": whom.run}
