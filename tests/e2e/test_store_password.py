"""The store's password is in no command's environment; Nightlatch's commands inside `lock` and `once` find it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from nightlatch.system import identity
from tests.support.clones import begun, commit, git
from tests.support.programs import TOOL, nightlatch
from tests.support.servers.git import git_http, git_repository
from tests.support.servers.postgres import PostgresServer


class Named(NamedTuple):
    """A store that is let in with a password only, and where that stands."""

    store: str
    option: list[str]
    env: dict[str, str]
    password: str


@pytest.fixture(params=["--store", "NIGHTLATCH_STORE", "PGPASSWORD"])
def named(request: pytest.FixtureRequest, postgres: PostgresServer, state_home: Path) -> Named:
    role = f"role_{identity.new_id()}"
    url = postgres.url_with_password(role, role)
    password = url.split(":")[2].split("@")[0]
    if request.param == "--store":
        return Named("", ["--store", url], {}, password)
    if request.param == "NIGHTLATCH_STORE":
        return Named(url, [], {}, password)
    return Named(url.replace(f":{password}", ""), [], {"PGPASSWORD": password}, password)


# What is left of `env`, and which commands find the store.
INSIDE = """
set -e
env > env
echo page > page
me publish page out
(cd "$1" && me push)
me once post -- sh -c 'env > env-of-once; me once inner -- sh -c "env > env-of-inner"'
me lock other -- sh -c 'env > env-of-lock; me publish page out-of-lock'
me lease show "$NIGHTLATCH_LEASE" > shown
me lease renew
eval "$(me lease acquire third)"
me publish page out-of-third
me lease release third
me status > status
me run nested -- true
"""


def tool(folder: Path) -> dict[str, str]:
    """`me` on the PATH: called by a Python program, which closes all descriptors that it was not given."""
    script = folder / "bin" / "me"
    script.parent.mkdir()
    call = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"
    script.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{call}' {TOOL} \"$@\"\n")
    script.chmod(0o755)
    return {"PATH": f"{script.parent}:{os.environ['PATH']}"}


def test_under_lock_no_environment_has_the_password_and_every_command_finds_the_store(named: Named, tmp_path: Path):
    site = begun(git_repository(tmp_path / "remote.git"), tmp_path / "site")
    commit(site, "page", b"two\n")
    place = tmp_path / "work"
    place.mkdir()
    done = nightlatch(
        named.store,
        *named.option,
        "lock",
        "job",
        "--",
        "sh",
        "-c",
        INSIDE,
        "sh",
        str(site),
        cwd=place,
        env={**named.env, **tool(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert {(place / name).read_text() for name in ("out", "out-of-lock", "out-of-third")} == {"page\n"}
    assert git(site, "rev-parse", "origin/main") == git(site, "rev-parse", "HEAD")
    assert "job" in (place / "shown").read_text()
    for name in ("env", "env-of-once", "env-of-inner", "env-of-lock"):
        assert named.password not in (place / name).read_text(), name


def test_in_a_run_no_environment_has_the_password_and_the_socket_does_not_tell_it(named: Named, tmp_path: Path):
    ask = (
        "import os; from nightlatch.runtime.shared.client import send; print(dict(os.environ), send(do='store')); "
        "import nightlatch; nightlatch.current().step('s', lambda: 1)"
    )
    done = nightlatch(
        named.store, *named.option, "run", "job", "--", sys.executable, "-c", ask, cwd=tmp_path, env=named.env
    )
    assert done.returncode == 0 and "postgresql://" in done.stdout, done.stderr
    assert named.password not in done.stdout
    once = f"env; {TOOL} once post -- env"
    words = ("--pass-store", "--", "sh", "-c", once)
    ran = nightlatch(named.store, *named.option, "run", "other", *words, cwd=tmp_path, env=named.env)
    assert ran.returncode == 0 and "NIGHTLATCH_IDEMPOTENCY_KEY" in ran.stdout, ran.stderr
    assert named.password not in ran.stdout
    refused = nightlatch(
        named.store, *named.option, "run", "third", "--", "sh", "-c", once, cwd=tmp_path, env=named.env
    )
    assert refused.returncode == 69 and "--pass-store" in refused.stderr, refused.stderr


def test_a_password_that_is_not_the_stores_is_left_alone(sqlite_url: str):
    for verb in ("lock", "run"):
        done = nightlatch(sqlite_url, verb, "job", "--", "sh", "-c", "echo $PGPASSWORD", env={"PGPASSWORD": "theirs00"})
        assert done.stdout in ("theirs00\n", "[PGPASSWORD]\n"), "redacted, so it was there"


def test_a_token_in_the_url_of_a_git_store_is_in_no_environment(tmp_path: Path, state_home: Path):
    git_repository(tmp_path / "store.git")
    with git_http(tmp_path) as server:
        url = "git+" + server.url("store.git").replace("//", "//ann:only-in-the-url@")
        done = nightlatch(url, "lock", "job", "--", "sh", "-c", f"env; {TOOL} lease show job --json")
        assert done.returncode == 0, done.stderr
        assert "only-in-the-url" not in done.stdout
        assert json.loads(done.stdout.splitlines()[-1])["held"]
