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
from tests.support.mornings import clock_at, monday
from tests.support.pages import PagesProcess

PAGES = {
    "jobs": "jobs", "job": "job/articles", "night": "night", "usage": "usage", "leases": "leases",
    "journal": "journal?verify=1",
}  # fmt: skip
JOBS = "".join(
    f'[jobs.{job}]\ncommand = "./{job}.sh"\n{more}'
    for job, more in {"invoices": "", "articles": "", "refactor-agent": 'stage = "supervised"\n'}.items()
)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        busy(browser, Path(place, "busy"), folder)
        for name, how in (("calm", {"calm": True}), ("empty", None)):
            store = f"sqlite:///{place}/{name}/night.db"
            if how:
                made_up.make(store, now=monday(), nights=30, **how)
            pages = PagesProcess(store, env=clock_at(monday()))
            page = opened(browser, pages, "light", 1280)
            draw(page, pages.base, folder / f"now-{name}-light.png")
            pages.end()
        browser.close()


def busy(browser: Any, place: Path, folder: Path) -> None:
    """The busy night: what the README shows."""
    place.mkdir()
    (place / "nightlatch.toml").write_text(JOBS)
    store = f"sqlite:///{place}/night.db"
    made_up.make(store, now=monday())
    ledger = open_for(store)
    runs = {name: ledger.newest(job) for name, job in (("run", "articles"), ("run-live", "translate"))}
    runs["run-plan"] = ledger.newest("refactor-agent")
    pages = PagesProcess(store, env=clock_at(monday()), cwd=place)
    paths = {"now": "", **{name: f"run/{run.id}" for name, run in runs.items() if run}, **PAGES}
    for scheme, width, names in (
        ("light", 1280, list(paths)),
        ("dark", 1280, ["now", "run"]),
        ("phone", 390, list(paths)),
    ):
        page = opened(browser, pages, scheme, width)
        page.goto(f"{pages.base}journal?verify=1")
        for name in names:
            draw(page, f"{pages.base}{paths[name]}", folder / f"{name}-{scheme}.png")
        page.context.close()
    pages.end()


def opened(browser: Any, pages: PagesProcess, scheme: str, width: int) -> Any:
    context = browser.new_context(
        bypass_csp=True, viewport={"width": width, "height": 900}, color_scheme="dark" if scheme == "dark" else "light"
    )
    page = context.new_page()
    page.goto(pages.opening())
    page.wait_for_selector("header.top")
    return page


def draw(page: Any, url: str, file: Path) -> None:
    page.goto(url)
    page.add_style_tag(content=":root { --sans: Inter, system-ui, sans-serif; --mono: JetBrains Mono, monospace }")
    # Typefaces that Debian has; without them pictures are drawn all the same. Where the pictures are drawn is not part of them.
    page.evaluate("document.querySelector('.live span').textContent = 'mini'")
    page.evaluate(
        "document.querySelectorAll('.foot span')[1].textContent = 'store postgresql://db.internal/nightlatch'"
    )
    page.screenshot(path=file, full_page=True, scale="css")
    print(f"{file} {file.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
