"""`nightlatch batch`: running it again is always the right answer."""

from __future__ import annotations

import json
import os
import pty
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from nightlatch.ledger import open_for
from tests.git_server import git_repository
from tests.programs import NIGHTLATCH, alive, carrying, children, environment, kill_all, nightlatch, start, until

DO = ("sh", "-c", 'echo "$1" >> "$0"')


@pytest.fixture
def acts(tmp_path: Path) -> Path:
    """A file with a line for each item that was done."""
    path = tmp_path / "acts"
    path.touch()
    return path


def jsonl(folder: Path, *items: object, name: str = "items.jsonl") -> str:
    path = folder / name
    path.write_text("".join((item if isinstance(item, str) else json.dumps(item)) + "\n" for item in items))
    return str(path)


def ids(*numbers: int) -> list[dict[str, int]]:
    return [{"id": number} for number in numbers]


def test_only_what_is_unfinished_is_done_whatever_the_order(sqlite_url, tmp_path, acts):
    command = ("--key", "{id}", "--", *DO, str(acts), "{id}")
    assert nightlatch(sqlite_url, "batch", "b", jsonl(tmp_path, *ids(1, 2, 3)), *command).returncode == 0
    again = nightlatch(sqlite_url, "batch", "b", jsonl(tmp_path, *ids(5, 3, 1, 4)), *command)
    assert "2 done, 2 skipped, 0 failed, 0 in doubt" in again.stderr
    assert acts.read_text().split() == ["1", "2", "3", "5", "4"]


def test_another_name_is_another_batch(sqlite_url, tmp_path, acts):
    items = jsonl(tmp_path, *ids(1))
    for name in ("a", "b"):
        nightlatch(sqlite_url, "batch", name, items, "--key", "{id}", "--", *DO, str(acts), "{id}")
    assert acts.read_text().split() == ["1", "1"]


def test_failed_items_are_done_by_the_next_start(sqlite_url, tmp_path, acts):
    items, ready = jsonl(tmp_path, *ids(1, 2, 3)), tmp_path / "ready"
    script = f'[ "$1" != 2 ] || [ -e {ready} ] || {{ echo no such luck >&2; exit 3; }}; echo "$1" >> "$0"'
    command = (
        "batch",
        "b",
        items,
        "--key",
        "{id}",
        "--",
        "sh",
        "-c",
        script.replace("{ ", "{{ ", 0),
        str(acts),
        "{id}",
    )
    first = nightlatch(sqlite_url, *command)
    assert first.returncode == 1
    assert "2 (exit code 3: no such luck)" in first.stderr
    assert "go on with what is unfinished: nightlatch batch b" in first.stderr
    ready.touch()
    assert nightlatch(sqlite_url, *command).returncode == 0
    assert sorted(acts.read_text().split()) == ["1", "2", "3"]


def test_lines_that_cannot_be_read_are_named_and_the_rest_goes_on(sqlite_url, tmp_path, acts):
    items = jsonl(
        tmp_path, *ids(1), "{not json", {"name": "x"}, {"id": None}, "\xff".encode("latin1").decode("latin1"), *ids(2)
    )
    done = nightlatch(sqlite_url, "batch", "b", items, "--key", "{id}", "--", *DO, str(acts), "{id}")
    assert done.returncode == 1
    for said in (
        "line 2: not JSON",
        "line 3: there is no field 'id'",
        "line 4: the field 'id' is empty",
        "line 5: not JSON",
    ):
        assert said in done.stderr
    assert acts.read_text().split() == ["1", "2"]


def test_fail_fast_starts_nothing_more(sqlite_url, tmp_path, acts):
    items = jsonl(tmp_path, *ids(1), "{not json", *ids(2))
    done = nightlatch(sqlite_url, "batch", "b", items, "--key", "{id}", "--fail-fast", "--", *DO, str(acts), "{id}")
    assert done.returncode == 1
    assert acts.read_text().split() == ["1"]


@pytest.mark.parametrize(("limit", "tried"), [("2", 3), ("10%", 3), ("100%", 20)])
def test_max_failures_starts_nothing_more(sqlite_url, tmp_path, acts, limit, tried):
    items = jsonl(tmp_path, *ids(*range(20)))
    fail = ("sh", "-c", 'echo "$1" >> "$0"; exit 1', str(acts), "{id}")
    done = nightlatch(sqlite_url, "batch", "b", items, "--key", "{id}", "--max-failures", limit, "--", *fail)
    assert done.returncode == 1
    assert len(acts.read_text().split()) == tried


