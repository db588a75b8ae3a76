"""What a git gate remembers of the remote saves a round trip, and decides nothing."""

from __future__ import annotations

import pytest

from nightlatch import gates
from nightlatch.core.model import Mark
from nightlatch.errors import StaleToken
from nightlatch.system import identity
from tests.support.clones import clone, commit, git
from tests.support.git_site import Site, sealed


@pytest.mark.parametrize("site", ["http"], indirect=True)
def test_a_push_after_a_seal_of_this_machine_costs_one_connection_in_any_process(site: Site) -> None:
    mine = sealed(site, 1000)
    assert site.server
    for gate in (site.gate, gates.Git(site.url, "main")):
        commit(site.work, "article", identity.new_id().encode())
        site.server.served.clear()
        assert gate.push(mine, folder=str(site.work)) == site.main()
        assert [request.partition("/site")[0] for request in site.server.served] == ["GET ", "POST "]


@pytest.mark.parametrize("damage", ["", "what?\n", f"{'0' * 40} {'a' * 40}\n", f"{'b' * 40} {'a' * 40}\n"])
@pytest.mark.parametrize("site", ["file"], indirect=True)
def test_whatever_stands_where_it_is_remembered_the_push_lands(site: Site, damage: str) -> None:
    mine = sealed(site, 1000)
    commit(site.work, "article", b"mine\n")
    (remembered,) = (site.root / "state").rglob("seen/*")
    remembered.write_text(damage)
    assert gates.Git(site.url, "main").push(mine, folder=str(site.work)) == site.main()


@pytest.mark.parametrize("site", ["file"], indirect=True)
def test_what_somebody_took_back_is_not_brought_again_from_memory(site: Site) -> None:
    mine, before = sealed(site, 1000), site.main()
    elsewhere = clone(site.url, site.root / "elsewhere")
    commit(elsewhere, "mistake", b"mine too\n")
    site.gate.push(mine, folder=str(elsewhere))
    git(site.remote, "update-ref", "refs/heads/main", before)
    commit(site.work, "article", b"mine\n")
    assert site.gate.push(mine, folder=str(site.work)) == site.main()
    assert site.files() == {"index", "article"}


def test_nobody_is_refused_from_memory(site: Site) -> None:
    """Another machine has adopted the gate for another store since."""
    sealed(site, 1000)
    other = Mark(store=identity.new_id(), name="articles", token=1, grant=identity.new_id())
    with pytest.MonkeyPatch.context() as elsewhere:
        elsewhere.setenv("XDG_STATE_HOME", str(site.root / "elsewhere"))
        gates.Git(site.url, "main").adopt(other.store)
    commit(site.work, "article", b"mine\n")
    its = Mark(store=other.store, name="articles", token=1000, grant=other.grant)
    with pytest.raises(StaleToken) as refused:
        site.gate.push(its, folder=str(site.work))
    assert refused.value.current and refused.value.current.store == other.store, "as it stands, not as it stood"
    newer = Mark(store=other.store, name="articles", token=1001, grant=other.grant)
    assert site.gate.push(newer, folder=str(site.work)) == site.main()
