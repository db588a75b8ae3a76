"""Git stores on remotes that are away, silent, strict or locked; and the copy on this machine."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest

import nightlatch
from nightlatch.errors import StoreUnreachable
from nightlatch.system import identity
from tests.support import programs
from tests.support.disks import mounting
from tests.support.git_remote import Remote, take

# Silence


def test_a_remote_that_is_away_for_a_while_costs_nobody_a_lease(remote: Remote) -> None:
    store = remote.connect()
    with nightlatch.lease("job", ttl="18s", store=store) as lease:
        come_back = remote.go_away()
        try:
            with pytest.raises(StoreUnreachable):
                store.renew("job", lease.grant, 18.0)
            time.sleep(6.5)  # a renewal falls due, and fails
            assert lease.lost is None
        finally:
            come_back()
        version = store.read("job").version  # type: ignore[union-attr]
        programs.until(lambda: store.read("job").version != version)  # type: ignore[union-attr]
        lease.check()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a TTL of a second there is little time for a git that starts on a busy machine."""
    monkeypatch.setattr("nightlatch.store.git.store._MIN_TIMEOUT", 20.0)


def test_two_firings_of_a_cron_line_take_over_from_a_machine_that_is_gone(remote: Remote, patient: None) -> None:
    _, granted = take(remote.connect(), "job", ttl=1.0)
    cron = ("lock", "job", "--", "sh", "-c", "echo $NIGHTLATCH_TOKEN")
    first = programs.nightlatch(remote.store_url, *cron)
    assert first.returncode == 75 and "ann@gone" in first.stderr, first.stderr
    time.sleep(1.5)
    second = programs.nightlatch(remote.store_url, *cron)
    assert second.returncode == 0, second.stderr
    assert int(second.stdout) > granted.token


def test_a_machine_that_is_heard_of_between_two_firings_keeps_its_lease(remote: Remote, patient: None) -> None:
    store = remote.connect()
    grant, _ = take(store, "job", ttl=1.0)
    assert programs.nightlatch(remote.store_url, "lock", "job", "--", "true").returncode == 75
    time.sleep(1.5)
    store.renew("job", grant, 1.0)
    assert programs.nightlatch(remote.store_url, "lock", "job", "--", "true").returncode == 75


def test_a_waiter_sees_a_release_soon(remote: Remote) -> None:
    store = remote.connect()
    grant, _ = take(store, "job")
    waiter = programs.start(remote.store_url, "lock", "job", "--wait", "60s", "--", "date", "+%s.%N")
    time.sleep(2)  # by now it looks at its slowest
    released = time.time()
    store.release("job", grant)
    out, said = waiter.communicate(timeout=60)
    assert waiter.returncode == 0, said
    assert float(out) - released < 30  # 1.5 s, and two pushes on a busy machine; the TTL is a minute


# Servers


def test_a_server_that_lets_refs_only_go_forward_gets_a_chain(remote: Remote) -> None:
    deny = "git merge-base --is-ancestor $2 $3 || { echo no rewinds here >&2; exit 1; }"
    remote.hook("update", f"[ $2 = {'0' * 40} ] || {deny}")
    store = remote.connect()
    for _ in range(2):
        grant, granted = take(store, "job")
        store.renew("job", grant, 60.0)
        store.settle("job", grant, "scope", identity.new_id())
        store.release("job", grant)
    again = remote.connect()
    record = again.read("job")
    assert record and (record.grant, record.token) == ("", granted.token)
    assert int(remote.git("rev-list", "--count", "refs/nightlatch/job")) == 8


def test_elsewhere_no_history_grows_and_a_clone_sees_nothing(remote: Remote, tmp_path: Path) -> None:
    store = remote.connect()
    for _ in range(3):
        grant, _ = take(store, "job")
        store.settle("job", grant, "scope", "key")
        store.release("job", grant)
    assert remote.git("rev-list", "--count", "refs/nightlatch/job").strip() == "1"
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", remote.path, clone], check=True, capture_output=True)
    refs = subprocess.run(["git", "-C", clone, "for-each-ref"], capture_output=True, text=True).stdout
    assert "nightlatch" not in refs


