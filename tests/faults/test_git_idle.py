"""A git store with thousands of leases that nobody uses any more: they share one ref, and no token falls."""

from __future__ import annotations

import os
import subprocess
import threading

import pytest

from nightlatch.core.model import Begun
from nightlatch.errors import StoreUnreachable
from nightlatch.store.git import idle, names, record
from nightlatch.store.git.record import StoredLease
from nightlatch.store.git.store import GitStore
from nightlatch.system import clock
from tests.support import programs
from tests.support.git_remote import Remote, take

FAR = int(clock.wall() * 1000) + 10**9  # tokens above every clock here: only the floor keeps a new one from falling


def many(remote: Remote, count: int, prefix: str = "once/") -> None:
    """Leases as `once` leaves them: free, without gates."""
    message = StoredLease(token=FAR, since=0.0, until=0.0).message("once")
    tree = remote.git("hash-object", "-t", "tree", "-w", "/dev/null")
    commit = remote.git("-c", "user.name=n", "-c", "user.email=n", "commit-tree", tree.strip(), "-m", message).strip()
    lines = "".join(f"create {names.lease(f'{prefix}{number}')} {commit}\n" for number in range(count))
    subprocess.run(["git", "-C", remote.path, "update-ref", "--stdin"], input=lines, text=True, check=True)
    remote.git("pack-refs", "--all")


def refs(remote: Remote) -> set[str]:
    return set(remote.git("for-each-ref", "--format=%(refname)", names.ROOT.rstrip("/")).split())


def share(store: GitStore) -> None:
    """As two releases do that are an hour apart."""
    for _ in range(2):
        idle.delete_unused(store._refs, store.folder, unused=0.0)


def test_more_leases_than_a_line_of_words_has_room_for_can_be_listed(file_remote: Remote) -> None:
    """Long names, so that fewer of them are too many; with NIGHTLATCH_ROUNDS=100 as many as there may be."""
    count = 20_000 if int(os.environ.get("NIGHTLATCH_ROUNDS", "1")) >= 100 else 5_000
    many(file_remote, count, prefix="x" * 180)
    listed = programs.nightlatch(file_remote.store_url, "lease", "list")
    assert listed.returncode == 0, listed.stderr
    assert listed.stdout.count("\n") == count


def test_idle_leases_share_a_ref_and_their_token_never_falls(remote: Remote) -> None:
    many(remote, 200)
    store = remote.connect()
    busy, _ = take(store, "busy")
    left, _ = take(store, "left", begin=Begun(key="k"))
    store.release("left", left)
    gated, _ = take(store, "gated")
    store.register("gated", gated, "file:///out")
    store.release("gated", gated)

    share(remote.connect())

    kept = {names.lease(name) for name in ("busy", "left", "gated")}
    assert refs(remote) == {*kept, names.STORE, names.FLOOR} or refs(remote) == {*kept, names.FLOOR}
    for other in (store, remote.connect()):
        grant, granted = take(other, "once/7")
        assert granted.token > FAR
        other.release("once/7", grant)
    assert remote.connect().raise_token("once/8", 0) > FAR
    store.renew("busy", busy, 60.0)


def test_what_moves_within_the_hour_or_is_not_old_enough_keeps_its_ref(file_remote: Remote) -> None:
    many(file_remote, 100)
    store = file_remote.connect()
    idle.delete_unused(store._refs, store.folder, unused=0.0)
    grant, granted = take(store, "once/1")
    store.release("once/1", grant)
    idle.delete_unused(store._refs, store.folder)
    assert len(refs(file_remote) & {names.lease(f"once/{number}") for number in range(100)}) == 100, "not an hour"
    idle.delete_unused(store._refs, store.folder, unused=0.0)
    assert names.lease("once/1") in refs(file_remote), "it moved"
    assert names.lease("once/2") not in refs(file_remote)
    record = store.read("once/1")
    assert record and record.token == granted.token


def test_one_that_was_paused_before_it_made_a_ref_gets_no_token_of_before(
    http_remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has seen that the name has no ref; meanwhile the name is taken, released, and shares the ref of idle ones."""
    many(http_remote, 100)
    server, paused, other = http_remote.server, http_remote.connect(), http_remote.connect()
    assert server
    monkeypatch.setattr(idle, "PAUSE", -1.0)
    paused.id, other.id  # noqa: B018 - made before, so that the next push is the acquire's
    server.hold = held = threading.Event()
    outcome: list[int] = []
    thread = threading.Thread(target=lambda: outcome.append(take(paused, "job", ttl=600.0)[1].token))
    thread.start()
    assert server.held.wait(60)
    grant, _ = take(other, "job")
    newer = other.raise_token("job", FAR + 5, grant)
    other.release("job", grant)
    share(other)
    assert names.lease("job") not in refs(http_remote)
    held.set()
    thread.join()
    assert outcome[0] > newer
    now = http_remote.connect().read("job")
    assert now and now.token == outcome[0]


def test_a_server_that_takes_no_deletions_keeps_every_ref_and_nobody_is_troubled(file_remote: Remote) -> None:
    many(file_remote, 100)
    file_remote.hook("update", 'case "$3" in 0000*) exit 1;; esac')
    store = file_remote.connect()
    grant, _ = take(store, "job")
    share(store)
    store.release("job", grant)
    assert len(refs(file_remote)) >= 100
    assert record.read_floor(record.floor_message(7)) == 7


def test_a_store_that_is_away_troubles_nobody_either(file_remote: Remote) -> None:
    store = file_remote.connect()
    back = file_remote.go_away()
    with pytest.raises(StoreUnreachable):
        store.read("job")
    share(store)
    back()
