"""`run.effect`: intent, act, confirm, from a child that has no access to the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from nightlatch.ledger import open_for
from nightlatch.runtime.shared.effect_records import resolve
from tests.support import python_jobs
from tests.support.programs import nightlatch

JOBS = """
import asyncio, os, pathlib, socket, sys, threading, time
import nightlatch

OUT = pathlib.Path(os.environ["OUT"])

def note(*words):
    with OUT.open("a") as out:
        out.write(" ".join(map(str, words)) + "\\n")

def post():
    assert "NIGHTLATCH_STORE" not in os.environ
    note("posted")
    return {"id": 7}

def lost_reply():
    post()
    raise TimeoutError("no reply")

def refused():
    note("tried")
    socket.create_connection(("127.0.0.1", 1), timeout=5)

def not_done():
    note("tried")
    raise nightlatch.NotDone("the form was not sent")

class Teapot(Exception):
    status = 418

def teapot():
    note("tried")
    raise Teapot("short and stout")

@nightlatch.job(key="{name}", lost="again")
def posting(name, do="post", probe=None, input=None, **more):
    found = {"yes": lambda: {"id": 8}, "surely": lambda: True, "no": lambda: None, "never": lambda: 1 / 0}.get(probe)
    if "not_done" in more:
        more["not_done"] = tuple(more["not_done"])
    result = nightlatch.current().effect("post", key="42", do=globals()[do], probe=found, input=input, **more)
    note("got", result)

@nightlatch.job(key="{name}")
async def posting_async(name):
    async def act():
        await asyncio.sleep(0)
        return post()
    note("got", await nightlatch.current().effect("post", key="42", do=act))

@nightlatch.job(key="{name}", lost="again")
async def posting_by_lambda(name, awaited):
    async def act():
        return post()
    run = nightlatch.current()
    if awaited:
        note("got", await run.effect("post", key="42", do=lambda: act(), probe=act))
    else:
        await run.effect("post", key="42", do=lambda: act())

def unserialisable():
    post()
    return object()

def dies():
    post()
    os.kill(os.getpid(), 9)

def leaves():
    post()
    os._exit(0)

def hangs():
    post()
    time.sleep(600)

@nightlatch.job(key="k")
def at_once():
    run, refused = nightlatch.current(), threading.Event()
    def one(number):
        try:
            return run.effect("post", key="42", do=lambda: refused.wait(60))
        except BaseException:
            refused.set()
            raise
    run.map(one, range(2), concurrency=2)

@nightlatch.job(key="k")
def many():
    run = nightlatch.current()
    def one(number):
        return run.effect("post", key=str(number), do=post)
    note("got", *run.map(one, range(20), concurrency=8))

@nightlatch.job(key="k")
async def hurried():
    run, looking = nightlatch.current(), asyncio.Event()
    async def act(): return post()
    try:
        async with asyncio.timeout(0):
            await run.effect("post", key="42", do=act)
    except TimeoutError:
        note("cancelled")
    note("got", await run.effect("post", key="42", do=act))
    async def lost(): lost_reply()
    async def look(): looking.set(); await asyncio.sleep(600)
    looks = asyncio.ensure_future(run.effect("post", key="43", do=lost, probe=look))
    await looking.wait()
    looks.cancel()
    await asyncio.wait([looks])
    note("found", await run.effect("post", key="43", do=lost, probe=lambda: 9))
