"""`nightlatch lease`, `key` and `doctor`, from scripts; and nightlatch.lease from Python."""

from __future__ import annotations

import asyncio
import json
import subprocess

import pytest

import nightlatch as nl
from tests.support.programs import TOOL, environment, nightlatch


def shell(store: str, script: str) -> subprocess.CompletedProcess[str]:
    """A script in which `nightlatch` is the program under test."""
    whole = f'nightlatch() {{ {TOOL} "$@"; }}\nset -e\n{script}'
    return subprocess.run(["bash", "-c", whole], env=environment(store), text=True, capture_output=True, timeout=60)


def test_a_script_holds_a_lease_across_processes(sqlite_url):
    done = shell(
        sqlite_url,
        """
        eval "$(nightlatch lease acquire z --ttl 60s)"
        echo "$NIGHTLATCH_LEASE $NIGHTLATCH_TOKEN"
        nightlatch lease renew
        env -u NIGHTLATCH_GRANT bash -c true
        nightlatch lease show --json
        nightlatch lease release
        nightlatch lease show z
        """,
    )
    assert done.returncode == 0, done.stderr
    name, token = done.stdout.splitlines()[0].split()
    assert name == "z"
    shown = json.loads(done.stdout.splitlines()[1])
    assert (shown["token"], shown["held"], shown["version"]) == (int(token), True, 1)
    assert "free" in done.stdout


def test_a_second_acquire_from_another_shell_gives_75(sqlite_url):
    assert nightlatch(sqlite_url, "lease", "acquire", "z", "--ttl", "60s").returncode == 0
    second = nightlatch(sqlite_url, "lease", "acquire", "z", "--ttl", "60s")
    assert second.returncode == 75 and "z is held by" in second.stderr
    assert nightlatch(sqlite_url, "lease", "acquire", "z", "--json").stdout == ""
    quiet = nightlatch(sqlite_url, "lease", "acquire", "z", "--held-ok")
    assert (quiet.returncode, quiet.stderr) == (0, "")  # cron mails whatever is printed


@pytest.mark.parametrize(
    "words", ["z", "z --held-ok", "z --ttl 60", "z --pid 999999999", "--store=sqlite:////dev/null/x z"]
)
@pytest.mark.parametrize("how", ['eval "$(nightlatch lease acquire {})" || exit',
                                 'set -e; eval "$(nightlatch lease acquire {})"'])  # fmt: skip
def test_eval_of_a_lease_that_was_not_had_fails(sqlite_url, words, how):
    assert nightlatch(sqlite_url, "lease", "acquire", "z", "--ttl", "60s").returncode == 0
    went_on = shell(sqlite_url, "set +e\n" + how.format(words) + "\necho went on")
    assert went_on.returncode in (64, 69, 75) and went_on.stdout == "", went_on


def test_verbs_need_the_grant_that_stands(sqlite_url):
    nightlatch(sqlite_url, "lease", "acquire", "z")
    for verb in ("renew", "release"):
        assert nightlatch(sqlite_url, "lease", verb, "z", "--grant", "wrong").returncode == 123
        assert nightlatch(sqlite_url, "lease", verb, "z").returncode == 64


def test_the_list_shows_every_lease(sqlite_url):
    nightlatch(sqlite_url, "lock", "a", "--", "true")
    nightlatch(sqlite_url, "lease", "acquire", "b")
    plain = nightlatch(sqlite_url, "lease", "list").stdout.splitlines()
    assert [line.split()[0] for line in plain] == ["a", "b"]
    assert "free" in plain[0]
    rows = [json.loads(line) for line in nightlatch(sqlite_url, "lease", "list", "--json").stdout.splitlines()]
    assert [(row["lease"], row["held"]) for row in rows] == [("a", False), ("b", True)]


def test_a_key_from_the_shell_is_the_key_from_python(sqlite_url):
    assert nightlatch(sqlite_url, "key", "a:b", "c").stdout.strip() == nl.key("a:b", "c")
    assert nightlatch(sqlite_url, "key", "--", "--x").stdout.strip() == nl.key("--x")


def test_doctor_finds_a_healthy_store_healthy(sqlite_url):
    done = nightlatch(sqlite_url, "doctor", "--json")
    findings = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stdout
    assert {finding["grade"] for finding in findings} == {"ok"}
    seen = {finding["about"] for finding in findings}
    assert {"durability", "file system", "clock", "schema", "permissions", "store"} <= seen


def test_doctor_says_what_to_do_about_open_permissions(sqlite_url, tmp_path):
    nightlatch(sqlite_url, "lock", "x", "--", "true")
    (tmp_path / "state" / "nightlatch.db").chmod(0o644)
    shown = nightlatch(sqlite_url, "doctor").stdout
    assert "chmod 0600" in shown


def test_a_lease_in_python(sqlite_url):
    with nl.lease("x", store=sqlite_url) as first:
        first.check()
        with pytest.raises(nl.Busy) as busy, nl.lease("x", store=sqlite_url):
            pass
        assert busy.value.record and busy.value.record.token == first.token
    with nl.lease("x", store=sqlite_url) as second:
        assert second.token > first.token


def test_a_handle_that_was_given_back_refuses_everything(sqlite_url):
    with nl.lease("x", store=sqlite_url) as lease:
        pass
    with pytest.raises(nl.LeaseLost) as lost:
        lease.check()
    assert lost.value.reason == "released"
    lease.release()


def test_a_broad_except_cannot_swallow_a_lost_lease(sqlite_url):
    lease = nl.lease("x", store=sqlite_url).acquire()
    nl.connect(sqlite_url).evict("x")
    lease._keeper._renew()

    def work() -> None:
        try:
            lease.check()
        except Exception:  # noqa: BLE001
            pytest.fail("swallowed")

    with pytest.raises(nl.LeaseLost):
        work()
    lease.release()


def test_a_lease_in_async_code(sqlite_url):
    async def work() -> tuple[int, int]:
        async with nl.lease("x", store=sqlite_url) as one:
            pass
        async with nl.lease("x", store=sqlite_url, wait="5s") as two:
            two.check()
            return one.token, two.token

    one, two = asyncio.run(work())
    assert two > one


def test_an_error_inside_the_block_gives_the_lease_back(sqlite_url):
    with pytest.raises(ZeroDivisionError), nl.lease("x", store=sqlite_url):
        raise ZeroDivisionError
    nl.lease("x", store=sqlite_url).acquire().release()
