"""DBOS's side of `bench.dbos`, in an environment of its own: python dbos_side.py URL WHAT COUNT

Prints one JSON line: seconds from the beginning of the work to its end, start-up left out. Default durability, as
little logging as it allows; steps and workflows as its documentation writes them.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

try:  # the system's SQLite may be too old for it
    import pysqlite3

    sys.modules["sqlite3"] = pysqlite3
except ImportError:
    pass

from dbos import DBOS, SetWorkflowID

url, what, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
STOP = int(os.environ.get("STOP", "-1"))
began = 0.0


WARM = 16


@DBOS.step()
def step(number: int) -> int:
    if number == STOP:
        os._exit(9)
    return number


@DBOS.workflow()
def many(count: int) -> int:
    global began  # noqa: PLW0603
    began = time.perf_counter()
    for number in range(count):
        step(number)
    return count


@DBOS.workflow()
def single(number: int) -> int:
    return int(step(number))


@DBOS.step()
async def step_async(number: int) -> int:
    return number


@DBOS.workflow()
async def side_by_side(count: int) -> int:
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await step_async(number)

    await asyncio.gather(*(worker() for _ in range(8)))
    return count


def warm_up() -> None:
    """As on the other side: a few before the clock starts, so that all is imported and connected."""
    if what in ("steps", "map"):
        many(WARM)
    elif what in ("runs", "runs_beside"):
        for number in range(WARM):
            single(number)


def timed() -> float:
    started = time.perf_counter()
    if what == "steps":
        many(count)
    elif what == "runs":
        for number in range(count):
            single(number)
    elif what == "runs_beside":
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(single, range(count)))
    elif what == "map":

        async def go() -> None:
            await side_by_side(count)

        asyncio.run(go())
    elif what == "begin":
        with SetWorkflowID("big"):
            many(count)
    elif what == "resume":  # launching has begun it again
        DBOS.retrieve_workflow("big").get_result()
        return time.perf_counter() - began
    return time.perf_counter() - started


if __name__ == "__main__":
    DBOS(
        config={
            "name": "bench",
            "system_database_url": url,
            "log_level": "ERROR",
            "run_admin_server": False,
            "application_version": "1",
            "executor_id": "bench",
        }
    )
    DBOS.launch()
    warm_up()
    print(json.dumps(timed()), flush=True)
    os._exit(0)
