"""Once by hand, then watched, then alone: the whole way of a job, and what a held plan is compared with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nightlatch.core.schedule import name_of, named
from nightlatch.ledger import kinds, open_for
from nightlatch.ledger.records import RunRow
from nightlatch.runtime.supervisor.publishing import workspace
from nightlatch.runtime.supervisor.run import approval
from nightlatch.store import url
from nightlatch.testing.expect import until
from tests.support.clones import begun, clone, commit, git
from tests.support.programs import NIGHTLATCH, TOOL, environment, faketime, kill_all, start
from tests.support.servers.git import git_repository
from tests.support.staged import Staged

ARTICLE = "date +%N > article-$NIGHTLATCH_KEY; git add .; git commit -qm 'An article'"


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    made = git_repository(tmp_path / "remote.git")
    begun(made, tmp_path / "first")
    return made


@pytest.fixture
def page(sqlite_url: str, tmp_path: Path) -> Staged:
    """Publishes a file."""
    return Staged(
        sqlite_url, tmp_path, command="echo $NIGHTLATCH_KEY > page", workspace="scratch",
        publish=[f"page={tmp_path}/out"],
    )  # fmt: skip


def plan_of(job: Staged, run: RunRow) -> dict[str, str]:
    return next(one.facts for one in open_for(job.store).journal.of_run(run.id) if one.kind == kinds.PLANNED)


def articles(remote: Path) -> int:
    return len([name for name in git(remote, "ls-tree", "--name-only", "main").split() if name.startswith("article-")])


@pytest.mark.parametrize("kind", ["sqlite", "git"])
def test_the_whole_way(kind: str, sqlite_url: str, remote: Path, tmp_path: Path) -> None:
    """By hand, promoted, three held articles approved, promoted, alone, two stalls, demoted. On git, decided on another
    machine than the one that runs."""
    site = clone(remote, tmp_path / "site")
    store = sqlite_url if kind == "sqlite" else f"git+{remote.as_uri()}"
    here = Staged(
        store, site, {"XDG_STATE_HOME": str(tmp_path / "here")}, command=ARTICLE, workspace="git", publish=["git"],
        stage="manual", schedule="every 1s",
    )  # fmt: skip
    other_machine = {"XDG_STATE_HOME": str(tmp_path / "there")} if kind == "git" else {}
    here.ok("tick")
    assert here("promote", "articles").returncode == 77  # nothing is known of it
    assert "one stage up: nightlatch" in here.ok("run", "articles") and articles(remote) == 1
    here.ok("promote", "articles", env=other_machine)
    os.environ["XDG_STATE_HOME"] = str(tmp_path / "here")
    try:
        for number in range(3):
            run = here.hold()
            assert articles(remote) == number + 1, "nothing lands before the word"
            assert here("run", "articles", "--key", run.key).returncode == 76
            assert here("retry", run.id).returncode == 76
            assert "article-" in here.ok("approve", "articles", "--yes")
            assert articles(remote) == number + 2, "once"
        assert "has earned its next stage" in here.ok("slots")
        here.ok("promote", "articles", env=other_machine)
        assert here.stage() == "unattended"
        alone = here.tick_until_ended()
        assert alone.status == "succeeded" and articles(remote) == 5
        here.write(command="sleep 60", stall="1s", progress=["report"])
        for _ in range(2):
            before = here.runs[0].id
            until(lambda: here("tick") and here.runs[0].id != before, 60, "a slot ran")  # noqa: B023
            assert here.runs[0].status == "stalled"
        assert here.stage() == "supervised", here.row
        assert "demoted" in here.ok("status")
        assert json.loads(here.ok("status", "--json"))["demoted"][0]["why"].startswith("it stalled")
    finally:
        del os.environ["XDG_STATE_HOME"]


def test_a_newer_run_by_hand_stops_the_plan(page: Staged, tmp_path: Path) -> None:
    run = page.hold()
    page.ok("run", "articles", "--new")
    newer = (tmp_path / "out").read_text()
    refused = page("approve", run.id, "--yes")
    assert refused.returncode == 76 and "written to by another run" in refused.stderr
    assert (tmp_path / "out").read_text() == newer and page.runs[0].status == "needs-attention"


def test_an_honest_push_is_followed_and_a_conflict_waits_for_a_person(
    sqlite_url: str, remote: Path, tmp_path: Path
) -> None:
    site = clone(remote, tmp_path / "site")
    page = Staged(sqlite_url, site, command="echo $NIGHTLATCH_KEY > page; git commit -qam x", workspace="git",
                  publish=["git"])  # fmt: skip
    other = clone(remote, tmp_path / "other")
    run = page.hold()
    commit(other, "elsewhere", b"honest\n")
    git(other, "push", "--quiet", "origin", "main")
    page.ok("approve", run.id, "--yes")
    assert {"elsewhere", "page"} <= set(git(remote, "ls-tree", "--name-only", "main").split())
    run = page.hold()
    git(other, "pull", "--quiet", "--rebase", "origin", "main")
    commit(other, "page", b"a conflict\n")
    git(other, "push", "--quiet", "origin", "main")
    before = git(remote, "rev-parse", "main")
    refused = page("approve", run.id, "--yes")
    assert refused.returncode == 76 and git(remote, "rev-parse", "main") == before
    assert Path(plan_of(page, run)["workspace"]).is_dir()


def test_locks_that_a_killed_git_left_in_the_workspace_do_not_stop_an_approval(
    sqlite_url: str, remote: Path, tmp_path: Path
) -> None:
    job = Staged(sqlite_url, clone(remote, tmp_path / "site"), command=ARTICLE, workspace="git", publish=["git"])
    run = job.hold()
    left = Path(plan_of(job, run)["workspace"]) / ".git"
    for lock in ("HEAD.lock", "index.lock", "refs/heads/main.lock"):
        (left / lock).touch()
    job.ok("approve", run.id, "--yes")
    assert articles(remote) == 1


def test_a_file_of_the_workspace_changed_after_the_plan(page: Staged, tmp_path: Path) -> None:
    run = page.hold()
    left = plan_of(page, run)["workspace"]
    (Path(left) / "page").write_text("something else")
    refused = page("approve", run.id, "--yes")
    assert refused.returncode == 76 and "was changed in the workspace" in refused.stderr
    assert not (tmp_path / "out").exists()


def test_the_prompt_edited_after_the_plan(page: Staged, tmp_path: Path) -> None:
    (tmp_path / "prompt.md").write_text("write")
    page.write(command=["sh", "-c", "echo $NIGHTLATCH_KEY > page", "@prompt.md"])
    run = page.hold()
    (tmp_path / "prompt.md").write_text("write something else")
    refused = page("approve", run.id, "--yes")
    assert refused.returncode == 76 and "was edited after its plan" in refused.stderr
    assert not (tmp_path / "out").exists()


def test_what_is_asked_for_inside_a_run_that_holds_its_writes_is_refused(page: Staged, tmp_path: Path) -> None:
    """Also a run inside the run that would publish something."""
    (tmp_path / "items").write_text("a\n")
    out = tmp_path / "landed"
    asked = [
        f"once mail -- touch {out}",
        f"publish page {out}",
        f"run inner --workspace scratch --publish page={out} -- touch page",
        f"batch inner {tmp_path}/items --key {{}} --publish page={out}-{{}} -- touch page",
    ]
    calls = "; ".join(f"{TOOL} {words}; echo $? >> {tmp_path}/codes" for words in asked)
    page.write(command=f"echo x > page; {calls}; {TOOL} run other -- true; echo $? >> {tmp_path}/codes")
    page.hold()
    assert (tmp_path / "codes").read_text().split() == ["77"] * len(asked) + ["0"]
    assert not list(tmp_path.glob("landed*"))


def test_a_job_that_publishes_nothing_waits_unstarted(sqlite_url: str, tmp_path: Path) -> None:
    job = Staged(sqlite_url, tmp_path, command=f"echo x >> {tmp_path}/ran")
    run = job.hold()
    assert run.attempt == 0 and not (tmp_path / "ran").exists()
    assert job("run", "articles", "--key", run.key).returncode == 76
    job.ok("approve", "articles", "--yes")
    assert (tmp_path / "ran").read_text() == "x\n" and job.row.clean == 1


def test_a_job_that_was_edited_while_it_waited_unstarted_does_not_start(sqlite_url: str, tmp_path: Path) -> None:
    """What was looked at is what runs: here a prompt that nobody sees on the screen."""
    (tmp_path / "prompt.md").write_text("touch one")
    job = Staged(sqlite_url, tmp_path, command=["sh", "-c", f'cd {tmp_path}; eval "$0"', "@prompt.md"])
    run = job.hold()
    (tmp_path / "prompt.md").write_text("touch two")
    refused = job("approve", run.id, "--yes")
    assert refused.returncode == 76 and "was edited" in refused.stderr
    assert job.runs[0].status == "needs-attention" and not (tmp_path / "two").exists()
    job.ok("retry", run.id)
    assert (tmp_path / "two").exists()


def test_a_start_that_was_approved_and_killed_may_have_acted(sqlite_url: str, tmp_path: Path) -> None:
    """Unlike a plan, which is published at most once, a plain command is not repeated silently."""
    mark = {"STARTED_BY_TEST": str(tmp_path)}
    job = Staged(
        sqlite_url, tmp_path, mark, command=f"echo x >> {tmp_path}/ran; sleep 600", hold="start", timeout="20m"
    )
    run = job.hold()
    approving = start(sqlite_url, "approve", run.id, "--yes", env=mark, cwd=tmp_path)
    until((tmp_path / "ran").exists, 60, "it has begun")
    kill_all(f"STARTED_BY_TEST={tmp_path}")
    approving.communicate()
    assert job("approve", run.id, "--yes").returncode == 76
    assert job.runs[0].status == "in-doubt" and (tmp_path / "ran").read_text() == "x\n"
    job("tick")
    assert job.row.claim and job.row.claim.ended == "in-doubt" and job.stage() == "manual"


def test_where_the_row_decides_its_word_counts_for_a_ledger_that_does_not_know_it_yet(
    remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`approve` was killed between the two."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    site = clone(remote, tmp_path / "site")
    job = Staged(f"git+{remote.as_uri()}", site, command=ARTICLE, workspace="git", publish=["git"])
    run = job.hold()
    store, ledger = url.connect(job.store), open_for(job.store)
    assert approval.take_over(store, ledger, run, "me")
    assert articles(remote) == 0
    job.ok("run", "articles", "--key", run.key)
    assert articles(remote) == 1 and job.runs[0].status == "succeeded"


def test_a_plan_that_is_refused_never_lands(page: Staged, tmp_path: Path) -> None:
    run = page.hold()
    left = plan_of(page, run)["workspace"]
    page.ok("cancel", run.id)
    assert page("approve", run.id, "--yes").returncode == 64 and not (tmp_path / "out").exists()
    assert page.row.claim and page.row.claim.ended == "cancelled" and not Path(left).exists()
    assert page.hold().id != run.id, "the next slot runs"


def test_while_one_waits_slots_are_skipped_and_expired_it_goes(page: Staged, tmp_path: Path) -> None:
    run = page.hold()
    left = Path(plan_of(page, run)["workspace"])
    until(lambda: page("tick") and "skipped: waits" in page.ok("slots", "articles"), 60, "a slot was skipped")
    page("tick", env=faketime("+8d"))
    expired = open_for(page.store).run(run.id)
    assert expired and expired.status == "cancelled" and "in time" in expired.reason and not left.exists()
    assert page("approve", run.id, "--yes").returncode == 64 and not (tmp_path / "out").exists()
    assert page.row.claim and page.row.claim.ended == "cancelled"


def test_a_held_workspace_survives_eight_days_a_large_neighbour_and_prune(
    page: Staged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a neighbour that nobody waits for goes by each of them."""
    monkeypatch.setattr(workspace, "KEPT_SIZE", 1 << 20)
    page.write(expires="30d")
    run = page.hold()
    left = Path(plan_of(page, run)["workspace"])
    folder, later = url.connect(page.store).folder, faketime("+8d")

    def neighbour(name: str, size: int, age: float) -> Path:
        made = left.parent / name
        made.mkdir()
        (made / "large").write_bytes(os.urandom(size))
        os.utime(made, (time.time() - age,) * 2)
        return made

    os.utime(left, (time.time() - 8 * 86400,) * 2)
    small, large = neighbour("small", 1 << 10, 7200), neighbour("large", 2 << 20, 3600)  # what is younger stays longer
    workspace.clean(folder)
    assert left.is_dir() and not small.exists() and not large.exists()
    old = neighbour("old", 10, 0)
    page.ok("prune", "--keep", "1s", env=later)
    assert left.is_dir() and not old.exists()
    page.ok("approve", run.id, "--yes", env=later)
    assert (tmp_path / "out").read_text() == f"{run.key}\n"
    assert not left.exists() and workspace.pins(folder) == set()


