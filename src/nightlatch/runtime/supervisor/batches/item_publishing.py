"""Publishing an item's result, once: in the supervisor, which alone has the lease.

The intent (what is to land where, by its sha256) is recorded in the item's row before anything is written; the gates in
use are registered under the batch's lease, so a successor seals them first. The successor then checks at each target
whether the intended content has landed, and adopts it. When an item is recorded as done, its gates are unregistered:
nobody writes there any more, and the next start need not seal a million gates.
"""

from __future__ import annotations

import json

from ....errors import Conflict, GateUnreachable, LeaseLost, NothingToPublish, StoreUnreachable, UsageError
from ..publishing.replace_target import ReplaceTarget
from ..publishing.targets import Publisher
from ..publishing.workspace import Workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ....ledger.items import ItemRow
    from ...shared.leases.lease import Lease

    Intend = Callable[[str], None]


class Publishing:
    def __init__(self, lease: Lease, run: str, job: str) -> None:
        self._lease, self._publisher = lease, Publisher(lease=lease, run=run, job=job, done=None)
        self._under_way: dict[str, list[str]] = {}  # the gates in use, by the item's digest
        self._taken: dict[str, str] = {}  # gate → the item that published there in this start

    def publish(self, digest: str, key: str, targets: list[str], path: str, intend: Intend) -> dict[str, Any]:
        """Publish an item to all its targets. Returns {}, or why that failed and whether another try may help.

        A gate's refusal is raised: another holder has the batch by now.
        """
        try:
            self._land(digest, key, [ReplaceTarget(text) for text in targets], path, intend)
        except (NothingToPublish, GateUnreachable) as error:
            return {"failed": str(error), "again": True}
        except (UsageError, Conflict) as error:
            return {"failed": str(error), "again": False}
        return {}

    def _land(self, digest: str, key: str, targets: list[ReplaceTarget], path: str, intend: Intend) -> None:
        for target in targets:
            other = self._taken.setdefault(target.gate.url, key)
            if other != key:
                raise UsageError(
                    f"{target.gate.url} was published to by the item {other}: two items may not write to one place"
                )
        workspace = Workspace(path)
        try:
            facts = [target.describe(workspace, self._publisher) for target in targets]
            intend(pack(path, targets, facts))
            self._under_way[digest] = [target.gate.url for target in targets]
            for target in targets:
                self._lease.use(target.gate)
            for target, what in zip(targets, facts, strict=True):
                target.land(workspace, what, self._publisher)
        finally:
            workspace.close()

    def recover(self, item: ItemRow) -> bool:
        """Finish publishing an item that was in flight when its batch died; False if that is impossible. Call it after
        the seal."""
        intent = unpack(item.result)
        if intent is None:
            return False
        targets = [ReplaceTarget(text) for text in intent["targets"]]
        pairs = list(zip(targets, intent["facts"], strict=True))
        missing = [(target, facts) for target, facts in pairs if not target.landed(facts, None)]
        self._under_way[item.digest] = [target.gate.url for target in targets]
        if not missing:
            return True
        left = Workspace.left_at(intent["workspace"])
        if left is None:
            return False
        try:
            if not all(target.intact(facts, left) and not target.overtaken(facts) for target, facts in missing):
                return False
            for target, facts in missing:
                self._lease.use(target.gate)
                target.land(left, facts, self._publisher)
            left.remove()
        finally:
            left.close()
        return True

    def unregister_gates(self, digest: str) -> None:
        """Unregister the gates of an item that is done. A gate that stays registered is only sealed once more."""
        for gate in self._under_way.pop(digest, ()):
            try:
                self._lease.store.unregister(self._lease.name, gate, self._lease.grant)
            except (StoreUnreachable, LeaseLost):
                return


def pack(path: str, targets: list[ReplaceTarget], facts: list[dict[str, str]]) -> str:
    return json.dumps({"workspace": path, "targets": [target.text for target in targets], "facts": facts})


def unpack(text: str) -> dict[str, Any] | None:
    """The intent in the row of an item in flight; None: publishing had not begun."""
    return dict(json.loads(text)) if text else None
