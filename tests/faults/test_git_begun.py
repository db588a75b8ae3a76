"""Machines that share a git store, each with a ledger of its own: what one began, the others do not repeat silently."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from nightlatch.core.model import Begun
from nightlatch.errors import InDoubt
from nightlatch.ledger import open_for
from tests.faults.test_git import lose_the_next_reply
from tests.support import programs
from tests.support.git_remote import Remote, take

POST = ["sh", "-c", 'echo "$NIGHTLATCH_TOKEN" >> "$0"; exec sleep "$1"']


class Machine:
    """A state folder, and so a ledger, of its own; and the world that both machines post to."""

    def __init__(self, remote: Remote, tmp_path: Path, name: str) -> None:
        self.remote, self.posts, self.mark = remote, tmp_path / "posts", f"machine={tmp_path}/{name}"
        self.env = {"XDG_STATE_HOME": str(tmp_path / name), "MACHINE": self.mark}

    def __call__(self, *words: str) -> tuple[int, str]:
        done = programs.nightlatch(self.remote.store_url, *words, env=self.env)
        return done.returncode, done.stdout + done.stderr

    def run(self, key: str, *options: str, job: str = "posts") -> int:
        return self("run", job, "--key", key, *options, "--", *POST, str(self.posts), "0")[0]

    def die_after_posting(self, key: str, *options: str) -> None:
        before = posted(self)
        words = ["run", "posts", "--key", key, *options, "--", *POST, str(self.posts), "600"]
        process = programs.start(self.remote.store_url, *words, env=self.env)
        programs.until(lambda: posted(self) > before or process.poll() is not None)
        assert process.poll() is None, process.communicate()
        programs.kill_all(self.mark)
        process.communicate()


def posted(machine: Machine) -> int:
    return len(machine.posts.read_text().split()) if machine.posts.exists() else 0


@pytest.fixture
def machines(remote: Remote, tmp_path: Path) -> tuple[Machine, Machine]:
    return Machine(remote, tmp_path, "a"), Machine(remote, tmp_path, "b")


@pytest.fixture
def file_machines(file_remote: Remote, tmp_path: Path) -> tuple[Machine, Machine]:
    return Machine(file_remote, tmp_path, "a"), Machine(file_remote, tmp_path, "b")


def test_what_died_on_one_machine_is_not_repeated_silently_on_another(machines: tuple[Machine, Machine]) -> None:
    a, b = machines
    a.die_after_posting("k", "--lost", "doubt")
    assert b.run("other") == 0, "another key of the job does not wait"
    assert b.run("other2") == 0
    for _ in range(2):
        assert b.run("k", "--lost", "doubt") == 76
    assert posted(b) == 3

    assert b.run("k2", "--lost", "doubt") == 0, "nor does it take the doubt with it"
    assert a.run("k", "--lost", "doubt") == 76
    assert posted(a) == 4


def test_with_lost_again_the_other_machine_goes_on(
    file_machines: tuple[Machine, Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = file_machines
    a.die_after_posting("k", "--lost", "again")
    assert b.run("k", "--lost", "again") == 0
    assert posted(b) == 2
    assert a.run("k", "--lost", "doubt") == 0, "done"
    assert posted(a) == 2
    record = b.remote.connect().read("posts")
    assert record and record.begun == (), "what has ended is not listed"
    monkeypatch.setenv("XDG_STATE_HOME", b.env["XDG_STATE_HOME"])
    entries = [entry.kind for entry in open_for(b.remote.store_url).journal.of_job("posts")]
    assert entries == ["opened", "begun-elsewhere", "ended"], "the job's chain shows it"


@pytest.mark.parametrize("resolving", ["a", "b"])
@pytest.mark.parametrize("outcome", ["done", "failed", "again"])
def test_every_machine_shows_it_until_a_person_resolves_it_on_one_of_them(
    file_machines: tuple[Machine, Machine], outcome: str, resolving: str
) -> None:
    a, b = file_machines
    a.die_after_posting("k", "--lost", "doubt")
    for machine in (a, b):
        assert " k: " in machine("status")[1].partition("needs you")[2]
        assert "k" in json.loads(machine("lease", "show", "posts", "--json")[1])["begun"][0]["key"]
        assert machine("show", "posts")[1].count("resolve") >= 1
    assert b.run("k", "--lost", "doubt") == 76
    assert a.run("k", "--lost", "doubt") == 76
    decider, other = (a, b) if resolving == "a" else (b, a)
    what = json.loads(decider("show", "posts", "--json")[1])["run"]

    assert decider("resolve", what, outcome)[0] == 0

    for machine in (decider, other):
        shown = json.loads(machine("status", "--json")[1])
        asking = [run for run in shown["needs_you"] if run["status"] in ("in-doubt", "lapsed")]
        assert not asking and not shown["elsewhere"], shown
    assert "begun" not in machine("lease", "show", "posts")[1]
    before = posted(a)
    assert other.run("k", "--lost", "doubt") == 0
    assert decider.run("k", "--lost", "doubt") == 0
    assert posted(a) == before + (outcome != "done"), "done by nobody again, or by one of them"


# A person has looked, and then waits for the lease: what they saw is in `run`.
LATE = """
import sys
from nightlatch.cli.reading import open_reader
from nightlatch.errors import RunEnded
from nightlatch.ledger import open_for
from nightlatch.runtime.supervisor.afterwards.decide import resolve

