"""A real Chromium, and pages that have something to show."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nightlatch.web import made_up
from tests.support.mornings import clock_at, monday
from tests.support.pages import PagesProcess

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """Closed after the last test of this folder: it keeps an event loop running, beside which asyncio.run() fails."""
    if not CHROMIUM:
        pytest.skip("there is no Chromium here, and `make test` could not install one with apt")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


class Watched:
    """A context whose pages must say nothing on the console, break no policy and ask nobody else."""

    def __init__(self, browser: Any, **settings: Any) -> None:
        self.context = browser.new_context(**settings)
        self.context.set_default_timeout(20_000)
        self.said: list[str] = []
        self.asked: set[str] = set()
        self.context.on("console", lambda message: self.said.append(message.text))
        self.context.on("weberror", lambda error: self.said.append(str(error.error)))
        self.context.on("request", lambda request: self.asked.add(request.url))

    def open(self, pages: PagesProcess, *, read_only: bool = False) -> Any:
        page = self.context.new_page()
        page.goto(pages.opening(read_only=read_only))
        page.wait_for_selector("header.top")
        page.wait_for_load_state()  # its script has run
        return page

    def check(self, pages: PagesProcess, ignore: str = "\0") -> None:
        assert [text for text in self.said if ignore not in text] == []
        assert {url for url in self.asked if not url.startswith((pages.base, "data:"))} == set()

    def close(self) -> None:
        self.context.close()


@pytest.fixture
def watched(browser: Any) -> Iterator[Any]:
    made: list[Watched] = []

    def make(**settings: Any) -> Watched:
        made.append(Watched(browser, **{"viewport": {"width": 1280, "height": 900}, **settings}))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(scope="session")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesProcess]:
    """A busy night. Nothing in it is decided by a test."""
    yield from _shown(tmp_path_factory.mktemp("busy"))


@pytest.fixture(scope="session")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesProcess]:
    yield from _shown(tmp_path_factory.mktemp("calm"), calm=True)


def _shown(folder: Path, **how: bool) -> Iterator[PagesProcess]:
    """At seven in the morning: which night it is does not depend on when the tests run."""
    store, morning = f"sqlite:///{folder}/state/nightlatch.db", monday()
    made_up.make(store, now=morning, nights=15, **how)
    pages = PagesProcess(store, env=clock_at(morning))
    yield pages
    pages.end()
