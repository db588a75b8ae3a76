"""What a person does on the pages: by mouse, on a phone, by keyboard, and without JavaScript."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
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

WIDTHS = {"wide": {}, "phone": {"viewport": {"width": 390, "height": 800}, "has_touch": True}}
WAYS: dict[str, dict[str, Any]] = {
    f"{width}-{scheme}-{by}": {**settings, "color_scheme": scheme}
    for width, settings in WIDTHS.items() for scheme in ("light", "dark") for by in ("mouse", "keyboard")
} | {"no-script": {"java_script_enabled": False}}  # fmt: skip


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
        if row := found.evaluate(
            "one => 1 + [...document.querySelectorAll('[data-row]')].indexOf(one.closest('[data-row]'))"
        ):
            for _ in range(row):
                self._page.keyboard.press("j")
        for _ in range(60):
            if found.evaluate("one => one === document.activeElement"):
                with self._page.expect_navigation():
                    self._page.keyboard.press("Enter")
                return
            self._page.keyboard.press("Tab")
        raise AssertionError(f"{name} is not reached by the keyboard")


def found(ledger: Ledger, job: str) -> RunRow:
    """The job's newest run."""
    run = ledger.newest(job)
    assert run
    return run


class House:
    """Pages with one of everything for each way: a plan that waits, a run in doubt, a run that failed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder, f"sqlite:///{folder}/state/nightlatch.db"
        (folder / "site").mkdir()
        (folder / "nightlatch.toml").write_text("at_once = 20\n" + "".join(map(self._job, WAYS)))
        self.ledger = open_for(self.store)
        until(self._all_held)
        made = MadeUp(self.store, clock.wall())
        for way in WAYS:
            made.ran(f"crawl-{way}", clock.wall() - 60, 1.0, status=statuses.FAILED, exit_code=3, reason="exit code 3")
            doubt = made.seal(made.open(f"newsletter-{way}", clock.wall(), "./send.sh"), clock.wall())
            doubt.finish(statuses.IN_DOUBT, reason="no reply within 30s", elapsed=30.0)
        self.pages = PagesProcess(self.store, cwd=folder)

    def target(self, way: str) -> Path:
        return self.folder / "site" / f"{way}.html"

    def _job(self, way: str) -> str:
        return f"""[jobs.build-{way}]