def test_the_batch_pauses_when_most_items_fail_in_the_same_way(sqlite_url, tmp_path, acts):
    items = jsonl(tmp_path, *ids(*range(200)))
    fail = ("sh", "-c", 'echo "$1" >> "$0"; echo "request $1: bad key" >&2; exit 9', str(acts), "{id}")
    done = nightlatch(sqlite_url, "batch", "b", items, "--key", "{id}", "--", *fail)
    assert done.returncode == 1
    assert "paused: most of the last items failed in the same way (exit code 9: request #: bad key)" in done.stderr
    assert len(acts.read_text().split()) < 20


def test_duplicate_keys_are_reported_and_done_once(sqlite_url, tmp_path, acts):
    items = jsonl(tmp_path, *ids(1, 2, 1, 1))
    done = nightlatch(sqlite_url, "batch", "b", items, "--key", "{id}", "--", *DO, str(acts), "{id}")
    assert done.returncode == 0
    assert "more than once was done once: 1 (line 3), 1 (line 4)" in done.stderr
    assert acts.read_text().split() == ["1", "2"]


def test_keys_with_the_same_text_and_other_parts_are_two(sqlite_url, tmp_path, acts):
    items = jsonl(tmp_path, {"a": "x/y", "b": "z"}, {"a": "x", "b": "y/z"})
    nightlatch(sqlite_url, "batch", "b", items, "--key", "{a}/{b}", "--", *DO, str(acts), "{a}")
    assert acts.read_text().split() == ["x/y", "x"]


def test_a_word_stays_a_word_and_no_shell_looks_at_it(sqlite_url, tmp_path):
    evil = "; touch pwned $(touch pwned) 'a' \"b\" \n c"
    items = jsonl(tmp_path, {"id": 1, "text": evil})
    show = ("printf", "<%s>", "{text}", "{{text}}", "{ x }")
    done = nightlatch(sqlite_url, "batch", "b", items, "--key", "{id}", "--", *show, cwd=tmp_path)
    assert done.stdout == f"<{evil}><{{text}}><{{ x }}>"
    shell = nightlatch(
        sqlite_url, "batch", "c", items, "--key", "{id}", "--shell", "--", "printf %s {text} | cat", cwd=tmp_path
    )
    assert shell.stdout == evil
    assert not (tmp_path / "pwned").exists()


def test_the_item_comes_on_standard_input_and_in_the_environment(sqlite_url, tmp_path):
    item = {"id": 7, "text": "é" * 10_000}
    script = 'echo "$NIGHTLATCH_KEY"; [ "$(cat)" = "$NIGHTLATCH_ITEM" ] && printf %s "$NIGHTLATCH_ITEM"'
    done = nightlatch(sqlite_url, "batch", "b", jsonl(tmp_path, item), "--key", "k-{id}", "--", "sh", "-c", script)
    key, _, content = done.stdout.partition("\n")
    assert key == "k-7" and json.loads(content) == item


def test_csv_and_lines_and_standard_input(sqlite_url, tmp_path):
    table = tmp_path / "people.csv"
    table.write_text('name,mail\n"Smith, Ann",a@example.org\nBob,b@example.org\nshort\n')
    done = nightlatch(sqlite_url, "batch", "csv", str(table), "--key", "{mail}", "--", "echo", "{name}")
    assert done.stdout == "Smith, Ann\nBob\n"
    assert "line 4: 1 fields where the first line names 2" in done.stderr
    lines = nightlatch(sqlite_url, "batch", "lines", "-", "--", "echo", "<{}>", input="a b\n\nc\n")
    assert lines.stdout == "<a b>\n<c>\n"
    piped = nightlatch(
        sqlite_url, "batch", "json", "-", "--key", "{x.y}", "--", "echo", "{x.y}", input='{"x": {"y": 5}}\n'
    )
    assert piped.stdout == "5\n"


def test_a_timeout_ends_the_item_and_all_it_started(sqlite_url, tmp_path):
    items, pid = jsonl(tmp_path, *ids(1)), tmp_path / "pid"
    hang = ("sh", "-c", f"sleep 600 & echo $! > {pid}; wait")
    done = nightlatch(sqlite_url, "batch", "b", items, "--key", "{id}", "--timeout", "400ms", "--", *hang)
    assert done.returncode == 1
    assert "not done after 400ms" in done.stderr
    assert not alive(int(pid.read_text()))


