"""Every page and every decision on PostgreSQL, and on git with a ledger of its own."""

from __future__ import annotations

import re
import subprocess

import pytest

from nightlatch.core import statuses
from nightlatch.ledger import open_for
from nightlatch.ledger.decisions import state_of
from nightlatch.runtime.supervisor.run.rows import read_row
from nightlatch.store import url as stores
from nightlatch.system import clock
from nightlatch.web import made_up
from tests.support.pages import PagesProcess, Session
from tests.support.programs import nightlatch, start, until

PAGES = [
    "",
    "jobs",
    "night",
    "usage",
    "usage?by=model",
    "usage.csv",
    "leases",
    "journal",
    "journal?verify=1",
    "metrics",
]
JOBS = """[jobs.build]
command = "echo hello > index.html"
schedule = "every 1s"
workspace = "scratch"
publish = ["index.html={target}"]
stage = "supervised"
promote_after = [1, 1]
timeout = "1m"

[jobs.crawl]
command = "exit 3"

[jobs.daily]
command = "true"
schedule = "0 2 * * *"
"""


def forms(text: str) -> dict[str, dict[str, str]]:
    """Every form of a page by its action and label, with its hidden fields."""
    found = {}
    for action, inside in re.findall(
        r'<form method="post" action="[^"]*/act/(\w+)"[^>]*>(.*?)</form>', text, re.DOTALL
    ):
        label = re.findall(r"<button[^>]*>([^<]*)</button>", inside)[0]
        found[f"{action}: {label}"] = dict(re.findall(r'name="(\w+)" value="([^"]*)"', inside))
    return found


def press(me: Session, path: str, name: str) -> tuple[int, str]:
    """The button of that page, and the one that asks once more."""
    form = forms(me.get(path)[2])[name]
    action = name.partition(":")[0]
    status, headers, text = me.post(f"act/{action}", form)
    if status == 200 and 'name="sure"' in text:
        status, headers, text = me.post(f"act/{action}", {**form, "sure": "1"})
    assert status == 303, text
    return status, headers["location"]


def test_every_page_of_a_busy_night(store_url):
    made_up.make(store_url, nights=2)
    pages = PagesProcess(store_url)
    me, ledger = pages.session(), open_for(store_url)
    runs = [ledger.newest(job) for job in ("articles", "newsletter", "translate", "refactor-agent")]
    for path in [*PAGES, "job/articles", "journal?job=articles", *(f"run/{run.id}" for run in runs if run)]:
        status, _, text = me.get(path)
        assert status == 200, f"{path}: {text}"
    assert "need you" in me.get("")[2]
    pages.end()


def test_every_decision(store_url, tmp_path):
    target = tmp_path / "site" / "index.html"
    target.parent.mkdir()
    (tmp_path / "nightlatch.toml").write_text(JOBS.format(target=target))
    ledger, store = open_for(store_url), stores.connect(store_url)

    def run_of(job: str) -> str:
        run = ledger.newest(job)
        assert run
        return run.id

    def status_of(job: str) -> str:
        run = ledger.newest(job)
        return run.status if run else ""

    assert nightlatch(store_url, "run", "crawl", "--key", "k", "--", "false", cwd=tmp_path).returncode == 1
    slow = start(store_url, "run", "slow", "--key", "s", "--", "sleep", "600", stdin=subprocess.DEVNULL, cwd=tmp_path)
    until(lambda: status_of("slow") == statuses.RUNNING)

    def held() -> bool:
        assert nightlatch(store_url, "tick", cwd=tmp_path).returncode == 0
        return bool(ledger.held("build"))

    until(held)
    pages = PagesProcess(store_url, cwd=tmp_path)
    me = pages.session()

    press(me, f"run/{run_of('slow')}", "cancel: Cancel")
    assert slow.wait(60) == 120
    press(me, f"run/{run_of('crawl')}", "retry: Retry")
    assert any(entry.kind == "retried" and "@" in entry.facts["by"] for entry in ledger.journal.of_job("crawl"))

    assert "hello" not in (target.read_text() if target.exists() else "")
    press(me, f"run/{run_of('build')}", "approve: Approve")
    until(target.exists)
    assert target.read_text() == "hello\n"

    press(me, "job/daily", "pause: Pause")
    assert (row := read_row(store, "daily")) and row.paused
    press(me, "job/daily", "unpause: Unpause")
    assert (row := read_row(store, "daily")) and not row.paused
    press(me, "job/daily", "skip: Skip the next slot")
    until(lambda: "skipped" in me.get("job/daily")[2])
    press(me, "job/daily", "run: Run now")
    until(lambda: status_of("daily") == statuses.SUCCEEDED)
    until(lambda: "promote: Promote to unattended" in forms(me.get("job/build")[2]))
    press(me, "job/build", "promote: Promote to unattended")
    assert (row := read_row(store, "build")) and row.stage == "unattended"
    pages.end()


def test_what_is_in_doubt_is_resolved_by_the_first_of_two_tabs(store_url):
    ledger = open_for(store_url)
    made = made_up.MadeUp(store_url, 0.0)
    run = made.open("newsletter", clock.wall(), "./send.sh")
    writer = made.seal(run, clock.wall())
    writer.finish(statuses.IN_DOUBT, reason="no reply within 30s", elapsed=30.0)
    pages = PagesProcess(store_url)
    one, other = pages.session(), pages.session()
    buttons = forms(one.get("")[2])
    also = forms(other.get("")[2])
    form, second = buttons["resolve: It was done"], also["resolve: It was not"]
    assert one.post("act/resolve", {**form, "sure": "1"})[0] == 303
    status, _, text = other.post("act/resolve", {**second, "sure": "1"})
    assert status == 409 and "succeeded by now" in text
    found = ledger.run(run.id)
    assert found and found.status == statuses.SUCCEEDED and state_of(found) != form["seen"]
    pages.end()


@pytest.fixture(params=["postgres", "git"])  # a file is what all the other tests have
def store_url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
