"""What the pages say, and the commands that they show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nightlatch.cli.main import COMMANDS
from nightlatch.core import advice
from nightlatch.observe.reader import StoreReader
from nightlatch.observe.stages import all_rows
from nightlatch.observe.verdict import DECIDE
from nightlatch.web import draw, made_up, words

TEMPLATES = sorted(Path(draw.FOLDER, "templates").glob("*.html"))
IN_ANY_STORE = {"progress", "doctor"}  # inside a run, and about this machine


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.stem)
def test_a_command_on_a_page_names_the_store_of_that_page(template):
    written = {name for name in re.findall(r"nightlatch ([a-z]+)", template.read_text()) if name in COMMANDS}
    assert written <= IN_ANY_STORE, "use command(), which names the store and the file that the pages were started with"


def test_the_journal_page_shows_commands_that_exist(monkeypatch):
    text = Path(draw.FOLDER, "templates", "journal.html").read_text()
    shown = set(re.findall(r'command\("audit", "(\w+)"\)', text))
    assert shown == {"verify", "head"}
    monkeypatch.setattr(advice, "_chosen_store", "sqlite:////tmp/a b.db")
    made = draw.environment().from_string('{{ command("audit", "head") }}').render()
    assert made == "nightlatch --store &#39;sqlite:////tmp/a b.db&#39; audit head"


def test_a_sentence_that_is_coloured_as_a_whole_is_coloured_with_its_dot():
    assert words.emphasis("Nobody knows whether it was done.", DECIDE) == ("", "Nobody knows whether it was done.", "")
    assert words.emphasis("Failed at 03:12: no network.", DECIDE) == ("", "Failed at 03:12", ": no network.")


def test_the_made_up_jobs_are_due_when_their_schedules_say(sqlite_url):
    made_up.make(sqlite_url, now=1_795_000_000.0, nights=2)
    for row in all_rows(StoreReader(sqlite_url)):
        cron = re.match(r"(\d+) (\d+) ", row.schedule)
        if cron and row.job != "refactor-agent":
            minutes = int(row.next_due // 60)
            assert (int(cron[1]), int(cron[2])) == (minutes % 60, minutes // 60 % 24), row.job
