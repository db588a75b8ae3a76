"""Which grants of a lease its store remembers, and what that says of a mark at a gate."""

from __future__ import annotations

import pytest

import nightlatch
from nightlatch.core.model import KnownGrants, Mark
from nightlatch.system import identity

GRANTS = [f"{number:032x}" for number in range(1, 101)]


def mark(token: int, grant: str) -> Mark:
    return Mark(store="s", name="job", token=token, grant=grant)


def remembered(grants: list[str], past: str = "") -> KnownGrants:
    """Grant number n has the token n * 7."""
    for number, grant in enumerate(grants, 1):
        past = KnownGrants.remember(past, (number - 1) * 7, grant) if past or number > 1 else grant
    return KnownGrants.read(past)


def test_all_of_a_young_lease_are_known_and_nothing_else_is_explained():
    known = remembered(GRANTS[:5])
    assert known == KnownGrants(grants=frozenset(GRANTS[:5]), floor=0)
    assert not known.explains(mark(3, "f" * 32)) and not known.explains(mark(99, "f" * 32))


@pytest.mark.parametrize("number", range(25, 100))
def test_of_an_old_one_the_newest_are_known_and_what_is_older_than_those_is_explained(number):
    """However the text is cut: not one that was given is taken for forgotten, and one that was not is found out."""
    known = remembered(GRANTS[:number])
    assert len(known.grants) >= 25
    assert all(known.explains(mark(at * 7, grant)) for at, grant in enumerate(GRANTS[:number], 1))
    assert not known.explains(mark((number - 20) * 7 + 1, "f" * 32))


def test_what_was_before_the_first_that_is_remembered_is_explained():
    """A store made by an older program, or whose token a person has raised."""
    known = KnownGrants.read(KnownGrants.remember("", 70, GRANTS[0]))
    assert known == KnownGrants(grants=frozenset(GRANTS[:1]), floor=70)
    assert known.explains(mark(70, "f" * 32)) and not known.explains(mark(71, "f" * 32))
    assert KnownGrants.read("").explains(mark(0, "f" * 32)) and not KnownGrants.read("").grants


def test_an_adopted_mark_is_explained():
    assert remembered(GRANTS[:2]).explains(mark(10**15, ""))


def test_every_store_remembers_its_grants_until_the_token_is_raised(any_store):
    store, holder, grants = nightlatch.connect(any_store), identity.holder(pid=0), [identity.new_id() for _ in range(3)]
    for grant in grants:
        for _ in range(2):  # asked again, as after a lost reply
            granted = store.acquire("job", grant, holder, 60.0)
        store.renew("job", grant, 60.0)
        last = store.raise_token("job", granted.token + 5, grant)
        store.release("job", grant)
    record = store.read("job")
    assert granted.known == KnownGrants(grants=frozenset(grants), floor=0) and record and record.known == granted.known
    assert store.raise_token("job", last) > last
    granted = store.acquire("job", new := identity.new_id(), holder, 60.0)
    assert granted.known == KnownGrants(grants=frozenset([new]), floor=granted.previous) and granted.previous > last