def test_a_server_that_refuses_everything_says_so_in_one_line(remote: Remote) -> None:
    remote.hook("update", "echo this is a mirror >&2; exit 1")
    said = programs.nightlatch(remote.store_url, "lock", "job", "--", "true")
    assert said.returncode == 69
    assert "refuses pushes to refs/nightlatch/*" in said.stderr and len(said.stderr.splitlines()) == 1


def test_nobody_is_asked_for_a_password(http_remote: Remote) -> None:
    assert http_remote.server
    http_remote.server.locked = True
    said = programs.nightlatch(http_remote.store_url, "lease", "list")
    assert said.returncode == 69
    assert "credential helper" in said.stderr and len(said.stderr.splitlines()) == 1


def test_the_local_copy_may_be_lost_at_any_time(remote: Remote) -> None:
    store = remote.connect()
    grant, _ = take(store, "job")
    store.settle("job", grant, "scope", "one")
    shutil.rmtree(store.repository.folder)
    store.settle("job", grant, "scope", "two")
    shutil.rmtree(store.repository.folder)
    assert store.look("scope", "one") and store.look("scope", "two")
    store.renew("job", grant, 60.0)
    store.release("job", grant)


def test_the_local_copy_is_for_this_user_alone(remote: Remote) -> None:
    store = remote.connect()
    take(store, "job")
    assert Path(store.folder).stat().st_mode & 0o777 == 0o700


def test_the_doctor_finds_a_git_store_well(remote: Remote) -> None:
    said = programs.nightlatch(remote.store_url, "doctor")
    assert said.returncode == 0, said.stdout
    assert "compare-and-swap works" in said.stdout


def test_a_renewal_in_flight_when_the_command_ends_leaves_no_lock_file_in_the_remote(
    file_remote: Remote, tmp_path: Path
) -> None:
    renewing = tmp_path / "renewing"
    # The first transaction is the acquire; the second one, a renewal, stays in its locks for a while.
    file_remote.hook(
        "reference-transaction",
        f'test "$1" = prepared || exit 0\ntest -e {tmp_path}/held || {{ : > {tmp_path}/held; exit 0; }}\n'
        f"test -e {renewing} || {{ : > {renewing}; sleep 0.5; : > {tmp_path}/answered; }}",
    )
    waiting = f"until test -e {renewing}; do sleep 0.01; done"
    ended = programs.nightlatch(file_remote.store_url, "lock", "articles", "--ttl", "12s", "--", "sh", "-c", waiting)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (tmp_path / "answered").exists()
    assert not list(file_remote.path.rglob("*.lock"))
    free = programs.nightlatch(file_remote.store_url, "lock", "articles", "--", "true")
    assert (free.returncode, free.stderr) == (0, "")


@mounting
def test_a_remote_whose_disk_is_full_is_not_said_to_refuse_pushes(tmp_path: Path) -> None:
    script = f"""
    mount -t tmpfs -o size=300k tmpfs /mnt
    git init -q --bare /mnt/site.git
    git clone -q /mnt/site.git {tmp_path}/work 2>/dev/null; cd {tmp_path}/work
    git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one
    dd if=/dev/zero of=/mnt/fill bs=1k 2>/dev/null
    {programs.TOOL} lock job -- true; echo $?
    {programs.TOOL} --store sqlite:///{tmp_path}/db lock job -- {programs.TOOL} push origin main; echo $?
    """
    alone = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script]
    env = programs.environment("git+file:///mnt/site.git", XDG_STATE_HOME=str(tmp_path / "state"))
    done = subprocess.run(alone, env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["69", "69"], done
    lines = done.stderr.splitlines()
    assert len(lines) == 2, done.stderr
    assert all("the disk of file:///mnt/site.git is full" in line and "Free some space there" in line for line in lines)
