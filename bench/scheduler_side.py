"""A peer's side of `bench.scheduler`, in the peer's own environment: python scheduler_side.py WHAT URL COUNT

COUNT jobs are due in one second; prints a JSON line with the seconds that each began late. WHAT: `apscheduler`, in
memory (on SQLite its fourth version stops with "database is locked"), or `dbos`.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime
from typing import Any

try:  # the system's SQLite may be too old for DBOS
    import pysqlite3

    sys.modules["sqlite3"] = pysqlite3
except ImportError:
    pass

what, url, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
late: list[float] = []


def note(at: float) -> None:
    late.append(time.time() - at)


def apscheduler() -> None:
    from apscheduler import Scheduler
    from apscheduler.triggers.interval import IntervalTrigger

    with Scheduler() as scheduler:
        at = float(int(time.time()) + 5 + count // 200)
        when = datetime.fromtimestamp(at, UTC)
        scheduler.configure_task("note", func=note, max_running_jobs=None)
        for _ in range(count):
            scheduler.add_schedule("note", IntervalTrigger(hours=1, start_time=when), args=[at], misfire_grace_time=600)
        assert time.time() < at, "the jobs were not there in time"
        scheduler.start_in_background()
        await_all()
        scheduler.stop()


def dbos() -> None:
    from dbos import DBOS

    @DBOS.workflow()
    def due(at: datetime, context: Any) -> None:
        note(at.timestamp())

    DBOS(config={"name": "bench", "system_database_url": url, "log_level": "ERROR"})
    DBOS.launch()
    second = (int(time.time()) + 20 + count // 100) % 60
    DBOS.apply_schedules(
        [
            {"schedule_name": f"job-{number}", "workflow_fn": due, "schedule": f"{second} * * * * *", "context": None}
            for number in range(count)
        ]
    )
    await_all()


def await_all() -> None:
    while len(late) < count:
        time.sleep(0.05)


{"apscheduler": apscheduler, "dbos": dbos}[what]()
print(json.dumps(late[:count]), flush=True)