def test_retries_try_again_in_the_same_start(sqlite_url, tmp_path, acts):
    items = jsonl(tmp_path, *ids(1))
    flaky = ("sh", "-c", 'echo x >> "$0"; [ $(wc -l < "$0") -ge 3 ]', str(acts))
    assert nightlatch(sqlite_url, "batch", "b", items, "--key", "{id}", "--retries", "3", "--", *flaky).returncode == 0
    (step,) = open_for(sqlite_url).steps.every("b", "done")
    assert step.tries == 3


def test_items_run_side_by_side(sqlite_url, tmp_path):
    """Each waits for the other: one at a time they would never end."""
    items = jsonl(tmp_path, *ids(0, 1))
    meet = (
        "sh",
        "-c",
        'touch "$0-$1"; until [ -e "$0-$((1 - $1))" ]; do sleep 0.02; done',
        str(tmp_path / "here"),
        "{id}",
    )
    command = ("batch", "b", items, "--key", "{id}", "-j", "2", "--timeout", "50s", "--", *meet)
    assert nightlatch(sqlite_url, *command).returncode == 0


def test_a_second_start_is_75_and_says_who_works_on_it(sqlite_url, tmp_path):
    items, go = jsonl(tmp_path, *ids(1)), tmp_path / "go"
    wait = ("sh", "-c", f"touch {tmp_path}/begun; until [ -e {go} ]; do sleep 0.02; done")
    first = start(sqlite_url, "batch", "b", items, "--key", "{id}", "--", *wait)
    until((tmp_path / "begun").exists)
    second = nightlatch(sqlite_url, "batch", "b", items, "--key", "{id}", "--", "true")
    go.touch()
    assert first.wait(30) == 0
    assert second.returncode == 75
    assert f"pid {first.pid}" in second.stderr


def killed_in_flight(store: str, tmp_path: Path, acts: Path) -> str:
    """A batch of three, killed with its whole tree in the middle of the second."""
    items = jsonl(tmp_path, *ids(1, 2, 3))
    script = 'echo "$1" >> "$0"; [ "$1" != 2 ] || sleep 600'
    words = ("batch", "b", items, "--key", "{id}", "--", "sh", "-c", script, str(acts), "{id}")
    mark = os.urandom(8).hex()
    batch = start(store, *words, env={"MARK": mark})
    until(lambda: "2" in acts.read_text())
    kill_all(mark)
    batch.communicate()
    return items


@pytest.mark.parametrize(("lost", "code", "done"), [("doubt", 76, "1 2 3"), ("again", 0, "1 2 2 3")])
def test_items_in_flight_when_the_batch_died_follow_lost(sqlite_url, tmp_path, acts, lost, code, done):
    items = killed_in_flight(sqlite_url, tmp_path, acts)
    command = ("batch", "b", items, "--key", "{id}", "--lost", lost, "--", *DO, str(acts), "{id}")
    again = nightlatch(sqlite_url, *command)
    assert (again.returncode, acts.read_text().split()) == (code, done.split()), again.stderr
    if lost == "doubt":
        assert "nightlatch resolve 2 done --batch b " in again.stderr


