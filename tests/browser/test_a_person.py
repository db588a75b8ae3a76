"""What a person does on the pages: by mouse, on a phone, by keyboard, and without JavaScript."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from nightlatch.core import statuses
from nightlatch.ledger import open_for
from nightlatch.ledger.ledger import Ledger
from nightlatch.ledger.records import RunRow
from nightlatch.system import clock
from nightlatch.web.made_up import MadeUp
from tests.support.pages import PagesProcess
from tests.support.programs import nightlatch, start, until

WAYS: dict[str, dict[str, Any]] = {
    "desktop": {},
    "phone": {"viewport": {"width": 390, "height": 800}, "color_scheme": "dark", "has_touch": True},
    "keyboard": {},
    "no-script": {"java_script_enabled": False},
}


class Hand:
    """Presses what it is told to: by a click, or by the keyboard alone."""

    def __init__(self, page: Any, keyboard: bool) -> None:
        self._page, self._keyboard = page, keyboard

    def press(self, name: str, *, role: str = "button") -> None:
        found = self._page.get_by_role(role, name=name, exact=True).first
        if not self._keyboard:
            found.click()
            return
        found.wait_for()
        for _ in range(120):
            self._page.keyboard.press("Tab")
            if found.evaluate("one => one === document.activeElement"):
                with self._page.expect_navigation():
                    self._page.keyboard.press("Enter")
                return
        raise AssertionError(f"{name} is not reached by the keyboard")


def found(ledger: Ledger, job: str, key: str = "") -> RunRow:
    """The run of the key, or the job's newest."""
    run = ledger.find(job, key) if key else ledger.newest(job)
    assert run
    return run


@pytest.mark.parametrize("way", WAYS)
def test_a_person_resolves_cancels_and_retries(sqlite_url, tmp_path, watched, way):
    assert (
        nightlatch(sqlite_url, "run", "crawl", "--key", "k", "--", "sh", "-c", "echo no feeds; exit 3").returncode == 3
    )
    made = MadeUp(sqlite_url, clock.wall())
    _in_doubt(made)
    slow = start(
        sqlite_url, "run", "slow", "--key", "s", "--", "sh", "-c", "echo begun; sleep 600", stdin=subprocess.DEVNULL
    )
    ledger = open_for(sqlite_url)
    until(lambda: (run := ledger.find("slow", "s")) and run.status == statuses.RUNNING)
    pages = PagesProcess(sqlite_url)
    one = watched(**WAYS[way])
    page = one.open(pages)
    hand = Hand(page, way == "keyboard")
    assert "Two things need you." in page.inner_text("h1")

    hand.press("It was done: newsletter")
    assert "no machine does it again" in page.inner_text("main")  # asked once more, in words
    hand.press("It was done")
    page.wait_for_url("**/run/*")
    assert "succeeded" in page.inner_text(".crumbs")
    assert found(ledger, "newsletter").status == statuses.SUCCEEDED

    page.goto(pages.base)
    hand.press("Retry: crawl")
    page.wait_for_url("**/run/*")
    assert found(ledger, "crawl", "k").status == statuses.PENDING
    assert "@" in next(entry.facts["by"] for entry in ledger.job_entries("crawl") if entry.kind == "retried")

    page.goto(pages.base)
    page.goto(f"{pages.base}run/{found(ledger, 'slow', 's').id}")
    hand.press("Cancel")
    hand.press("Cancel the run")
    page.wait_for_url("**/run/*")
    assert slow.wait(60) == 120
    until(lambda: found(ledger, "slow", "s").status == statuses.CANCELLED)
    if way != "no-script":
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    one.check(pages)
    pages.end()


def _in_doubt(made: MadeUp) -> None:
    made._at = clock.wall()
    run = made.open("newsletter", clock.wall(), "./send.sh")
    writer = made.seal(run, clock.wall())
    writer.finish(statuses.IN_DOUBT, reason="no reply within 30s", elapsed=30.0)


@pytest.mark.parametrize("way", ["phone", "keyboard", "no-script"])
def test_a_person_approves_a_plan_and_promotes_the_job(sqlite_url, tmp_path, watched, way):
    target = tmp_path / "site" / "index.html"
    target.parent.mkdir()
    (tmp_path / "nightlatch.toml").write_text(
        f"""[jobs.build]
command = "echo '<b>hello</b>' > index.html"
schedule = "every 1s"
workspace = "scratch"
publish = ["index.html={target}"]
stage = "supervised"
promote_after = [1, 1]
timeout = "1m"
"""
    )
    ledger = open_for(sqlite_url)

    def held() -> list[RunRow]:
        assert nightlatch(sqlite_url, "tick", cwd=tmp_path).returncode == 0
        return ledger.held("build")

    assert len(until(held)) == 1
    assert not target.exists()
    pages = PagesProcess(sqlite_url, cwd=tmp_path)
    one = watched(**WAYS[way])
    page = one.open(pages)
    hand = Hand(page, way == "keyboard")
    assert "One thing needs you." in page.inner_text("h1")
    hand.press("See the plan", role="link")
    assert str(target) in page.inner_text(".plan")
    hand.press("Approve")
    until(target.exists)
    assert target.read_text() == "<b>hello</b>\n"
    until(lambda: found(ledger, "build").status == statuses.SUCCEEDED)

    def counted() -> bool:  # by the supervisor, after the run has ended
        page.goto(f"{pages.base}job/build")
        return "1 clean run" in page.inner_text(".evidence")

    until(counted)
    hand.press("Promote to unattended")
    page.wait_for_selector(".chip:has-text('unattended')")
    one.check(pages)
    pages.end()