reader = open_reader(None)
run = reader.run(sys.argv[1])
print("seen", flush=True)
sys.stdin.readline()
try:
    print(resolve(run, sys.argv[2], "late", ledger=open_for(reader.url), store=reader.store, wait=20).status)
except RunEnded as ended:
    print(ended)
"""


@pytest.mark.parametrize("late", ["failed", "again"])
def test_a_late_decision_does_not_decide_what_was_begun_after_it_was_drawn(
    file_machines: tuple[Machine, Machine], late: str
) -> None:
    a, b = file_machines
    a.die_after_posting("k", "--lost", "doubt")
    assert b.run("k", "--lost", "doubt") == 76 and a.run("k", "--lost", "doubt") == 76
    its_a, its_b = (json.loads(machine("show", "posts", "--json")[1])["run"] for machine in (a, b))
    words = [LATE, its_b, late]
    person = programs.python(b.remote.store_url, *words, env=b.env, stdin=subprocess.PIPE)
    assert person.stdout and person.stdout.readline() == "seen\n"
    assert a("resolve", its_a, "again")[0] == 0
    a.die_after_posting("k", "--lost", "doubt")

    said, _ = person.communicate("go on\n", timeout=60)

    assert ("decided meanwhile: again" in said) == (late != "again"), said
    assert b.run("k", "--lost", "doubt") == 76, "the second attempt of the first machine may have acted too"
    assert posted(a) == 2


LATE_BY_KEY = """
import sys
from nightlatch.cli.reading import open_reader
from nightlatch.errors import UsageError
from nightlatch.observe import open_decisions
from nightlatch.runtime.supervisor.afterwards.decide import resolve_open
from nightlatch.system.identity import person

reader = open_reader(None)
(one,) = open_decisions.named(reader, "k", job="posts")
print("seen", flush=True)
sys.stdin.readline()
try:
    print(resolve_open(one.key, "failed", person(), of_batch=one.batch, job=one.job, scope=one.scope,
                       began=one.changed, store=reader.store, where=reader.url, wait=20))
except UsageError as refused:
    print(refused)
