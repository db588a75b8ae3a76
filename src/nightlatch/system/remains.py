"""What a holder left running on this machine: end it, and prove that nothing of it is still running.

There are up to three proofs, and all that this machine can make must agree: the run's cgroup is empty, the lock that
the tree inherited is free, and no process carries the grant in its environment.
"""

from __future__ import annotations

from ..core.printable import printable
from . import cgroup, lifetime, process, tree

_PATIENCE = 5.0  # seconds for killed processes to be gone


class Remains:
    """What is left on this machine of a holder whose lifetime lock is at `path`."""

    def __init__(self, path: str, grant: str, since: int) -> None:
        self.path, self._grant, self._since = path, grant, since

    def end(self) -> list[str]:
        """End all of it. Returns [] if every proof that this machine can make agrees; otherwise what may be left, for
        people to read."""
        group = lifetime.cgroup_of(self.path)
        emptied = bool(group) and cgroup.end(group, _PATIENCE)
        look = tree.sweep(self._grant, self._since, self._is_locked, patience=_PATIENCE)
        if emptied:
            cgroup.remove(group)
        unproven = [pid for pid, _ in look.found] + ([] if emptied else look.unreadable)
        if group and not emptied:
            unproven += cgroup.members(group)
        left = [f"pid {pid} ({printable(process.name(pid))})" for pid in dict.fromkeys(unproven)]
        if not left and self._is_locked():
            left = [f"a process that has {self.path}{lifetime.TREE} open"]
        if not left and not look.complete:
            left = ["processes that come and go too quickly to be examined"]
        return left

    def _is_locked(self) -> bool:
        return lifetime.is_free(self.path + lifetime.TREE) is False