command = "echo '<b>{way}</b>' > index.html"
schedule = "every 1s"
workspace = "scratch"
publish = ["index.html={self.target(way)}"]
stage = "supervised"
promote_after = [1, 1]
timeout = "1m"
"""

    def _all_held(self) -> bool:
        assert nightlatch(self.store, "tick", cwd=self.folder).returncode == 0
        return all(self.ledger.held(f"build-{way}") for way in WAYS)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    made = House(tmp_path_factory.mktemp("house"))
    yield made
    made.pages.end()


@pytest.mark.parametrize("way", WAYS)
def test_a_person_approves_watches_cancels_resolves_retries_and_promotes(house, tmp_path, watched, way):
    ledger, pages, target = house.ledger, house.pages, house.target(way)
    one = watched(**WAYS[way])
    page = one.open(pages)
    hand = Hand(page, way.endswith("keyboard"))

    def needed() -> int:
        page.goto(pages.base)
        return int(page.inner_text("nav b") if page.locator("nav b").count() else 0)

    before = needed()
    assert not target.exists()
    hand.press(f"See the plan: build-{way}", role="link")
    assert str(target) in page.inner_text(".plan")
    hand.press("Approve")
    until(target.exists)
    assert target.read_text() == f"<b>{way}</b>\n"

    more = tmp_path / "more"
    script = f"echo line 1; while [ ! -e {more} ]; do sleep 0.02; done; echo line 2; exec sleep 600"
    talk = start(house.store, "run", f"talk-{way}", "--", "sh", "-c", script, stdin=subprocess.DEVNULL)
    until(lambda: (run := ledger.newest(f"talk-{way}")) and run.status == statuses.RUNNING)
    second = one.context.new_page()
    for tab in (page, second):
        tab.goto(f"{pages.base}run/{found(ledger, f'talk-{way}').id}")
        shown(tab, 1, script=way != "no-script")
    more.touch()
    for tab in (page, second):
        shown(tab, 2, script=way != "no-script")
    second.close()
    hand.press("Cancel")
    hand.press("Cancel the run")
    page.wait_for_url("**/run/*")
    assert talk.wait(60) == 120
    assert found(ledger, f"talk-{way}").status == statuses.CANCELLED

    page.goto(pages.base)
    hand.press(f"It was done: newsletter-{way}")
    assert "no machine does it again" in page.inner_text("main")  # asked once more, in words
    hand.press("It was done")
    page.wait_for_url("**/run/*")
    assert "succeeded" in page.inner_text(".crumbs")
    assert found(ledger, f"newsletter-{way}").status == statuses.SUCCEEDED

    page.goto(pages.base)
    hand.press(f"Retry: crawl-{way}")
    page.wait_for_url("**/run/*")
    assert found(ledger, f"crawl-{way}").status == statuses.PENDING
    assert "@" in next(entry.facts["by"] for entry in ledger.journal.of_job(f"crawl-{way}") if entry.kind == "retried")

    def counted() -> bool:  # by the supervisor, after the run has ended
        page.goto(f"{pages.base}job/build-{way}")
        return "1 clean run" in page.inner_text(".evidence")

    until(counted)
    assert found(ledger, f"build-{way}").status == statuses.SUCCEEDED
    hand.press("Promote to unattended")
    page.wait_for_selector(".chip:has-text('unattended')")
    assert needed() == before - 3
    if way != "no-script":
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    one.check(pages)


def shown(page: Any, last: int, *, script: bool = True) -> None:
    """Exactly these lines; without JavaScript, as soon as the page is loaded anew."""

    def read() -> list[str]:
        return list(page.locator("#log li .x").all_text_contents())

    if script:
        page.wait_for_selector(f"#log li:nth-child({last})")
    else:
        until(lambda: len(read()) >= last or not page.reload())
    assert read() == [f"line {number}" for number in range(1, last + 1)]


def test_output_grows_in_two_tabs_and_goes_on_at_the_byte_after_the_server_was_killed(sqlite_url, tmp_path, watched):
    more = tmp_path / "more"
    script = f"i=0; while [ ! -e {tmp_path}/over ]; do i=$((i+1)); echo line $i; while [ $i -ge $(cat {more}) ] && [ ! -e {tmp_path}/over ]; do sleep 0.05; done; done"

    def lines(count: int) -> None:
        (tmp_path / "next").write_text(str(count))
        (tmp_path / "next").replace(more)  # in one step: `cat` never finds it empty

    lines(3)
    running = start(sqlite_url, "run", "talk", "--key", "t", "--", "sh", "-c", script)
    ledger = open_for(sqlite_url)
    until(lambda: ledger.find("talk", "t"))
    run = found(ledger, "talk")
    pages = PagesProcess(sqlite_url)
    one = watched()
    first = one.open(pages)
    first.goto(f"{pages.base}run/{run.id}")
    second = one.context.new_page()
    second.goto(f"{pages.base}run/{run.id}")

    for page in (first, second):
        shown(page, 3)
    lines(40)
    for page in (first, second):
        shown(page, 40)
    pages.kill()
    first.wait_for_selector("#away:not([hidden])")
    assert "does not answer since" in first.inner_text("#away")
    lines(55)
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
    made = MadeUp(sqlite_url, clock.wall())

    def fails(job: str) -> None:
        made.ran(job, clock.wall() - 1, 1.0, status=statuses.FAILED, exit_code=1, reason="exit code 1")

    for number in range(12):
        fails(f"old-{number:02}")
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
    fails("fresh")
    page.evaluate("redraw()")
    page.wait_for_selector("#news:not([hidden])")
    assert page.inner_text("#news") == "1 new"
    assert page.evaluate("scrollY") == before and page.locator("h3 >> text=fresh").count() == 0
    page.click("#news")
    page.wait_for_selector("h3 >> text=fresh")
    assert page.is_hidden("#news") and page.evaluate("scrollY") == 0

    page.goto(f"{pages.base}run/{found(ledger, 'talk').id}")
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
