"""publish, gate, and --gate: what a script and a person see."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import nightlatch
from nightlatch import gates
from nightlatch.core.model import Mark
from nightlatch.runtime.child.inherited import Inherited
from tests.support.programs import NIGHTLATCH
from tests.support.programs import nightlatch as command


@pytest.fixture
def new(tmp_path: Path) -> Path:
    path = tmp_path / "new.html"
    path.write_text("new")
    return path


def acquired(store: str, *words: str) -> dict[str, str]:
    """A lease as `eval "$(nightlatch lease acquire job)"` leaves it in the environment."""
    done = command(store, "lease", "acquire", "job", "--json", *words)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    return {f"NIGHTLATCH_{word.upper()}": str(facts[word]) for word in ("lease", "token", "grant")}


def token_at(path: Path, name: str = "job") -> int:
    return gates.File(path).standing()[name].mark.token


def test_publish_inside_a_lock(sqlite_url, tmp_path, new):
    done = command(sqlite_url, "lock", "job", "--", *NIGHTLATCH, "publish", str(new), str(tmp_path / "out"))
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out").read_text() == "new"


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_publish_after_lease_acquire(sqlite_url, tmp_path, new, scheme):
    lease = acquired(sqlite_url)
    assert command(sqlite_url, "publish", str(new), f"{scheme}{tmp_path}/out", env=lease).returncode == 0
    assert str(token_at(tmp_path / "out")) == lease["NIGHTLATCH_TOKEN"]


def test_publish_without_a_lease_says_where_to_get_one(sqlite_url, tmp_path, new):
    done = command(sqlite_url, "publish", str(new), str(tmp_path / "out"))
    assert done.returncode == 64
    assert "nightlatch lock" in done.stderr
    assert not (tmp_path / "out").exists()


def test_publish_under_a_lease_that_moved_on_is_123(sqlite_url, tmp_path, new):
    lease = acquired(sqlite_url)
    assert command(sqlite_url, "lease", "release", "job", env=lease).returncode == 0
    assert command(sqlite_url, "publish", str(new), str(tmp_path / "out"), env=lease).returncode == 123
    acquired(sqlite_url)
    assert command(sqlite_url, "publish", str(new), str(tmp_path / "out"), env=lease).returncode == 123
    assert not (tmp_path / "out").exists()


def test_a_publish_overtaken_after_the_store_was_asked_is_73(sqlite_url, tmp_path, new, monkeypatch):
    """The takeover happens between the store's answer and the write."""
    from nightlatch.cli.main import run

    for word, text in acquired(sqlite_url).items():
        monkeypatch.setenv(word, text)
    monkeypatch.setenv("NIGHTLATCH_STORE", sqlite_url)
    use = Inherited.use

    def overtaken(self: Inherited, gate: gates.File) -> None:
        use(self, gate)
        ahead = Mark(store=self.store.id, name="job", token=self.token + 1, grant="f" * 32)
        gates.File(gate.path).seal(ahead, "the next")

    monkeypatch.setattr(Inherited, "use", overtaken)
    assert run(["publish", str(new), str(tmp_path / "out")]) == 73
    assert not (tmp_path / "out").exists()


def test_a_mark_that_the_store_has_forgotten_stops_everybody_until_a_person_raises_the_token(sqlite_url, tmp_path, new):
    """The store was restored from before it. Work that has begun under the lower token must not overtake it."""
    lease, path = acquired(sqlite_url), tmp_path / "out"
    store = nightlatch.connect(sqlite_url)
    ahead = Mark(store=store.id, name="job", token=int(lease["NIGHTLATCH_TOKEN"]) + 10**9, grant="f" * 32)
    gates.File(path).seal(ahead, "forgotten")
    refused = command(sqlite_url, "publish", str(new), str(path), env=lease)
    assert refused.returncode == 73
    assert f"lease raise job --above {ahead.token}" in refused.stderr
    command(sqlite_url, "lease", "release", "job", env=lease)
    for _ in range(2):
        stopped = command(sqlite_url, "lease", "acquire", "job")
        assert stopped.returncode == 73 and f"lease raise job --above {ahead.token}" in stopped.stderr
    assert command(sqlite_url, "lease", "raise", "job", "--above", str(ahead.token)).returncode == 0
    again = acquired(sqlite_url)
    assert int(again["NIGHTLATCH_TOKEN"]) > ahead.token
    assert command(sqlite_url, "publish", str(new), str(path), env=again).returncode == 0