def test_hermes_agent_107485_a_run_by_hand_eats_no_slot(page: Staged) -> None:
    """There a run by hand was booked as the next slot: that one was skipped without a word, and so was the next run by
    hand."""
    page.write(stage="unattended")
    page.ok("tick")
    before = page.row.slot
    page.ok("run", "articles")
    page.ok("run", "articles")
    assert page.row.slot == before and len(page.runs) == 2 and not any(run.slot for run in page.runs)
    by_slot = page.tick_until_ended()
    assert by_slot.slot and by_slot.status == "succeeded"


def test_claude_code_82818_a_slot_that_was_run_by_hand_does_not_run_again(page: Staged, tmp_path: Path) -> None:
    """There a task that was run ahead of its time stayed armed, and did all of its work once more. Here the slot that is
    named by hand is that slot, and only that one."""
    page.write(stage="unattended", schedule="every 4s", command=f"echo $NIGHTLATCH_KEY | tee -a {tmp_path}/ran > page")
    page.ok("tick")
    slot = name_of(page.row.next_due)
    page.ok("run", "articles", "--key", slot)
    until(lambda: page("tick") and page.row.slot > named(slot), 60, "a later slot has come")
    ran = (tmp_path / "ran").read_text().split()
    assert ran.count(slot) == 1 and len(ran) > 1, ran