"""


class Jobs(python_jobs.Jobs):
    def __init__(self, folder: Path, store: str) -> None:
        super().__init__(folder, store, JOBS)

    @property
    def effect(self) -> str:
        found = open_for(self.store).effects.find("once", "post/42")
        return found.status if found else ""


@pytest.fixture
def jobs(tmp_path: Path, ledger_url: str) -> Jobs:
    return Jobs(tmp_path, ledger_url)


@pytest.fixture
def local(tmp_path: Path, sqlite_url: str) -> Jobs:
    return Jobs(tmp_path, sqlite_url)


def test_what_is_done_is_done_once_for_every_run_that_shares_the_store(jobs):
    assert jobs.run("posting.run('a')").startswith("succeeded")
    assert jobs.run("posting.run('b')").startswith("succeeded")
    assert jobs.run("posting_async.run('c')").startswith("succeeded")
    assert jobs.notes == ["posted", *["got {'id': 7}"] * 3]
    once = nightlatch(jobs.store, "once", "post/42", "--", "false")
    assert (once.returncode, once.stdout) == (0, '{"id": 7}')
    assert not open_for(jobs.store).journal.verify().breaks


def test_an_async_effect_is_awaited(local):
    assert local.run("posting_async.run('a')").startswith("succeeded")
    assert local.notes == ["posted", "got {'id': 7}"]


def test_an_effect_that_is_cancelled_before_it_acts_or_while_it_is_probed_is_let_go(local):
    assert local.run("hurried.run()").startswith("succeeded")
    assert local.notes == ["cancelled", "posted", "got {'id': 7}", "posted", "found 9"]


def test_a_coroutine_that_nobody_awaits_is_not_done(local):
    said = local.run("posting_by_lambda.run('a', awaited=False)")
    assert said.startswith("failed 1 NotDone") and "functools.partial" in said
    assert (local.effect, local.notes) == ("failed", [])
    assert local.run("posting_by_lambda.run('b', awaited=True)").startswith("succeeded")
    assert local.notes == ["posted", "got {'id': 7}"]


def test_a_lost_reply_is_in_doubt_ends_the_attempt_and_is_not_repeated(jobs):
    said = jobs.run("posting.run('a', do='lost_reply', retry=3)")
    assert said.startswith("needs-attention 76") and "nightlatch resolve post/42 done" in said
    assert (jobs.effect, jobs.notes) == ("in-doubt", ["posted"])
    assert jobs.run("posting.run('a')").startswith("InDoubt")
    assert jobs.run("posting.run('b')").startswith("needs-attention 76")
    assert jobs.notes == []
    resolve("post/42", "done", store=jobs.store)
    assert jobs.run("posting.run('c')").startswith("succeeded")
    assert jobs.notes == ["got None"]


@pytest.mark.parametrize(
    "how", ["do='refused'", "do='not_done'", "do='teapot', not_done=[418]"], ids=["refused", "NotDone", "status"]
)
def test_what_is_proven_not_done_may_be_tried_again(local, how):
    assert local.run(f"posting.run('a', {how})").startswith("failed 1")
    assert (local.effect, local.notes) == ("failed", ["tried"])
    assert local.run("posting.run('a')").startswith("succeeded")
    assert local.notes == ["posted", "got {'id': 7}"]


@pytest.mark.parametrize(("probe", "status"), [(None, "needs-attention 76"), ("yes", "failed 1")])
def test_exit_code_0_in_the_middle_of_an_effect_is_no_success(local, probe, status):
    said = local.run(f"posting.run('a', do='leaves', probe={probe!r})")
    assert said.startswith(status) and "in the middle of the effect post/42" in said
    assert (local.effect, local.notes) == ("in-doubt", ["posted"])
    if probe:
        assert local.run("posting.run('a', do='leaves', probe='yes')").startswith("succeeded")


def test_a_refused_connection_is_retried_if_wanted(local):
    said = local.run("posting.run('a', do='refused', retry=1)")
    assert "ConnectionRefused" in said and local.notes == ["tried", "tried"]


@pytest.mark.parametrize(
    ("probe", "status", "notes"),
    [
        ("yes", "succeeded", ["posted", "got {'id': 8}"]),
        ("surely", "succeeded", ["posted", "got None"]),
        ("no", "failed 1 NotDone", ["posted"]),
        ("never", "needs-attention 76", ["posted"]),
    ],
)
def test_a_probe_decides_once_it_may_be_believed(local, probe, status, notes):
    said = local.run(f"posting.run('a', do='lost_reply', probe={probe!r}, deadline='1s', settle='50ms')")
    assert said.startswith(status), said
    assert local.notes == notes


def test_other_input_is_refused(local):
    assert local.run("posting.run('a', input='one')").startswith("succeeded")
    assert local.run("posting.run('b', input='two')").startswith("failed 65")
    assert local.run("posting.run('c', input='one')").startswith("succeeded")
    assert local.notes == ["posted", "got {'id': 7}", "got {'id': 7}"]


def test_a_result_that_cannot_be_kept_leaves_it_done(local):
    said = local.run("posting.run('a', do='unserialisable')")
    assert said.startswith("failed 64") and "'post/42'" in said
    assert local.effect == "done"
    assert local.run("posting.run('a')").startswith("succeeded")
    assert local.notes == ["posted", "got None"]


def test_a_child_that_dies_in_the_act_leaves_it_in_doubt(local):
    assert local.run("posting.run('a', do='dies')").startswith("needs-attention 76 in doubt: post/42")
    assert (local.effect, local.notes) == ("in-doubt", ["posted"])


def test_with_a_probe_the_next_attempt_finds_out_what_a_dead_one_did(jobs):
    assert jobs.run("posting.run('a', do='dies', probe='yes', settle='50ms')").startswith("failed 137")
    assert jobs.run("posting.run('a', probe='yes', settle='50ms')").startswith("succeeded")
    assert jobs.notes == ["posted", "got {'id': 8}"]


def test_an_effect_that_is_not_over_in_its_time_is_ended(local):
    said = local.run("posting.run('a', do='hangs', deadline='2s')")
    assert said.startswith("needs-attention") and "did not end in time" in said
    assert (local.effect, local.notes) == ("in-doubt", ["posted"])


def test_two_at_once_under_one_key_are_refused(local):
    said = local.run("at_once.run()")
    assert said.startswith("failed 1") and "by this run" in said


def test_effects_of_many_threads(jobs):
    assert jobs.run("many.run()").startswith("succeeded")
    notes = jobs.notes
    assert notes.count("posted") == 20 and notes[-1] == "got " + " ".join(["{'id': 7}"] * 20)
