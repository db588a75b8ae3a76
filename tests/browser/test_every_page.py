"""Every page in every state: axe finds nothing, nothing scrolls sideways, no console message, no other origin."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from nightlatch.ledger import location
from nightlatch.web import made_up
from tests.support.pages import PagesProcess

SCHEMES = [("light", 1280), ("dark", 1280), ("light", 390)]
PAGES = ["", "jobs", "job/articles", "night", "usage", "leases", "journal?verify=1", "journal?job=articles"]
NOT_STARTED = "2 times since 07:04: its budget usd/day=3 is spent"


def findings(page: Any) -> list[str]:
    from axe_playwright_python.sync_playwright import Axe

    # The page's own policy allows no script but ours; a tester's is put in from outside of it.
    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found]


def is_sound(page: Any, *, axe: bool = True) -> None:
    """Colours and roles are the same on all pages: axe looks at each of them once, and at some in each scheme."""
    assert not axe or findings(page) == [], page.url
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, f"{page.url} is {wide} pixels too wide"


@pytest.mark.parametrize(("scheme", "width"), SCHEMES)
def test_a_busy_night(busy, watched, scheme, width):
    one = watched(color_scheme=scheme, viewport={"width": width, "height": 900})
    page = one.open(busy)
    assert page.inner_text("h1").startswith("24 of 26 slots ran. Four things need you.")
    assert NOT_STARTED in page.inner_text("[aria-labelledby=waiting]")
    runs = page.eval_on_selector_all(
        ".asks h3 a[href*='/run/'], .running a[href*='/run/'], .night a[href*='#refused']",
        "all => all.map(one => one.getAttribute('href'))",
    )
    for path in [*PAGES, *{f"run/{href.rpartition('/run/')[2]}" for href in runs}]:
        page.goto(f"{busy.base}{path}")
        assert path != "job/articles" or NOT_STARTED in page.inner_text("main")
        is_sound(page, axe=(scheme == "light" and width == 1280) or path in ("", "usage"))
    one.check(busy)


@pytest.mark.parametrize(("scheme", "width"), SCHEMES[1:])
def test_a_calm_night(calm, watched, scheme, width):
    one = watched(color_scheme=scheme, viewport={"width": width, "height": 900})
    page = one.open(calm)
    assert page.inner_text("h1") == "All 28 slots ran. Nothing needs you."
    for path in PAGES:
        page.goto(f"{calm.base}{path}")
        is_sound(page, axe=path in ("", "jobs"))
    one.check(calm)


def test_an_empty_store(tmp_path, watched):
    pages = PagesProcess(f"sqlite:///{tmp_path}/state/nightlatch.db")
    one = watched(viewport={"width": 390, "height": 800})
    page = one.open(pages)
    for path in PAGES[:2] + PAGES[3:7]:
        page.goto(f"{pages.base}{path}")
        assert page.inner_text("h1") == "Nothing has run here yet."
        is_sound(page, axe=path in ("", "usage"))
    one.check(pages)
    pages.end()


def test_a_broken_journal_and_a_store_that_cannot_be_reached(tmp_path, watched):
    store = f"sqlite:///{tmp_path}/state/nightlatch.db"
    made_up.make(store, calm=True)
    ledger = Path(location.files(store)[1])
    with sqlite3.connect(ledger) as database:
        database.execute("UPDATE journal SET body = replace(body, 'sonnet', 'haiku') WHERE kind = 'usage'")
    database.close()
    pages = PagesProcess(store)
    one = watched()
    page = one.open(pages)
    for path in ("journal?verify=1", ""):
        page.goto(f"{pages.base}{path}")
        assert "The journal is broken" in page.inner_text("[role=alert]")
        is_sound(page)
    pages.end()
    shutil.copy(ledger, f"{ledger}.kept")
    for suffix in ("-wal", "-shm"):
        Path(f"{ledger}{suffix}").unlink(missing_ok=True)
    ledger.write_bytes(b"this is not a database" * 500)
    pages = PagesProcess(store)
    page = one.open(pages)
    for path in PAGES[:2] + PAGES[3:7]:
        page.goto(f"{pages.base}{path}")
        assert page.inner_text("h1") == "The store does not answer."
        is_sound(page, axe=path == "")
    pages.end()