def test_output_grows_in_two_tabs_and_goes_on_at_the_byte_after_the_server_was_killed(sqlite_url, tmp_path, watched):
    more = tmp_path / "more"
    script = f"i=0; while [ ! -e {tmp_path}/over ]; do i=$((i+1)); echo line $i; while [ $i -ge $(cat {more}) ] && [ ! -e {tmp_path}/over ]; do sleep 0.05; done; done"
    more.write_text("3")
    running = start(sqlite_url, "run", "talk", "--key", "t", "--", "sh", "-c", script)
    ledger = open_for(sqlite_url)
    until(lambda: ledger.find("talk", "t"))
    run = found(ledger, "talk", "t")
    pages = PagesProcess(sqlite_url)
    one = watched()
    first = one.open(pages)
    first.goto(f"{pages.base}run/{run.id}")
    second = one.context.new_page()
    second.goto(f"{pages.base}run/{run.id}")

    def shown(page: Any, last: int) -> None:
        page.wait_for_selector(f"#log li:nth-child({last})")
        texts = page.eval_on_selector_all("#log li .x", "all => all.map(one => one.textContent)")
        assert texts == [f"line {number}" for number in range(1, last + 1)]

    for page in (first, second):
        shown(page, 3)
    more.write_text("40")
    for page in (first, second):
        shown(page, 40)
    pages.kill()
    first.wait_for_selector("#away:not([hidden])")
    assert "does not answer since" in first.inner_text("#away")
    more.write_text("55")
    pages = PagesProcess(sqlite_url, port=pages.port)
    for page in (first, second):
        shown(page, 55)
    first.wait_for_selector("#away", state="hidden")
    (tmp_path / "over").touch()
    assert running.wait(60) == 0
    first.wait_for_selector(".crumbs .chip.ok")
    one.check(pages, ignore="net::ERR_")
    pages.end()


def test_keys_go_to_pages_rows_and_the_search(busy, watched):
    one = watched()
    page = one.open(busy)
    page.keyboard.press("j")
    page.wait_for_selector("[data-row] a:focus")
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog[open]", state="detached")
    page.keyboard.press("g")
    page.keyboard.press("u")
    page.wait_for_url("**/usage")
    page.keyboard.press("/")
    page.keyboard.type("articles")
    page.keyboard.press("Enter")
    page.wait_for_url("**/job/articles")
    one.check(busy)


def test_keys_go_on_right_after_the_dialog_of_keys_is_closed(busy, watched):
    """Its button keeps the focus until the next frame is drawn, if nothing had it before."""
    one = watched()
    page = one.open(busy)
    row = page.evaluate(
        """() => {
            document.activeElement.blur(); $("#keys").showModal(); $("#keys").close();
            document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "j", bubbles: true }));
            return !!document.activeElement.closest("[data-row]");
        }"""
    )
    assert row
    one.check(busy)


def test_new_rows_and_new_lines_are_counted_and_push_nothing(sqlite_url, tmp_path, watched):
    for number in range(12):
        nightlatch(sqlite_url, "run", f"old-{number:02}", "--key", "k", "--", "false")
    more = tmp_path / "more"
    script = (
        f"seq 60; while [ ! -e {more} ]; do sleep 0.05; done; seq 61 63; while [ ! -e {more}.end ]; do sleep 0.05; done"
    )
    running = start(sqlite_url, "run", "talk", "--key", "t", "--", "sh", "-c", script)
    ledger = open_for(sqlite_url)
    until(lambda: ledger.find("talk", "t"))
    pages = PagesProcess(sqlite_url)
    one = watched(viewport={"width": 1280, "height": 600})
    page = one.open(pages)
    page.evaluate("scrollTo(0, 900)")
    before = page.evaluate("scrollY")
    nightlatch(sqlite_url, "run", "fresh", "--key", "k", "--", "false")
    page.evaluate("redraw()")
    page.wait_for_selector("#news:not([hidden])")
    assert page.inner_text("#news") == "1 new"
    assert page.evaluate("scrollY") == before and page.locator("h3 >> text=fresh").count() == 0
    page.click("#news")
    page.wait_for_selector("h3 >> text=fresh")
    assert page.is_hidden("#news") and page.evaluate("scrollY") == 0

    page.goto(f"{pages.base}run/{found(ledger, 'talk', 't').id}")
    page.wait_for_selector("#L60")
    page.evaluate("document.querySelector('#log ol').scrollTop = 0")
    page.wait_for_selector("#follow[aria-pressed=false]")
    more.touch()
    page.wait_for_selector("#fresh:not([hidden])")
    page.wait_for_function("document.querySelector('#fresh').textContent === '3 new'")
    assert page.evaluate("document.querySelector('#log ol').scrollTop") == 0
    page.click("#fresh")
    page.wait_for_selector("#follow[aria-pressed=true]")
    assert page.is_hidden("#fresh")
    end = "(log => log.scrollTop + log.clientHeight > log.scrollHeight - 24)(document.querySelector('#log ol'))"
    assert page.evaluate(end)
    (tmp_path / "more.end").touch()
    assert running.wait(60) == 0
    one.check(pages)
    pages.end()


def test_a_session_that_may_only_look_has_no_button_that_changes_anything(busy, watched):
    one = watched()
    page = one.open(busy, read_only=True)
    for path in ("", "job/articles", "usage"):
        page.goto(f"{busy.base}{path}")
        assert page.locator("form[method=post]").count() == 0
    one.check(busy)