@pytest.mark.parametrize("who", ["driver", "supervisor", "warden"])
def test_whoever_of_them_is_killed_no_item_works_on(sqlite_url, tmp_path, acts, who):
    items = jsonl(tmp_path, *ids(1, 2))
    mark, script = os.urandom(8).hex(), 'echo "$1" >> "$0"; sleep 600'
    words = ("batch", "b", items, "--key", "{id}", "-j", "2", "--", "sh", "-c", script, str(acts), "{id}")
    batch = start(sqlite_url, *words, env={"MARK": mark}, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    until(lambda: len(acts.read_text().split()) == 2)
    (warden,) = children(batch.pid)
    (driver,) = children(warden)
    os.kill({"driver": driver, "supervisor": batch.pid, "warden": warden}[who], signal.SIGKILL)
    assert batch.wait(60) != 0
    until(lambda: not carrying(mark), timeout=60)
    again = nightlatch(sqlite_url, "batch", "b", items, "--key", "{id}", "--", "true")
    assert again.returncode == 76 and "0 done, 0 skipped, 0 failed, 2 in doubt" in again.stderr, again.stderr


@pytest.mark.parametrize(
    ("lost", "code", "said"), [("doubt", 76, "0 failed, 1 in doubt"), ("again", 1, "1 failed, 0 in")]
)
def test_an_item_that_is_killed_from_outside_may_have_acted(sqlite_url, tmp_path, lost, code, said):
    items = jsonl(tmp_path, *ids(1, 2))
    words = (
        "batch",
        "b",
        items,
        "--key",
        "{id}",
        "--lost",
        lost,
        "--",
        "sh",
        "-c",
        "test $0 = 1 || kill -9 $$",
        "{id}",
    )
    did = nightlatch(sqlite_url, *words)
    assert did.returncode == code and f"1 done, 0 skipped, {said}" in did.stderr, did.stderr
    again = nightlatch(sqlite_url, "batch", "b", items, "--key", "{id}", "--lost", lost, "--", "true")
    assert again.returncode == (76 if lost == "doubt" else 0), again.stderr


@pytest.mark.parametrize(("word", "done"), [("done", "1 2 3"), ("again", "1 2 3 2")])
def test_a_person_resolves_an_item_in_doubt(sqlite_url, tmp_path, acts, word, done):
    items = killed_in_flight(sqlite_url, tmp_path, acts)
    command = ("batch", "b", items, "--key", "{id}", "--", *DO, str(acts), "{id}")
    assert nightlatch(sqlite_url, *command).returncode == 76
    assert nightlatch(sqlite_url, "batch", "b", "--resolve", word, "2").stdout == f"2: {word}\n"
    assert nightlatch(sqlite_url, "batch", "b", "--resolve", word).returncode == 64, "nothing is in doubt any more"
    assert nightlatch(sqlite_url, *command).returncode == 0
    assert acts.read_text().split() == done.split()


def test_ctrl_c_finishes_what_is_in_flight_and_says_how_to_go_on(sqlite_url, tmp_path, acts):
    items = jsonl(tmp_path, *ids(1, 2, 3))
    slow = (
        "sh",
        "-c",
        'touch "$0.begun"; until [ -e "$0.go" ]; do sleep 0.02; done; echo "$1" >> "$0"',
        str(acts),
        "{id}",
    )
    pid, terminal = pty.fork()
    if pid == 0:
        program = [*NIGHTLATCH, "batch", "b", items, "--key", "{id}", "--", *slow]
        os.execve(program[0], program, environment(sqlite_url))
    until(Path(f"{acts}.begun").exists)
    os.write(terminal, b"\x03")
    shown = b""
    while b"finishing what is in flight" not in shown:
        shown += os.read(terminal, 1000)
    Path(f"{acts}.go").touch()
    while b"go on with what is unfinished" not in shown:
        shown += os.read(terminal, 1000)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    assert b"1 done, 0 skipped, 0 failed, 0 in doubt (interrupted)" in shown
    assert acts.read_text().split() == ["1"]


def test_an_item_in_doubt_by_its_commands_word_is_asked_again(sqlite_url, tmp_path, acts):
    """`once` inside a batch: what it leaves in doubt is a matter of once, which never repeats."""
    items = jsonl(tmp_path, *ids(1))
    inner = [*NIGHTLATCH, "once", "post/{id}", "--", "sh", "-c", 'echo "$1" >> "$0"; exit 5', str(acts), "{id}"]
    command = ("batch", "b", items, "--key", "{id}", "--", *inner)
    assert [nightlatch(sqlite_url, *command).returncode for _ in range(2)] == [76, 76]
    assert acts.read_text().split() == ["1"]
    nightlatch(sqlite_url, "once", "--resolve", "done", "post/1")
    assert nightlatch(sqlite_url, *command).returncode == 0
    assert acts.read_text().split() == ["1"]


def test_a_dry_run_claims_and_starts_nothing(sqlite_url, tmp_path, acts):
    items = jsonl(tmp_path, *ids(1, 2), "{", *ids(2))
    command = ("batch", "b", items, "--key", "{id}", "--dry-run", "--", *DO, str(acts), "{id}")
    shown = nightlatch(sqlite_url, *command)
    assert shown.returncode == 1
    assert shown.stdout.splitlines()[-1] == "2 to do, 0 done, 0 in doubt, 1 doubled, 1 unreadable"
    assert acts.read_text() == "" and not list(open_for(sqlite_url).runs())


def test_checkpoints_stand_in_the_runs_journal(sqlite_url, tmp_path):
    nightlatch(sqlite_url, "batch", "b", jsonl(tmp_path, *ids(1)), "--key", "{id}", "--", "echo", "hello")
    ledger = open_for(sqlite_url)
    (run,) = ledger.runs()
    steps = [entry.facts for entry in ledger.entries(run.id) if entry.kind == "steps"]
    assert steps == [{"begun": "1"}, {"done": "1"}]
    (step,) = ledger.steps.every("b", "done")
    assert (step.key, step.result, step.exit_code) == ("1", "hello\n", 0)
    assert not ledger.verify().breaks


def test_a_full_disk_starts_nothing_that_is_not_recorded(sqlite_url, tmp_path, acts):
    """The ledger's file may not grow any more: what was begun before is recorded or in doubt, nothing is lost."""
    items = jsonl(tmp_path, *ids(*range(400)))
    command = ("batch", "b", items, "--key", "{id}", "--", *DO, str(acts), "{id}")
    nightlatch(sqlite_url, "batch", "b", jsonl(tmp_path, *ids(0), name="one.jsonl"), "--key", "{id}", "--", "true")
    place = Path(sqlite_url.removeprefix("sqlite:///")).with_name("nightlatch-ledger.db-wal")
    limit = max(place.stat().st_size if place.exists() else 0, 1 << 20) // 1024 + 400
    line = f'ulimit -f {limit}; exec "$@"'
    words = ["bash", "-c", line, "bash", *NIGHTLATCH, *command]
    full = subprocess.run(words, env=environment(sqlite_url), capture_output=True, text=True, timeout=120)
    tried = acts.read_text().split()
    assert full.returncode != 0 and len(tried) < 399, "the limit was never reached"
    assert "disk" in full.stderr
    again = nightlatch(sqlite_url, *command, timeout=120)
    everything = acts.read_text().split()
    assert len(everything) == len(set(everything)), "nothing was done twice"
    waiting = {step.key for step in open_for(sqlite_url).steps.in_doubt("b")}
    assert set(everything) | waiting == set(map(str, range(1, 400)))
    assert again.returncode == (76 if waiting else 0)


def test_on_postgresql(postgres_url, tmp_path, acts):
    items = killed_in_flight(postgres_url, tmp_path, acts)
    command = ("batch", "b", items, "--key", "{id}", "--", *DO, str(acts), "{id}")
    assert nightlatch(postgres_url, *command).returncode == 76
    assert nightlatch(postgres_url, "batch", "b", "--resolve", "done").returncode == 0
    assert nightlatch(postgres_url, *command).returncode == 0
    assert acts.read_text().split() == ["1", "2", "3"]


def test_with_a_ledger_on_each_machine_a_batch_goes_on_where_it_was_begun(tmp_path, acts, monkeypatch):
    git_repository(tmp_path / "shared.git")
    store, items = f"git+file://{tmp_path}/shared.git", jsonl(tmp_path, *ids(1))
    command = ("batch", "b", items, "--key", "{id}", "--", *DO, str(acts), "{id}")
    env = {"XDG_STATE_HOME": str(tmp_path / "here")}
    assert nightlatch(store, *command, env=env).returncode == 0
    elsewhere = (
        "import sys\nfrom nightlatch.system import identity\nidentity._known['machine'] = 'another'\n"
        f"from nightlatch.cli.main import run\nsys.exit(run({list(command)!r}))"
    )
    env = {"XDG_STATE_HOME": str(tmp_path / "there")}
    there = subprocess.run(
        [NIGHTLATCH[0], "-c", elsewhere], env=environment(store, **env), capture_output=True, text=True
    )
    assert there.returncode == 75
    assert "was begun on" in there.stderr and "Go on there, or share a store that has the ledger in it" in there.stderr
    assert acts.read_text().split() == ["1"]


@pytest.mark.parametrize(
    "words",
    [("b",), ("b", "items"), ("b", "items", "--", "true"), ("b", "none.jsonl", "--key", "{id}", "--", "true"),
     ("b", "items", "--key", "same", "--", "true"), ("b", "items", "--key", "{id}", "-j", "0", "--", "true"),
     ("b", "items", "--key", "{id}", "--max-failures", "x", "--", "true"), ("../b", "items", "--", "true"),
     ("b", "items", "--key", "{id}", "--lost", "never", "--", "true"), ("b", "--resolve", "maybe")],
)  # fmt: skip
def test_words_that_make_no_sense_are_refused(sqlite_url, tmp_path, words):
    items = jsonl(tmp_path, *ids(1))
    done = nightlatch(sqlite_url, "batch", *(items if word == "items" else word for word in words))
    assert done.returncode == 64, done.stderr


def test_an_item_says_whether_trying_again_helps(sqlite_url, tmp_path, acts):
    """429 is tried again, 404 is not, although --retries would allow it."""
    items = jsonl(tmp_path, {"id": 1, "status": 429}, {"id": 2, "status": 404})
    words = [*NIGHTLATCH, "fail", "--http"]
    line = 'echo "$1" >> "$0"; shift; [ "$2" = 429 ] && [ -e "$1.$2" ] && exit 0; touch "$1.$2"; shift 2; exec "$@"'
    command = ("sh", "-c", line, str(acts), "{id}", str(acts), "{status}", *words, "{status}")
    done = nightlatch(
        sqlite_url, "batch", "b", items, "--key", "{id}", "--retries", "2", "--backoff", "1ms", "--", *command
    )
    assert done.returncode == 1
    assert sorted(acts.read_text().split()) == ["1", "1", "2"], "in which order is a matter of chance"
    assert "2 (HTTP status 404)" in done.stderr


def test_nothing_is_started_before_a_servers_retry_after_is_over(sqlite_url, tmp_path, acts):
    items = jsonl(tmp_path, *ids(1, 2))
    fail = " ".join(map(shlex.quote, [*NIGHTLATCH, "fail", "--http", "503", "--retry-after", "1.5"]))
    line = f'date +%s.%N >> "$0"; [ -e "$0.told" ] || {{{{ touch "$0.told"; exec {fail}; }}}}'
    command = (
        "batch",
        "b",
        items,
        "--key",
        "{id}",
        "--retries",
        "1",
        "--backoff",
        "1ms",
        "--",
        "sh",
        "-c",
        line,
        str(acts),
    )
    assert nightlatch(sqlite_url, *command).returncode == 0
    first, second, third = map(float, acts.read_text().split())
    assert second - first > 1.5, "neither the item itself nor the one after it"
    assert third - first > 1.5


def test_under_once_a_command_still_reaches_its_batch(sqlite_url, tmp_path):
    fail = [*NIGHTLATCH, "fail", "no such page", "--permanent"]
    once = [*NIGHTLATCH, "once", "post/{id}", "--not-done", "70", "--", *fail]
    done = nightlatch(sqlite_url, "batch", "b", jsonl(tmp_path, *ids(1)), "--key", "{id}", "--", *once)
    assert done.returncode == 1
    assert "1 (no such page)" in done.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [(("--http", "429"), 75), (("--http", "529"), 75), (("--http", "501"), 70), (("--http", "401"), 70), ((), 75),
     (("why", "--permanent"), 70), (("--retry-after", "Wed, 21 Oct 2026 07:28:00 GMT"), 75), (("--http", "200"), 64),
     (("--http", "000"), 75), (("--http", "301"), 70), (("--retry-after", "soon"), 64)],
)  # fmt: skip
def test_fail_exits_with_what_it_says(sqlite_url, words, code):
    assert nightlatch(sqlite_url, "fail", *words).returncode == code


