"""Every valid name is a separate lease, whether the store keeps it in a table, in a folder or as a git ref."""

from __future__ import annotations

from ...core.model import Holder, check_name
from ...runtime.shared.leases.acquire import acquire
from ...system import identity
from .store_case import LONG, StoreCase

# Each is a trap for some store: a folder that is a file too, two files on a disk that ignores case,
# what git does not allow in a ref.
_TAILS = ("", "/b", "/b/c", "/B", ".lock", ".", "/", "/.b", "/@", "#0", "#1", ":b", "@b", "+b", "=b", ",b", "_b", "-")


class Names(StoreCase):
    def test_every_name_that_may_be_used_is_a_lease_of_its_own(self) -> None:
        root = self.name()
        names = [check_name(root + tail) for tail in _TAILS]
        grants = {name: self.take(name)[0] for name in names}
        assert {name: self.record(name).grant for name in names} == grants
        listed = [record.name for record in self.store.records() if record.name.startswith(root)]
        assert listed == sorted(names)

    def test_the_longest_name_can_be_held(self) -> None:
        name = check_name(self.name().ljust(200, "x"))
        grant, _ = self.take(name)
        assert self.record(name).grant == grant
        self.store.release(name, grant)

    def test_a_lease_with_the_longest_name_can_be_waited_for(self) -> None:
        name, grant = check_name((self.name() + "/a" * 100)[:200]), identity.new_id()
        self.take(name, ttl=self.ttl)
        acquire(self.store, name, grant, self.holder(), LONG, (self.ttl * 2 + 20) * self.factor)
        assert self.record(name).grant == grant

    def test_a_holder_comes_back_as_it_was_written(self) -> None:
        name = self.name()
        holder = Holder(incarnation="i" * 32, user="a = b\tö '\"", host="ħost\\", pid=7, start=8, lifetime="/var/a b=c")
        self.store.acquire(name, identity.new_id(), holder, LONG)
        assert self.record(name).holder == holder