def test_a_folder_is_published_and_rolled_back(sqlite_url, tmp_path, new):
    lease = acquired(sqlite_url)
    site, built = tmp_path / "site", tmp_path / "built"
    built.mkdir()
    for content in ("one", "two"):
        (built / "page").write_text(content)
        assert command(sqlite_url, "publish", str(built), str(site), "--keep", "2", env=lease).returncode == 0
    assert (site / "page").read_text() == "two"
    back = command(sqlite_url, "publish", "--rollback", str(site), "--json", env=lease)
    assert json.loads(back.stdout)["release"] == f"{lease['NIGHTLATCH_TOKEN']}-1"
    assert (site / "page").read_text() == "one"
    assert command(sqlite_url, "publish", "--rollback", str(site), env=lease).returncode == 64


def test_a_plain_folder_is_adopted_when_asked(sqlite_url, tmp_path):
    lease = acquired(sqlite_url)
    site, built = tmp_path / "site", tmp_path / "built"
    site.mkdir()
    built.mkdir()
    refused = command(sqlite_url, "publish", str(built), str(site), env=lease)
    assert refused.returncode == 64
    assert "--adopt" in refused.stderr
    assert command(sqlite_url, "publish", str(built), str(site), "--adopt", env=lease).returncode == 0


@pytest.mark.parametrize(
    "words",
    [["a"], ["a", "b", "c"], ["--rollback", "a", "b"], ["a", "b", "--keep", "0"], ["--rollback", "file"],
     ["new.html", "out", "--adopt"], ["missing", "out"], ["new.html", "out/"]],
    ids=" ".join,
)  # fmt: skip
def test_a_call_that_cannot_be_meant_is_64(sqlite_url, tmp_path, new, words):
    (tmp_path / "file").write_text("")
    assert command(sqlite_url, "publish", *words, env=acquired(sqlite_url), cwd=tmp_path).returncode == 64
    assert not (tmp_path / "out").exists()


def test_lock_seals_its_gates_before_the_command_starts(sqlite_url, tmp_path):
    path = tmp_path / "out"
    words = ["gate", "show", str(path), "--json"]
    done = command(sqlite_url, "lock", "job", "--gate", str(path), "--", *NIGHTLATCH, *words)
    assert done.returncode == 0, done.stderr
    (mark,) = json.loads(done.stdout)["marks"]
    assert (mark["lease"], mark["token"]) == ("job", token_at(path))


def test_lock_does_not_start_the_command_if_a_gate_cannot_be_sealed(sqlite_url, tmp_path):
    path = tmp_path / "out"
    gates.File(path).seal(Mark(store="6" * 32, name="job", token=1, grant="1"), "elsewhere")
    done = command(sqlite_url, "lock", "job", "--gate", str(path), "--", "touch", str(tmp_path / "ran"))
    assert done.returncode == 73
    assert not (tmp_path / "ran").exists()
    record = nightlatch.connect(sqlite_url).read("job")
    assert record is not None and not record.grant


def test_lease_acquire_seals_and_gives_the_lease_back_if_it_cannot(sqlite_url, tmp_path):
    path = tmp_path / "out"
    lease = acquired(sqlite_url, "--gate", str(path))
    assert str(token_at(path)) == lease["NIGHTLATCH_TOKEN"]
    command(sqlite_url, "lease", "release", "job", env=lease)
    gates.File(path).adopt("6" * 32)
    refused = command(sqlite_url, "lease", "acquire", "job")
    assert (refused.returncode, refused.stdout) == (73, "(exit 73)\n")
    record = nightlatch.connect(sqlite_url).read("job")
    assert record is not None and not record.grant


def test_gate_show_of_what_nobody_has_fenced_says_so_and_what_to_do(sqlite_url, tmp_path):
    for name, known in (("nosuch", "(it does not exist)"), ("", "yet: it refuses nobody")):
        shown = command(sqlite_url, "gate", "show", str(tmp_path / name))
        assert shown.returncode == 0 and known in shown.stdout
        assert f"nightlatch lock NAME --gate {tmp_path / name} -- true" in shown.stdout


def test_gate_show_tells_marks_and_refusals(sqlite_url, tmp_path):
    path = tmp_path / "out"
    acquired(sqlite_url, "--gate", str(path))
    other = f"sqlite:///{tmp_path}/other.db"
    assert command(other, "lock", "job", "--gate", str(path), "--", "true").returncode == 73
    shown = command(sqlite_url, "gate", "show", str(path))
    assert shown.returncode == 0
    assert [line.split()[0] for line in shown.stdout.splitlines()] == ["gate", "mark", "refused"]
    assert "another store" in shown.stdout
    facts = json.loads(command(sqlite_url, "gate", "show", str(path), "--json").stdout)
    assert facts["version"] == 1
    assert facts["refusals"][0]["lease"] == "job"


def test_a_gate_nobody_knows_is_64(sqlite_url):
    assert command(sqlite_url, "gate", "show", "ftp://host/file").returncode == 64
    assert command(sqlite_url, "gate", "melt", "x").returncode == 64