def test_ctrl_c_twice_ends_what_is_in_flight_too(sqlite_url, tmp_path, acts):
    items = jsonl(tmp_path, *ids(1, 2))
    pid, terminal = pty.fork()
    if pid == 0:
        program = [
            *NIGHTLATCH,
            "batch",
            "b",
            items,
            "--key",
            "{id}",
            "--",
            "sh",
            "-c",
            f"touch {acts}.begun; sleep 600",
        ]
        os.execve(program[0], program, environment(sqlite_url))
    until(Path(f"{acts}.begun").exists)
    shown = b""
    for said in (b"finishing what is in flight", b"go on with what is unfinished"):
        os.write(terminal, b"\x03")
        while said not in shown:
            shown += os.read(terminal, 1000)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    assert b"0 done, 0 skipped, 1 failed, 0 in doubt (interrupted)" in shown


@pytest.mark.parametrize("piped", [False, True])
def test_a_picture_in_place_of_items_is_told_in_one_line(sqlite_url, tmp_path, acts, piped):
    picture = tmp_path / "items.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)) * 40)
    words = ("batch", "b", "-" if piped else str(picture), "--", *DO, str(acts), "{}")
    with picture.open("rb") as opened:
        done = nightlatch(sqlite_url, *words, stdin=opened)
    assert (done.returncode, done.stderr.count("\n")) == (64, 1), done.stderr
    assert "binary" in done.stderr and not acts.read_text() and not (tmp_path / "state").exists()
