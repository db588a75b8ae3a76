"""Items of a batch that publish, spend and fail for good."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from nightlatch.ledger import open_for
from tests.support.batches import jsonl
from tests.support.disks import mounting
from tests.support.programs import NIGHTLATCH, alive, children, environment, kill_all, nightlatch, start, until

SPEND = [*NIGHTLATCH, "spend"]


def slugs(*names: str) -> list[dict[str, str]]:
    return [{"slug": name} for name in names]


WRITE = ("sh", "-c", 'echo "$0 by $$" > page.md; pwd', "{slug}")


def workspaces(store: str) -> list[Path]:
    return sorted(Path(store.removeprefix("sqlite:///") + ".d").glob("workspaces/*/*"))


# ── publish ──


def test_each_item_works_in_a_fresh_folder_and_its_result_lands(sqlite_url, tmp_path):
    items = jsonl(tmp_path, *slugs("a", "b"))
    publish = ("--publish", "page.md=out/{slug}.md")
    done = nightlatch(sqlite_url, "batch", "b", items, "--key", "{slug}", *publish, "--", *WRITE, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {path.name: path.read_text()[0] for path in (tmp_path / "out").glob("*.md")} == {"a.md": "a", "b.md": "b"}
    assert len(set(done.stdout.split())) == 2, "each had a folder of its own"
    assert not workspaces(sqlite_url)
    assert nightlatch(sqlite_url, "lease", "show", "b", "--json").stdout.count("file:") == 0, "no gate stays registered"


def test_an_item_may_publish_a_folder_and_a_file(sqlite_url, tmp_path):
    items = jsonl(tmp_path, *slugs("a"))
    publish = ("--publish", "site=out/{slug}/", "--publish", "page.md=out/{slug}.md")
    work = ("sh", "-c", "touch page.md; mkdir site; echo hello > site/index.html")
    done = nightlatch(sqlite_url, "batch", "b", items, "--key", "{slug}", *publish, "--", *work, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out/a/index.html").read_text() == "hello\n" and (tmp_path / "out/a.md").exists()


def test_an_item_that_leaves_nothing_to_publish_is_not_done(sqlite_url, tmp_path):
    items = jsonl(tmp_path, *slugs("a", "b"))
    words = ("batch", "b", items, "--key", "{slug}", "--publish", "page.md=out/{slug}.md", "--")
    done = nightlatch(sqlite_url, *words, "sh", "-c", "[ {slug} = a ] || touch page.md", cwd=tmp_path)
    assert done.returncode == 1
    assert "left no page.md in its workspace" in done.stderr and "1 done, 0 skipped, 1 failed" in done.stderr
    assert [path.name for path in (tmp_path / "out").glob("*.md")] == ["b.md"]
    assert len(workspaces(sqlite_url)) == 1, "kept for a look"
    assert nightlatch(sqlite_url, *words, *WRITE, cwd=tmp_path).returncode == 0
    assert (tmp_path / "out" / "a.md").exists()


@pytest.mark.parametrize("survives", ["landed", "workspace", "nothing"])
def test_a_batch_killed_while_it_published_does_not_publish_twice(sqlite_url, tmp_path, survives):
    """The row has the intent; what the target or the folder holds decides."""
    items, out = jsonl(tmp_path, *slugs("a")), tmp_path / "out" / "a.md"
    words = ("batch", "b", items, "--key", "{slug}", "--publish", f"page.md={tmp_path}/out/{{slug}}.md", "--")
    out.parent.mkdir()
    mark = os.urandom(8).hex()
    # Its supervisor is stopped at the gate: somebody else has the lock beside the target.
    hold = tmp_path / "out" / ".a.md.nightlatch"
    hold.mkdir(mode=0o700)
    with (hold / "lock").open("w") as lock:
        import fcntl

        fcntl.flock(lock, fcntl.LOCK_EX)
        batch = start(sqlite_url, *words, *WRITE, env={"MARK": mark})
        steps = open_for(sqlite_url).items
        until(lambda: [step for step in steps.in_flight("b") if step.result])
        kill_all(mark)
        batch.communicate()
    (step,) = open_for(sqlite_url).items.in_flight("b")
    folder = Path(json.loads(step.result)["workspace"])
    first = (folder / "page.md").read_text()
    if survives == "landed":
        out.write_text(first)
    if survives != "workspace":
        (folder / "page.md").unlink()
    again = nightlatch(sqlite_url, *words, *WRITE)
    assert again.returncode == 0, again.stderr
    assert (out.read_text() == first) == (survives != "nothing")
    assert ("1 done" in again.stderr) == (survives == "nothing")
    assert not open_for(sqlite_url).journal.verify().breaks


@pytest.mark.parametrize(
    ("publish", "said"),
    [("page.md=out.md", "every item would replace the one before it"), ("git", "items cannot push to a branch"),
     ("page.md", "write FROM=TO")],
)  # fmt: skip
def test_a_publish_that_makes_no_sense_is_refused_at_once(sqlite_url, tmp_path, publish, said):
    items = jsonl(tmp_path, *slugs("a"))
    refused = nightlatch(sqlite_url, "batch", "b", items, "--key", "{slug}", "--publish", publish, "--", "true")
    assert refused.returncode == 64 and said in refused.stderr


def test_an_item_cannot_lead_out_of_the_place_it_publishes_to(sqlite_url, tmp_path):
    items = jsonl(tmp_path, *slugs("../../evil", "/etc/evil", "good"))
    words = ("batch", "b", items, "--key", "{slug}", "--publish", f"page.md={tmp_path}/out/{{slug}}.md", "--", *WRITE)
    done = nightlatch(sqlite_url, *words)
    assert done.returncode == 1 and "line 1: '../../evil' cannot be part of a path" in done.stderr
    assert "1 done, 0 skipped, 2 failed" in done.stderr


def test_two_items_that_go_to_one_place_are_told_apart(sqlite_url, tmp_path):
    items = jsonl(tmp_path, {"id": 1, "slug": "same"}, {"id": 2, "slug": "same"})
    words = ("batch", "b", items, "--key", "{id}", "--publish", f"page.md={tmp_path}/{{slug}}.md", "--", *WRITE)
    done = nightlatch(sqlite_url, *words)
    assert (
        done.returncode == 1 and "was published to by the item 1: two items may not write to one place" in done.stderr
    )
    assert "1 done, 0 skipped, 0 failed, 0 in doubt, 1 set aside" in done.stderr


# ── budget ──


def test_an_item_over_its_budget_is_ended_from_outside_and_set_aside(sqlite_url, tmp_path):
    items = jsonl(tmp_path, {"id": 1, "usd": 0.5}, {"id": 2, "usd": 0.01})
    work = ("sh", "-c", 'usd=$1; shift; "$@" usd=$usd; [ $usd = 0.01 ] || sleep 600', "sh", "{usd}", *SPEND)
    budget = ("--budget", "usd/item=0.1,usd=5", "--meter", "report", "--retries", "3")
    done = nightlatch(sqlite_url, "batch", "b", items, "--key", "{id}", *budget, "--", *work)
    assert done.returncode == 1
    assert "1 (its budget usd/item=0.1 is spent" in done.stderr and "1 done" in done.stderr
    assert "1 set aside" in done.stderr
    (run,) = open_for(sqlite_url).history.runs()
    assert run.usage.usd == pytest.approx(0.51)


def test_the_whole_batch_ends_when_its_budget_is_spent(sqlite_url, tmp_path):
    items = jsonl(tmp_path, *({"id": number} for number in range(50)))
    words = ("batch", "b", items, "--key", "{id}", "--budget", "calls=3", "--meter", "report", "--")
    done = nightlatch(sqlite_url, *words, *SPEND, "calls=1")
    assert done.returncode == 121
    (run,) = open_for(sqlite_url).history.runs()
    assert run.status == "over-budget" and 4 <= run.usage.calls < 50


def test_a_batch_that_is_done_when_its_budget_is_passed_is_done(sqlite_url, tmp_path):
    words = ("--key", "{id}", "--budget", "calls=2", "--meter", "report", "--", *SPEND, "calls=1")
    done = nightlatch(sqlite_url, "batch", "b", jsonl(tmp_path, *({"id": number} for number in range(3))), *words)
    assert done.returncode == 0 and "3 done" in done.stderr, done.stderr
    (run,) = open_for(sqlite_url).history.runs()
    assert run.status == "succeeded" and "exceeded its budget calls=2" in run.reason
    more = nightlatch(sqlite_url, "batch", "b", jsonl(tmp_path, *({"id": number} for number in range(5))), *words)
    assert more.returncode == 0 and "2 done, 3 skipped" in more.stderr, more.stderr


def test_usage_is_read_from_what_each_item_prints(sqlite_url, tmp_path):
    items = jsonl(tmp_path, {"id": 1}, {"id": 2})
    agent = ("echo", '{{"type": "result", "total_cost_usd": 0.25, "usage": {{"input_tokens": 7}}}}')
    words = ("batch", "b", items, "--key", "{id}", "--budget", "usd/item=1", "--meter", "output", "--", *agent)
    assert nightlatch(sqlite_url, *words).returncode == 0
    (run,) = open_for(sqlite_url).history.runs()
    assert (run.usage.usd, run.usage.tokens) == (0.5, 14)


def test_a_budget_that_no_call_was_counted_against_is_named(sqlite_url, tmp_path):
    words = ("batch", "b", jsonl(tmp_path, {"id": 1}), "--key", "{id}", "--budget", "usd=1", "--", "true")
    done = nightlatch(sqlite_url, *words)
    assert done.returncode == 0 and "its budget was not counted" in done.stderr


# ── set aside ──


def test_what_fails_for_good_is_set_aside_until_somebody_says_otherwise(sqlite_url, tmp_path):
    acts = tmp_path / "acts"
    items = jsonl(tmp_path, {"id": 1, "code": 70}, {"id": 2, "code": 1}, {"id": 3, "code": 0})
    words = ("b", items, "--key", "{id}", "--", "sh", "-c", 'echo {id} >> "$0"; exit {code}', str(acts))
    first = nightlatch(sqlite_url, "batch", *words)
    assert first.returncode == 1
    assert "1 done, 0 skipped, 1 failed, 0 in doubt, 1 set aside" in first.stderr
    assert f"to try those set aside too: nightlatch batch --retry-failed b {items}" in first.stderr
    again = nightlatch(sqlite_url, "batch", *words)
    assert again.returncode == 1 and "0 done, 1 skipped, 1 failed, 0 in doubt, 1 set aside" in again.stderr
    assert acts.read_text().split() == ["1", "2", "3", "2"]
    nightlatch(sqlite_url, "batch", "--retry-failed", *words)
    assert acts.read_text().split() == ["1", "2", "3", "2", "1", "2"]
    assert nightlatch(sqlite_url, "resolve", "1", "done", "--batch", "b").returncode == 0
    last = nightlatch(sqlite_url, "batch", *words)
    assert "0 done, 2 skipped, 1 failed, 0 in doubt\n" in last.stderr


def test_what_most_items_fail_of_is_no_items_fault(sqlite_url, tmp_path):
    """A wrong password says 77, which is for good; but when it is put right all of them are to be done."""
    items, ready = jsonl(tmp_path, *({"id": number} for number in range(30))), tmp_path / "ready"
    words = ("batch", "b", items, "--key", "{id}", "--", "sh", "-c", f"[ -e {ready} ] || exit 77")
    paused = nightlatch(sqlite_url, *words)
    assert paused.returncode == 1
    assert "paused: most of the last items failed in the same way" in paused.stderr
    assert "set aside" not in paused.stderr
    ready.touch()
    done = nightlatch(sqlite_url, *words)
    assert done.returncode == 0 and "30 done" in done.stderr, done.stderr


# ── telling ──


def test_the_summary_as_json_has_standard_output_for_itself(sqlite_url, tmp_path):
    items = jsonl(tmp_path, {"id": 1, "code": 0}, {"id": 2, "code": 3}, {"id": 3, "code": 70})
    words = ("batch", "b", items, "--key", "{id}", "--json", "--", "sh", "-c", "echo hello; exit {code}")
    done = nightlatch(sqlite_url, *words)
    report = json.loads(done.stdout)
    assert done.returncode == report["exit_code"] == 1 and report["version"] == 1
    assert (report["batch"], report["done"], report["failed"], report["in_doubt"], report["set_aside"]) == (
        "b",
        1,
        1,
        0,
        1,
    )
    assert [(item["key"], item["status"]) for item in report["items"]] == [("2", "failed"), ("3", "needs-attention")]
    assert "hello" in done.stderr
    (run,) = open_for(sqlite_url).history.runs()
    assert report["run"] == run.id and run.reason == "1 done, 0 skipped, 1 failed, 0 in doubt, 1 set aside"


def on_a_terminal(store: str, *words: str) -> str:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(NIGHTLATCH[0], [*NIGHTLATCH, *words], environment(store, TERM="xterm"))
    shown = b""
    try:
        while data := os.read(terminal, 4096):
            shown += data
    except OSError:
        pass  # how a terminal says that everybody is gone
    os.waitpid(pid, 0)
    return shown.decode()


@pytest.mark.parametrize("store", ["sqlite_url", "postgres_url"])
def test_the_reason_of_an_item_stays_with_it_at_the_next_start(request, store, tmp_path):
    url = request.getfixturevalue(store)
    items = jsonl(tmp_path, *slugs("killed", "refused"))
    refuse = shlex.join([*NIGHTLATCH, "fail", "the post was refused", "--permanent"])
    work = f'[ "$0" = refused ] && exec {refuse}; kill -9 $$'
    for _ in range(2):
        done = nightlatch(url, "batch", "b", items, "--key", "{slug}", "--json", "--", "sh", "-c", work, "{slug}")
        report = {item["key"]: (item["status"], item["reason"]) for item in json.loads(done.stdout)["items"]}
        assert report == {
            "killed": ("in-doubt", "killed from outside"),
            "refused": ("needs-attention", "the post was refused"),
        }
        assert "killed (killed from outside)" in done.stderr and "refused (the post was refused)" in done.stderr


def test_the_bar_tells_that_an_item_waits_for_a_probe(sqlite_url, tmp_path):
    bounds = ("--timeout", "3s", "--settle", "0s", "--wait", "1m", "--probe", "false")
    work = ("--key", "{id}", "--", *NIGHTLATCH, "once", "k", *bounds, "--", "sh", "-c", "exit 5")
    shown = on_a_terminal(sqlite_url, "batch", "b", jsonl(tmp_path, {"id": 1}), *work)
    assert "\r\x1b[Kb 0/1 0%, 1 waiting for a probe" in shown
    assert "1 failed" in shown


def test_a_bar_on_a_terminal_and_plain_lines_elsewhere(sqlite_url, tmp_path):
    items = jsonl(tmp_path, *({"id": number} for number in range(6)))
    work = ("--key", "{id}", "--", "sh", "-c", "sleep 0.15; echo item {id}")
    shown = on_a_terminal(sqlite_url, "batch", "b", items, *work)
    assert re.search(r"\r\x1b\[Kb [1-5]/6 \d\d%, .* left", shown)
    lines = [line.rpartition("\x1b[K")[2].strip() for line in shown.splitlines()]
    assert [line for line in lines if "| item" in line] == [f"{number} | item {number}" for number in range(6)]
    assert "\x1b" not in shown.partition("nightlatch: b: 6 done")[2], "the summary has the last word"
    elsewhere = nightlatch(sqlite_url, "batch", "c", items, *work)
    assert "\x1b" not in elsewhere.stderr + elsewhere.stdout
    kept = nightlatch(sqlite_url, "logs", next(run.id for run in open_for(sqlite_url).history.runs(job="b"))).stdout
    assert "\x1b" not in kept and "%" not in kept


def test_a_supervisor_killed_in_the_middle_leaves_nothing_that_works_on(sqlite_url, tmp_path):
    items, begun = jsonl(tmp_path, *slugs("a")), tmp_path / "begun"
    work = ("sh", "-c", f"echo $$ > {begun}; sleep 600")
    words = ("batch", "b", items, "--key", "{slug}", "--publish", f"x={tmp_path}/{{slug}}", "--", *work)
    batch = start(sqlite_url, *words)
    pid = int(until(lambda: begun.exists() and begun.read_text().strip()))
    os.kill(batch.pid, signal.SIGKILL)
    batch.communicate()
    until(lambda: not alive(pid))
    assert children(batch.pid) == []


# ── what an item leaves behind ──


def test_a_result_that_is_no_text_or_too_long_is_kept_as_far_as_it_can_be(sqlite_url, tmp_path):
    """Nothing of that makes an item fail: it has done its work."""
    items = jsonl(
        tmp_path, {"id": 1, "print": r"printf '\377\376\000x'"}, {"id": 2, "print": "head -c 3000000 /dev/zero"}
    )
    words = ("batch", "b", items, "--key", "{id}", "--shell", "--", "eval {print}")
    done = subprocess.run(
        [*NIGHTLATCH, *words], env=environment(sqlite_url), capture_output=True, timeout=60
    )  # not as text
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"\xff\xfe\x00x") and len(done.stdout) == 3_000_004, "shown as it came"
    results = {step.key: step.result for step in open_for(sqlite_url).items.every("b", "done")}
    assert results["1"].startswith("\\xff\\xfe") and len(results["2"]) <= 4 * 1024
    assert not open_for(sqlite_url).journal.verify().breaks


def test_what_an_item_prints_carries_its_name_but_for_output_that_a_program_reads(sqlite_url, tmp_path):
    items = jsonl(tmp_path, *slugs("a", "b"))
    script = ("sh", "-c", 'echo "out of $0"; printf "one\\ntwo" >&2', "{slug}")
    words = ("batch", "b", items, "--key", "{slug}")
    done = nightlatch(sqlite_url, *words, "--", *script)
    assert done.stdout == "out of a\nout of b\n"
    assert [line for line in done.stderr.splitlines() if " | " in line] == ["a | one", "a | two", "b | one", "b | two"]
    quiet = ("batch", "c", *words[2:], "--quiet", "--", *script)
    assert nightlatch(sqlite_url, *quiet).returncode == 0
    assert "a | out of a\n" in nightlatch(sqlite_url, "logs", "c").stdout, "only the run's record has it"


@mounting
def test_a_disk_that_is_full_where_items_publish_fails_them_by_name_and_the_rest_goes_on(sqlite_url, tmp_path):
    items, place = jsonl(tmp_path, {"id": 1, "kb": 900}, {"id": 2, "kb": 1}), tmp_path / "small"
    place.mkdir()
    words = ["batch", "b", items, "--key", "{id}", "--publish", "page=small/{id}", "--"]
    line = shlex.join([*NIGHTLATCH, *words, "sh", "-c", "head -c {kb}000 /dev/zero > page"])
    script = f"mount -t tmpfs -o size=512k tmpfs {place} && {line}; code=$?; ls {place}; exit $code"
    alone = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script]
    done = subprocess.run(alone, env=environment(sqlite_url), cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stderr
    assert "failed: 1 (" in done.stderr and "No space left on device" in done.stderr
    assert "1 done, 0 skipped, 1 failed" in done.stderr and done.stdout.split() == ["2"]


@mounting
def test_a_disk_that_is_full_where_output_is_kept_starts_nothing(sqlite_url, tmp_path):
    """What is on it then is the item's own complaint; nothing is begun that could not be kept."""
    items, place = jsonl(tmp_path, *({"id": number} for number in range(3))), tmp_path / "small"
    place.mkdir()
    line = shlex.join([*NIGHTLATCH, "batch", "b", items, "--key", "{id}", "--", "sh", "-c", "head -c 400000 /dev/zero"])
    script = f"mount -t tmpfs -o size=256k tmpfs {place} && export TMPDIR={place} && {line}"
    alone = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script]
    done = subprocess.run(alone, env=environment(sqlite_url), cwd=tmp_path, capture_output=True, timeout=60)
    assert done.returncode == 1
    assert b"0 done" in done.stderr and b"3 failed" in done.stderr
    assert nightlatch(sqlite_url, "batch", "b", items, "--key", "{id}", "--", "true").returncode == 0, "nothing is lost"