"""


def test_a_late_decision_by_key_does_not_decide_what_was_begun_after_it_was_drawn(
    file_machines: tuple[Machine, Machine],
) -> None:
    a, b = file_machines
    a.die_after_posting("k", "--lost", "doubt")
    person = programs.python(b.remote.store_url, LATE_BY_KEY, env=b.env, stdin=subprocess.PIPE)
    assert person.stdout and person.stdout.readline() == "seen\n"
    assert a.run("k", "--lost", "doubt") == 76
    its = json.loads(a("show", "posts", "--json")[1])["run"]
    assert a("resolve", its, "again")[0] == 0
    a.die_after_posting("k", "--lost", "doubt")
    said, _ = person.communicate("go on\n", timeout=60)
    assert "Look at it again" in said, said
    assert b.run("k", "--lost", "doubt") == 76
    assert posted(a) == 2


@pytest.mark.parametrize("outcome", ["done", "again"])
def test_a_machine_that_never_heard_of_a_run_can_resolve_it_by_its_key(
    file_machines: tuple[Machine, Machine], outcome: str
) -> None:
    a, b = file_machines
    a.die_after_posting("k", "--lost", "doubt")
    code, said = b("resolve", "k")
    assert code == 76 and "nightlatch resolve k done --job posts" in said.replace(
        f"--store {b.remote.store_url} ", ""
    ), said
    assert b("resolve", "k", outcome, "--job", "posts")[0] == 0
    assert b("resolve", "k", outcome, "--job", "posts")[0] == 64
    assert json.loads(a("status", "--json")[1])["elsewhere"] == []
    assert a.run("k", "--lost", "doubt") == 0
    assert posted(a) == 1 + (outcome != "done")


def test_a_run_that_failed_or_never_started_leaves_nothing_on_the_list(file_machines: tuple[Machine, Machine]) -> None:
    a, b = file_machines
    store = a.remote.store_url
    assert programs.nightlatch(store, "run", "posts", "--key", "k", "--", "false", env=a.env).returncode == 1
    assert programs.nightlatch(store, "run", "posts", "--key", "k", "--", "/no/such", env=a.env).returncode == 127
    record = a.remote.connect().read("posts")
    assert record and record.begun == ()
    assert b.run("k", "--lost", "doubt") == 0


@pytest.mark.parametrize("verb", ["acquire", "settle", "release"])
def test_a_lost_reply_neither_forgets_nor_repeats_what_was_begun(remote: Remote, tmp_path: Path, verb: str) -> None:
    store, other = remote.connect(), remote.connect()
    store.id  # noqa: B018 - made before, so that the next push is the verb's
    left, granted = take(store, "job", begin=Begun(key="left"))
    store.release("job", left)
    if verb == "acquire":
        lose_the_next_reply(remote, tmp_path)
    grant, mine = take(store, "job", ttl=12.0, begin=Begun(key="mine"))
    assert [entry.key for entry in mine.begun] == ["left"]
    listed = {"acquire": ["left", "mine"], "settle": ["left"], "release": ["mine"]}[verb]
    if verb == "settle":
        lose_the_next_reply(remote, tmp_path)
        store.settle("job", grant, "job", "mine")
    elif verb == "release":
        lose_the_next_reply(remote, tmp_path)
        store.release("job", grant, [granted.token])
    assert not (tmp_path / "hang").exists() and not (remote.server and remote.server.lose_replies), "it was not lost"
    record = other.read("job")
    assert record and [entry.key for entry in record.begun] == listed


def test_a_thousand_keys_in_doubt_are_kept_and_the_next_one_is_refused(file_remote: Remote) -> None:
    store = file_remote.connect()
    begun: tuple[Begun, ...] = ()
    for number in range(Begun.MOST):
        begun = Begun.add(begun, Begun(key=f"key-{number}", token=number + 1))
    assert len(begun) == Begun.MOST
    with pytest.raises(InDoubt, match="nightlatch status"):
        Begun.add(begun, Begun(key="one more", token=5000))
    again = Begun.add(begun, Begun(key="key-0", token=5000))
    assert again[-1].attempt == 2 and len(again) == Begun.MOST + 1, "a key that is listed may be tried again"
    for number in range(5001, 5030):
        again = Begun.add(again, Begun(key="key-0", token=number))
    assert sum(entry.key == "key-0" for entry in again) == Begun.MOST_OF_KEY
    # Through a record, as a holder writes it with every renewal.
    grant, _ = take(store, "job", begin=Begun(key="k\t=\n" + "x" * 900))
    store.renew("job", grant, 60.0)
    record = file_remote.connect().read("job")
    assert record and record.begun[0].key == "k\t=\n" + "x" * 900


FAIL = ["sh", "-c", f'echo x >> "$0"; exec {programs.TOOL} fail --retry-after 600']


@pytest.mark.parametrize("then", ["succeeds", "fails", "dies"])
def test_a_run_that_waits_on_one_machine_neither_blocks_the_other_nor_is_repeated_silently(
    file_machines: tuple[Machine, Machine], then: str
) -> None:
    """Its last attempt has failed by itself, and that is known: the key is not left behind, and not on the list."""
    a, b = file_machines
    words = ["run", "posts", "--key", "k", "--retries", "3", "--lost", "doubt", "--", *FAIL, str(a.posts)]
    waits = programs.start(a.remote.store_url, *words, env=a.env)
    programs.until(lambda: (record := a.remote.connect().read("posts")) and not record.grant and posted(a))
    record = b.remote.connect().read("posts")
    assert record and record.begun == () and waits.poll() is None
    assert a("runs")[1].count("waiting") == 1
    assert json.loads(b("status", "--json")[1])["elsewhere"] == [], "nobody has to decide anything"

    if then == "dies":
        b.die_after_posting("k", "--lost", "doubt")
    else:
        assert b("run", "posts", "--key", "k", "--", *(POST if then == "succeeds" else FAIL), str(b.posts), "0")[0] == (
            0 if then == "succeeds" else 75
        )
    assert posted(b) == 2
    run = json.loads(a("runs", "--json")[1])["run"]
    assert a("retry", run)[0] == 0, "as if it were due"
    waits.communicate(timeout=60) if then != "fails" else programs.until(lambda: posted(a) == 3)
    if then != "fails":
        assert (waits.returncode, posted(a)) == ((0, 2) if then == "succeeds" else (76, 2))
    waits.kill()
    waits.communicate()
