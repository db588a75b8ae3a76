"""`python -m tests.browser.screenshots FOLDER`: every page from one made-up night, light and dark, and on a phone."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from nightlatch.ledger import open_for
from nightlatch.web import made_up
from tests.browser.conftest import CHROMIUM, FLAGS
from tests.support.pages import PagesProcess

PAGES = {"jobs": "jobs", "night": "night", "usage": "usage", "leases": "leases", "journal": "journal?verify=1"}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        store = f"sqlite:///{place}/night.db"
        made_up.make(store)
        run = open_for(store).newest("articles")
        assert run
        pages = PagesProcess(store)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        paths = {"now": "", "run": f"run/{run.id}", **PAGES}
        for scheme, width, names in (
            ("light", 1280, list(paths)),
            ("dark", 1280, ["now", "run"]),
            ("phone", 390, ["now", "run"]),
        ):
            context = browser.new_context(
                viewport={"width": width, "height": 900}, color_scheme="dark" if scheme == "dark" else "light"
            )
            page = context.new_page()
            page.goto(pages.opening())
            page.wait_for_selector("header.top")
            for name in names:
                draw(page, f"{pages.base}{paths[name]}", folder / f"{name}-{scheme}.png")
            context.close()
        browser.close()
        pages.end()


def draw(page: Any, url: str, file: Path) -> None:
    page.goto(url)
    # Where the pictures are drawn is no part of them.
    page.evaluate("document.querySelector('.live span').textContent = 'mini'")
    page.evaluate(
        "document.querySelectorAll('.foot span')[1].textContent = 'store postgresql://db.internal/nightlatch'"
    )
    page.screenshot(path=file, full_page=True, scale="css")
    print(f"{file} {file.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
