"""Bad input and bad luck: one clear line, the documented exit code, no traceback."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from nightlatch.cli.main import COMMANDS
from tests.support.disks import mounting
from tests.support.programs import NIGHTLATCH, TOOL, environment, nightlatch, said


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["lokc"], "did you mean 'lock'"),
        (["version"], "did you mean '--version'"),
        (["-v"], "did you mean '--version'"),
        (["jobs"], "did you mean 'slots'"),
        (["status", "--since", "yesterday"], "or write a day, as in 2026-11-01"),
        (["--frobnicate"], "unknown option"),
        (["lock"], "NAME is missing"),
        (["lock", "x"], "no command given"),
        (["lock", "x", "--"], "no command given"),
        (["lock", "x", "--tlt", "5s", "--", "true"], "did you mean --ttl"),
        (["lock", "x", "--ttl", "60", "--", "true"], "ambiguous without a unit"),
        (["lock", "x", "--ttl", "soon", "--", "true"], "not understood"),
        (["lock", "x", "--ttl", "10ms", "--", "true"], "too short"),
        (["lock", "x", "--wait", "1", "--", "true"], "ambiguous"),
        (["lock", "a b", "--", "true"], "'a b' cannot be a name"),
        (["lease", "steal", "x"], "use one of acquire"),
        (["lease", "show", "never-held"], "there is no store"),
        (["lease", "acquire", "x", "--pid", "99999999"], "no such process"),
        (["lease", "acquire", "x", "--pid", "me"], "not a whole number"),
        (["lease", "raise", "x"], "--above N is missing"),
        (["lease", "raise", "x", "--above", "-1"], "out of range"),
        (["lease", "acquire"], "which lease?"),
        (["key"], "PART is missing"),
        (["run", "x", "true"], "put the command after --"),
        (["run", "x", "--key", "", "--", "true"], "--key is empty"),
        (["run", "x", "--key", "k" * 1001, "--", "true"], "up to 1000"),
        (["run", "x", "--key", b"\xe9".decode(errors="surrogateescape"), "--", "true"], "in UTF-8"),
        (["run", "x", "--ttl", "1ms", "--", "true"], "at least 1s"),
        (["run", "x", "--retries", "-1", "--", "true"], "0 or more"),
        (["run", "x", "--timeout", "1 h", "--", "true"], "is not understood: write '1h'"),
        (["run", "x", "--timeout", "1,5h", "--", "true"], "not understood"),
        (["run", "x", "--timeout", "0", "--", "true"], "as in 30m or 1h30m, or none"),
        (["run", "x", "--stall", "0s", "--progress", "report", "--", "true"], "--stall 0s leaves no time"),
        (["run", "x", "--timeout", "", "--", "true"], "--timeout is empty"),
        (["run", "x", "--ttl", "none", "--", "true"], "--ttl 'none' is not understood"),
        (["once", "x", "--timeout", "0", "--", "true"], "as in 30s or 10m"),
        (["run", "x", "--ttl", "10000000000w", "--", "true"], "longer than three centuries"),
        (["run", "x", "--", ""], "the command after -- is empty"),
        (["once", "x", "--", ""], "the command after -- is empty"),
        (["lock", "x", "--", ""], "the command after -- is empty"),
        (["batch", "x", "/dev/null", "--", ""], "the command after -- is empty"),
        (["run", "x", "--verdict", "/", "--", "true"], "that is a folder"),
        (["run", "x", "--slot", "", "--", "true"], "--slot is empty"),
        (["run", "x", "--budget=", "--", "true"], "--budget is empty"),
        (["run", "x", "--tz", "UTC", "--", "true"], "add --slot"),
        (["run", "x", "--new", "--key", "k", "--", "true"], "--new is for a run without a key"),
        (["run", "x", "--lost", "never", "--", "true"], "--lost 'never' is not known: use one of"),
        (["run", "x", "--retries", "1", "--backoff", "x", "--", "false"], "--backoff 'x' is not understood"),
        (["--store", "", "status"], "--store is empty"),
        (["--store"], "--store is empty"),
        (["once", "x", "--probe", "", "--", "true"], "--probe is empty"),
        (["lock", "x", "--gate", "", "--", "true"], "--gate is empty"),
        (["gate", "show"], "TARGET is missing"),
        (["gate", "show", ""], "TARGET is empty"),
        (["lease", "show"], "which lease?"),
        (["lease", "list", "x"], "nightlatch lease show x"),
        (["RUN"], "did you mean 'run'"),
        (["spend", "usd=x"], "as in usd=0.03"),
        (["resolve", "--all", "done"], "--all again --batch NAME"),
        (["resolve", "--all", "maybe", "--batch", "x"], "--all again --batch NAME"),
        (["run", "x", "--verdict", "/no/such/folder/v", "--", "true"], "no such folder"),
    ],
)
def test_usage_is_64(sqlite_url, words, hint):
    assert hint in said(nightlatch(sqlite_url, *words), 64)


@pytest.mark.parametrize(
    ("words", "hint"),
    [(["k", "done"], "the batch x has no item 'k'"), (["--all", "done"], "the batch x has no item that is in doubt")],
)
def test_a_batch_without_such_items_is_64(sqlite_url, words, hint):
    nightlatch(sqlite_url, "once", "e", "--", "true")
    assert hint in said(nightlatch(sqlite_url, "resolve", "--batch", "x", *words), 64)


@pytest.mark.parametrize("words", [["show", "\udcff"], ["runs", "--job", "\udcff"], ["resolve", "\udcff", "done"]])
def test_a_word_that_is_not_utf8_names_nothing(sqlite_url, words):
    nightlatch(sqlite_url, "run", "x", "--timeout", "1m", "--", "true")
    assert "not valid UTF-8" in said(nightlatch(sqlite_url, *words), 64)


def test_looking_at_a_file_that_is_no_store_is_69_and_makes_nothing_beside_it(tmp_path):
    (tmp_path / "notes.txt").write_text("milk, bread\n" * 100)
    (tmp_path / "folder").mkdir()
    for name in ("notes.txt", "folder"):
        said(nightlatch(f"sqlite:///{tmp_path}/{name}", "status"), 69)
    assert not list(tmp_path.glob("*-ledger*"))


def test_a_lease_that_was_never_held_is_64(sqlite_url):
    nightlatch(sqlite_url, "lock", "x", "--", "true")
    assert "there is no lease never-held" in said(nightlatch(sqlite_url, "lease", "show", "never-held"), 64)


def test_the_doctor_says_that_a_store_was_not_there(sqlite_url):
    first, second = (nightlatch(sqlite_url, "doctor").stdout for _ in range(2))
    assert "there was none: it was created now" in first and "there was none" not in second


def test_a_batchs_dry_run_makes_no_store(sqlite_url, tmp_path):
    (tmp_path / "items").write_text("a\n")
    done = nightlatch(sqlite_url, "batch", "b", str(tmp_path / "items"), "--dry-run", "--", "echo", "{}")
    assert done.returncode == 0 and "1 to do" in done.stdout
    assert not Path(sqlite_url.removeprefix("sqlite:///")).parent.exists()


def test_more_runs_than_any_store_has_may_be_asked_for(sqlite_url):
    nightlatch(sqlite_url, "run", "x", "--timeout", "1m", "--", "true")
    assert nightlatch(sqlite_url, "runs", "--limit", "9" * 30).returncode == 0


def test_heads_in_a_file_that_is_no_text_are_none(sqlite_url, tmp_path):
    nightlatch(sqlite_url, "run", "x", "--timeout", "1m", "--", "true")
    (tmp_path / "heads").write_bytes(b"\xff\xfe some words\n")
    assert "has no head" in said(nightlatch(sqlite_url, "audit", "verify", "--heads", str(tmp_path / "heads")), 64)


def test_items_that_are_no_csv_or_name_no_program_fail_by_line(sqlite_url, tmp_path):
    for content in (b"cmd,b\nx,1\rc\xff\n", b"cmd,b\n,2\n"):
        (tmp_path / "items.csv").write_bytes(content)
        words = ("batch", "x", str(tmp_path / "items.csv"), "--key", "{b}", "--", "{cmd}")
        done = nightlatch(sqlite_url, *words)
        assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
        assert "items.csv, line " in done.stderr
    (tmp_path / "items.csv").write_bytes(b"cmd,b\rc\xff\n")
    assert "it is not CSV" in said(nightlatch(sqlite_url, *words), 64)


@pytest.mark.parametrize("url", ["mysql://x", "sqlite://", "sqlite:///", "sqlite::memory:", "leases.db"])
def test_a_url_that_names_no_store_is_64(url):
    assert "sqlite:///" in said(nightlatch(url, "lock", "x", "--", "true"), 64)


def test_a_corrupt_database_is_69_and_not_touched(sqlite_url):
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    path.parent.mkdir(parents=True)
    path.write_bytes(b"this is not a database " * 1000)
    before = path.read_bytes()
    assert "Restore a backup" in said(nightlatch(sqlite_url, "lock", "x", "--", "true"), 69)
    assert path.read_bytes() == before


def test_a_damaged_page_is_69(sqlite_url):
    for name in ("x", "y", "z"):
        nightlatch(sqlite_url, "lock", name, "--", "true")
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    import sqlite3

    with sqlite3.connect(path) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    assert "damaged" in said(nightlatch(sqlite_url, "lock", "x", "--", "true"), 69)


@mounting
def test_a_read_only_folder_is_69(tmp_path):
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", f"mount -t tmpfs -o ro tmpfs {tmp_path}; {TOOL} lock x -- true"],
        env=environment(f"sqlite:///{tmp_path}/new/nightlatch.db"), text=True, capture_output=True, timeout=60,
    )  # fmt: skip
    assert "Read-only file system" in said(done, 69)


@mounting
def test_doctor_names_a_store_that_has_become_read_only(tmp_path):
    script = f"mount -t tmpfs tmpfs {tmp_path}; {TOOL} lock x -- true; mount -o remount,ro {tmp_path}; {TOOL} doctor"
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script],
        env=environment(f"sqlite:///{tmp_path}/nightlatch.db"), text=True, capture_output=True, timeout=60,
    )  # fmt: skip
    (failed,) = [line for line in done.stdout.splitlines() if line.startswith("fail")]
    assert done.returncode == 69 and "folder" in failed and "cannot be written" in failed, done.stdout + done.stderr


@mounting
def test_a_full_disk_is_69_and_nothing_is_lost(tmp_path):
    """A file system of a few blocks, in a mount namespace of its own."""
    place = tmp_path / "small"
    place.mkdir()
    script = f"""
        mount -t tmpfs -o size=256k tmpfs {place} || exit 99
        {TOOL} lock x -- true || exit 98
        dd if=/dev/zero of={place}/rest bs=4k >/dev/null 2>&1
        for i in $(seq 60); do {TOOL} lease acquire x$i --ttl 1h >/dev/null || break; done
        {TOOL} lease acquire one-too-many --ttl 1h; code=$?
        rm {place}/rest
        {TOOL} lock x -- true || exit 97
        exit $code
    """
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script],
        env=environment(f"sqlite:///{place}/nightlatch.db", XDG_STATE_HOME=str(tmp_path / "home")),
        text=True, capture_output=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 69, done.stderr
    assert "full" in done.stderr or "No space left" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "folder", ["Dropbox", "OneDrive", "OneDrive - Company", "Library/Mobile Documents/x", "Google Drive"]
)
def test_a_synchronised_folder_is_refused_with_the_way_out(tmp_path, folder):
    line = said(nightlatch(f"sqlite:///{tmp_path}/{folder}/nightlatch.db", "lock", "x", "--", "true"), 69)
    assert "copies between machines" in line
    assert "--store" in line


def test_a_network_file_system_is_refused(tmp_path, monkeypatch):
    from nightlatch.system import storage

    monkeypatch.setattr(storage, "file_system", lambda folder: "nfs4")
    assert "network file system (nfs4)" in storage.not_local(str(tmp_path / "x.db"))


def test_a_newer_schema_names_the_remedy(sqlite_url):
    import sqlite3

    nightlatch(sqlite_url, "lock", "x", "--", "true")
    with sqlite3.connect(sqlite_url.removeprefix("sqlite:///")) as database:
        database.execute("INSERT INTO meta VALUES ('store.needs', '999')")
    database.close()
    assert "upgrade" in said(nightlatch(sqlite_url, "lock", "x", "--", "true"), 69)


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_explains_itself_with_an_example(sqlite_url, command):
    done = nightlatch(sqlite_url, command, "--help")
    assert done.returncode == 0, done.stderr
    assert f"nightlatch {command}" in done.stdout
    assert "examples:" in done.stdout


def test_help_lists_every_command(sqlite_url):
    shown = nightlatch(sqlite_url, "--help").stdout
    assert all(f"  {command}" in shown for command in COMMANDS)


def test_the_version_is_the_packages(sqlite_url):
    import nightlatch as package

    assert nightlatch(sqlite_url, "--version").stdout == f"nightlatch {package.__version__}\n"


def test_the_store_may_be_named_before_or_after_the_command(tmp_path):
    url = f"sqlite:///{tmp_path}/a.db"
    assert nightlatch("", "--store", url, "lock", "x", "--", "true").returncode == 0
    assert '"lease": "x"' in nightlatch("", "lease", "list", "--json", f"--store={url}").stdout


@pytest.mark.parametrize("words", ["lease list", "help run", "run y --key 1 -- echo", "logs y", "once k -- echo"])
def test_output_that_cannot_be_written_is_not_a_success_nor_a_fault(sqlite_url, words):
    nightlatch(sqlite_url, "lock", "x", "--", "true")
    nightlatch(sqlite_url, "run", "y", "--key", "2", "--", "echo", "hello")
    nightlatch(sqlite_url, "once", "k", "--", "echo", "hello")
    with open("/dev/full", "w") as full:
        done = subprocess.run([*NIGHTLATCH, *words.split()], env=environment(sqlite_url), stdout=full, stderr=full)
    assert done.returncode == 1


@pytest.mark.parametrize(("words", "code"), [("run y -- sh -c 'exit 3'", 3), ("nonsense", 64)])
def test_messages_that_cannot_be_written_do_not_change_the_exit_code(sqlite_url, words, code):
    with open("/dev/full", "w") as full:
        done = subprocess.run([*NIGHTLATCH, *shlex.split(words)], env=environment(sqlite_url), stderr=full)
    assert done.returncode == code


@pytest.mark.parametrize(
    ("before", "said"),
    [("cd {0}; rmdir {0}", "was removed: cd to another one, then try again"), ("ulimit -n 10", "ulimit -n 1024")],
)
def test_what_the_system_lacks_is_not_called_a_fault_of_ours(sqlite_url, tmp_path, before, said):
    (tmp_path / "gone").mkdir()
    line = f"{before.format(tmp_path / 'gone')}; exec {TOOL} run job -- true"
    done = subprocess.run(["sh", "-c", line], env=environment(sqlite_url), text=True, capture_output=True)
    assert done.returncode == 69 and said in done.stderr and "fault" not in done.stderr


@pytest.mark.parametrize("words", ["run job -- true", "lock job -- true", "status"])
def test_too_few_descriptors_are_named_wherever_they_run_out(sqlite_url, words):
    """A module, a library, a file of the store or the command itself may be what cannot be opened."""
    nightlatch(sqlite_url, "run", "first", "--", "true")
    for limit in range(5, 100):
        store = sqlite_url if words == "status" else f"{sqlite_url}-{limit}"
        line = f"ulimit -n {limit}; exec {TOOL} {words}"
        done = subprocess.run(["sh", "-c", line], env=environment(store), text=True, capture_output=True)
        if done.returncode == 0:
            break
        assert said(done, 69).endswith(("ulimit -n 1024\n", "ulimit -n 1024, then try again\n")), (limit, done.stderr)
    assert limit > 5 and done.returncode == 0
