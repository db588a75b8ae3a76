"""Every verb that writes for a holder needs its current grant. With an old grant it changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...core.model import Record
from ...errors import LeaseLost
from ...system import identity
from ..expect import raises
from .store_case import LONG, StoreCase


class Fencing(StoreCase):
    def test_renew_with_an_old_grant_is_refused(self) -> None:
        self._refused(lambda name, grant: self.store.renew(name, grant, LONG))

    def test_release_with_an_old_grant_is_refused(self) -> None:
        self._refused(self.store.release)

    def test_settle_with_an_old_grant_is_refused(self) -> None:
        scope = self.name("scope")
        self._refused(lambda name, grant: self.store.settle(name, grant, scope, "key", value="stale"))
        assert self.store.look(scope, "key") is None

    def test_register_with_an_old_grant_is_refused(self) -> None:
        for name in self._refused(lambda name, grant: self.store.register(name, grant, "file:///stale")):
            self.store.evict(name)
            assert self.take(name)[1].gates == ()

    def test_unregister_with_an_old_grant_is_refused(self) -> None:
        """Otherwise a stale holder could drop a gate that is in use."""
        for name in self._refused(lambda name, grant: self.store.unregister(name, "file:///none", grant)):
            self.store.evict(name)
            grant, _ = self.take(name)
            self.store.register(name, grant, "file:///used")
            raises(LeaseLost, self.store.unregister, name, "file:///used", identity.new_id())
            assert self.take(name, over=self.takeover(name, proven=True))[1].gates == ("file:///used",)

    def test_raise_with_an_old_grant_is_refused(self) -> None:
        self._refused(lambda name, grant: self.store.raise_token(name, 2**50, grant))

    def test_a_grant_of_one_name_is_refused_for_another(self) -> None:
        mine, theirs = self.name(), self.name()
        grant, _ = self.take(mine)
        other, _ = self.take(theirs)
        raises(LeaseLost, self.store.renew, theirs, grant, LONG)
        raises(LeaseLost, self.store.release, theirs, grant)
        raises(LeaseLost, self.store.settle, theirs, grant, self.name("scope"), "key")
        raises(LeaseLost, self.store.register, theirs, grant, "file:///x")
        raises(LeaseLost, self.store.unregister, theirs, "file:///x", grant)
        raises(LeaseLost, self.store.raise_token, theirs, 1, grant)
        assert self.record(theirs).grant == other

    def _refused(self, verb: Callable[[str, str], object]) -> list[str]:
        """Try the verb with every kind of old grant; returns the names of the leases."""
        names = []
        for name, grant, fate in self._old_grants():
            before = self.store.read(name)
            lost = raises(LeaseLost, verb, name, grant)
            assert lost.reason == "taken", fate
            assert _lasting_fields(self.store.read(name)) == _lasting_fields(before), (
                f"the record changed for a grant that was {fate}"
            )
            names.append(name)
        return names

    def _old_grants(self) -> Iterator[tuple[str, str, str]]:
        """(name, grant, what became of the grant)"""
        name = self.name()
        yield name, identity.new_id(), "never given, to a name never held"

        grant, _ = self.take(name)
        yield name, identity.new_id(), "never given"

        self.store.release(name, grant)
        yield name, grant, "released"

        self.take(name)
        yield name, grant, "released, and another holds the lease"

        name, grant, _ = self.held()
        self.take(name, over=self.takeover(name, proven=True))
        yield name, grant, "taken over"

        name, grant, _ = self.held()
        self.store.evict(name)
        yield name, grant, "evicted"


def _lasting_fields(record: Record | None) -> object:
    """A record without the fields that change with time."""
    return record and (record.token, record.grant, record.ttl, record.since, record.until, record.version)