def test_codex_25229_what_needs_approval_is_not_denied_for_good(sqlite_url: str, tmp_path: Path) -> None:
    """There an automation had nobody to ask: what needed approval failed, each night, and no setting changed that.
    Here it is refused with the way out, and that leads out."""
    command = f"{TOOL} once mail-$NIGHTLATCH_KEY -- sh -c 'echo x >> {tmp_path}/sent' 2> {tmp_path}/why; echo x > page"
    job = Staged(sqlite_url, tmp_path, command=command, workspace="scratch", publish=[f"page={tmp_path}/out"])
    job.ok("cancel", job.hold().id)
    assert 'hold = "start"' in (tmp_path / "why").read_text() and not (tmp_path / "sent").exists()
    job.write(hold="start")
    run = job.hold()
    assert run.attempt == 0 and not (tmp_path / "sent").exists()
    job.ok("approve", run.id, "--yes")
    assert (tmp_path / "sent").read_text() == "x\n" and (tmp_path / "out").exists()


def test_codex_24327_a_run_that_can_ask_nobody_does_not_wait_for_an_answer(page: Staged, tmp_path: Path) -> None:
    """Its question finds no terminal and no input, even if the scheduler was started on one."""
    ask = "{ (read -r word < /dev/tty) 2> /dev/null || read -r word; } && echo yes > page || echo nobody > page"
    page.write(stage="unattended", schedule="every 2s", command=ask)
    on_a_terminal = [sys.executable, "-c", "import pty, sys; pty.spawn(sys.argv[1:])", *NIGHTLATCH, "tick"]

    def ticked() -> bool:
        subprocess.run(on_a_terminal, env=environment(page.store), cwd=tmp_path, stdin=subprocess.DEVNULL, check=True)
        return (tmp_path / "out").exists()

    until(ticked, 60, "a slot was run")
    assert (tmp_path / "out").read_text() == "nobody\n"


