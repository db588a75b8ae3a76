"""The jobs that test_steps.py runs, and what their runs have recorded."""

from __future__ import annotations

from pathlib import Path

from nightlatch.ledger import open_for
from tests.support import python_jobs

JOBS = """
import asyncio, os, pathlib, sys, time
import nightlatch

OUT = pathlib.Path(os.environ["OUT"])

def note(*words):
    with OUT.open("a") as out:
        out.write(" ".join(map(str, words)) + "\\n")

def add(a, b):
    note("add", a, b)
    return a + b

def pair(name):
    note("pair", name)
    return (name, {"length": len(name)})

async def later(name):
    await asyncio.sleep(0)
    note("later", name)
    return name.upper()

def dies_first(what=None):
    if nightlatch.current().attempt == 1:
        raise SystemExit(9)

@nightlatch.job(key="k")
def two_steps():
    run = nightlatch.current()
    total = run.step("sum", add, 1, b=2)
    shown = run.step("pair", pair, "ü")
    dies_first()
    note("got", total, shown)

@nightlatch.job(key="k")
async def two_async_steps():
    run = nightlatch.current()
    shown = await asyncio.gather(run.step("a", later, "a"), run.step("b", later, "b"))
    dies_first()
    note("got", shown)

@nightlatch.job(key="k")
def unserialisable():
    run = nightlatch.current()
    run.step("good", add, 1, 2)
    run.step("bad", object)

class Flaky(Exception):
    def __init__(self, status, after=""):
        self.response = type("R", (), {"status_code": status, "headers": {"Retry-After": after}})()

failures = []

def flaky(status, times):
    failures.append(status)
    note("try", status)
    if failures.count(status) <= times:
        raise Flaky(status, "0.05")
    return status

@nightlatch.job(key="k")
def retried():
    run = nightlatch.current()
    run.step("passing", flaky, 429, 2, retry=lambda error, tries: 0.01 if tries < 3 else None)
    began = time.monotonic()
    run.step("asked", flaky, 503, 1, retry=3)
    note("waited", time.monotonic() - began >= 0.05)
    run.step("permanent", flaky, 403, 1, retry=3)

@nightlatch.job(key="k")
def reused():
    run = nightlatch.current()
    assert [run.step("sum", add, 1, 2) for _ in range(2)] == [3, 3]
    run.step("sum", add, 1, 3)

@nightlatch.job(key="k")
def looped():
    run = nightlatch.current()
    def sums(): return run.step("sums", lambda: add(1, add(2, 3)))
    assert [sums(), sums()] == [6, 6]
    for number in range(2):
        run.step("number", lambda: add(number, 1))

class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no text")

@nightlatch.job(key="k")
def mute():
    def fails(number):
        note("page", number)
        if number == 1:
            raise Mute
        return number
    note("results", *nightlatch.current().map(fails, range(3), failures="return"))

def page(item):
    note("page", item["slug"])
    if item.get("fails") and nightlatch.current().attempt == 1:
        raise ValueError("no such page")
    return item["slug"] + "!"

@nightlatch.job(key="k")
def mapped(slugs, fails=(), concurrency=1):
    items = [{"slug": slug, "fails": slug in fails} for slug in slugs]
    results = nightlatch.current().map(page, items, key="{slug}", concurrency=concurrency)
    note("results", *results)

async def page_async(slug):
    await asyncio.sleep(0.001)
    return page({"slug": slug})

@nightlatch.job(key="k")
async def mapped_async(slugs):
    run = nightlatch.current()
    note("results", *await run.map(page_async, slugs, concurrency=4))
    note("again", *run.map(page, [{"slug": slug} for slug in slugs], key=lambda item: item["slug"]))
    dies_first()

@nightlatch.job(key="k")
def returned():
    items = [{"slug": "a"}, {}, {"slug": "b", "fails": True}, {"slug": "a"}]
    results = nightlatch.current().map(page, items, key="{slug}", failures="return")
    note("results", *results)
    for failed in results.failed:
        note("failed", repr(failed))
    note("duplicates", *results.duplicates)

def wrong_password(number):
    note("page", number)
    raise PermissionError(f"401 for {number}")

@nightlatch.job(key="k")
def burning():
    nightlatch.current().map(wrong_password, range(200), concurrency=2)

def poison(number):
    note("page", number)
    if number == 2 and nightlatch.current().attempt < 5:
        os.kill(os.getpid(), 9)

@nightlatch.job(key="k")
def poisoned():
    nightlatch.current().map(poison, range(4))

@nightlatch.job(key="k")
def stopped():
    def stops(number):
        note("page", number)
        if number == 2:
            raise nightlatch.LeaseLost("taken", reason="taken")
    nightlatch.current().map(stops, range(50), concurrency=2, failures="return")
    note("went on")

@nightlatch.job(key="k")
async def stopped_async():
    async def stops(number):
        note("page", number)
        await asyncio.sleep(0)
        if number == 2:
            raise nightlatch.LeaseLost("taken", reason="taken")
    await nightlatch.current().map(stops, range(50), concurrency=2, failures="return")
    note("went on")

@nightlatch.job(key="k")
async def cancelled():
    async def page(number):
        if number == 1:
            inner = asyncio.ensure_future(asyncio.sleep(600))
            inner.cancel()
            await inner
        return number
    run = nightlatch.current()
    results = await run.map(page, range(4), concurrency=2, failures="return")
    note("results", *results, *results.failed)
    try:
        async with asyncio.timeout(0.1):
            await run.map(asyncio.sleep, [600, 601], concurrency=2, failures="return")
    except TimeoutError:
        note("cancelled")
"""


class Jobs(python_jobs.Jobs):
    def __init__(self, folder: Path, store: str) -> None:
        super().__init__(folder, store, JOBS)

    def steps(self, job: str, status: str) -> dict[str, str]:
        ledger = open_for(self.store)
        run = ledger.find(job, "k")
        assert run
        said = {entry.facts["key"]: entry for entry in ledger.step_log.entries(run.id)}
        last = {key: entry for key, entry in said.items() if entry.kind == f"step-{status}"}
        return {key: entry.facts.get("reason", "") for key, entry in last.items()}
