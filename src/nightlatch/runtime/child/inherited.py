"""A lease that another process holds: for `publish` and `push` in a command under `nightlatch lock`,
or in a script after `eval "$(nightlatch lease acquire …)"`."""

from __future__ import annotations

import os

from ...core.model import Holder, KnownGrants, Mark, check_name
from ...errors import LeaseLost, UsageError
from ...store import held, url

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...core.protocols import Gate, Store


class Inherited:
    """A grant that the store has under `name`; used like a `Lease`, but neither renewed nor released here.

    Raises `LeaseLost` if the store shows another grant, or none.
    """

    def __init__(self, store: Store, name: str, grant: str) -> None:
        self.store = store
        self.name = check_name(name)
        self.grant = grant
        self.token, self.holder, self.known = self._read()

    @classmethod
    def from_environment(cls, store: str | None = None) -> Inherited:
        """The lease named by NIGHTLATCH_LEASE and NIGHTLATCH_GRANT.

        NIGHTLATCH_TOKEN is for people and for targets that compare tokens themselves. Here the token is
        read from the store, since a seal may have raised it after this process was started.
        """
        name, grant = os.environ.get("NIGHTLATCH_LEASE", ""), os.environ.get("NIGHTLATCH_GRANT", "")
        if not name or not grant:
            raise UsageError(
                "no lease here: run this inside `nightlatch lock NAME -- CMD …`, "
                'or after eval "$(nightlatch lease acquire NAME)"'
            )
        return cls(url.connect(store), name, grant)

    @property
    def mark(self) -> Mark:
        """What a gate compares and remembers."""
        return Mark(store=self.store.id, name=self.name, token=self.token, grant=self.grant)

    def check(self) -> None:
        """Return if the store still shows our grant; raise `LeaseLost` otherwise."""
        self.token, self.holder, self.known = self._read()

    def use(self, gate: Gate) -> None:
        """Seal a gate and register it under this lease, for every later holder too."""
        from ..shared.leases.seal import seal_in_work

        seal_in_work(self, gate)

    def raise_above(self, token: int) -> None:
        """Raise the grant's token above one that a gate has seen. Only before any work begins under the grant."""
        self.token = self.store.raise_token(self.name, token, self.grant)

    def _read(self) -> tuple[int, Holder, KnownGrants | None]:
        record = self.store.read(self.name)
        if record is None or record.grant != self.grant:
            raise LeaseLost(held.lost_sentence(record, self.name), reason="taken")
        return record.token, record.holder, record.known