def test_codex_42696_the_last_step_needs_a_click(page: Staged, tmp_path: Path) -> None:
    """There the work was done in time, and the click came too late or never, without a warning when it was set up. Here
    `check` says so before, and the click comes hours later: nothing is computed again."""
    page.ok("tick")
    assert "wait for nightlatch approve" in page.ok("check")
    run = page.hold()
    page.ok("approve", run.id, "--yes", env=faketime("+7h"))
    assert (tmp_path / "out").read_text() == f"{run.key}\n"
    started = [one for one in open_for(page.store).journal.of_run(run.id) if one.kind == kinds.WORKSPACE]
    assert len(started) == 1


def test_nobody_there_to_ask_is_an_error_not_a_yes(page: Staged, tmp_path: Path) -> None:
    run = page.hold()
    asked = page("approve", run.id)
    assert asked.returncode == 64 and "--yes" in asked.stderr and not (tmp_path / "out").exists()


def test_on_a_terminal_an_approval_ends_with_the_short_line(page: Staged, sqlite_url: str, tmp_path: Path) -> None:
    run = page.hold()
    ours, theirs = os.openpty()
    words = [*NIGHTLATCH, "approve", run.id, "--yes"]
    subprocess.run(
        words, env=environment(sqlite_url), cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=theirs, check=True
    )
    os.close(theirs)
    assert os.read(ours, 1000).decode().startswith("articles: succeeded")
