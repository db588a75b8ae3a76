"""Every command of the README, docs/ and every --help, pasted as it is written, into a home that has what it needs.

What cannot be run is marked: in a page by a comment above the fence, for a help in tests/support/pasting/scenes.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nightlatch.cli.arguments import parser_of
from nightlatch.cli.main import COMMANDS
from tests.support.pasting import scenes
from tests.support.pasting.house import House
from tests.support.pasting.pages import HELPS, PAGES, ROOT, Block, blocks, help_of
from tests.support.servers import s3
from tests.support.servers.postgres import PostgresServer

_NAMED = [page for page in PAGES if blocks(page) and page.name != "commands.md"]


@pytest.fixture(scope="module")
def objects() -> Iterator[str]:
    with s3.server() as endpoint:
        yield endpoint


@pytest.fixture
def house(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[House]:
    text = "\n".join(line for block in request.param for line in block.lines)
    variables = {"PYTHONPATH": str(ROOT)}
    if "s3://" in text:
        endpoint = request.getfixturevalue("objects")
        variables |= s3.CREDENTIALS | {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true"}
    if "postgresql://" in text:
        variables |= _server(request.getfixturevalue("postgres"))
    made = House(tmp_path, **variables)
    yield made
    made.close()


def _server(postgres: PostgresServer) -> dict[str, str]:
    """The hosts and databases of the pages, as far as libpq takes them from the environment."""
    for role in ("app", "owner"):
        postgres.psql(f"DROP ROLE IF EXISTS {role}; CREATE ROLE {role} SUPERUSER LOGIN") if not postgres.psql(
            f"SELECT 1 FROM pg_roles WHERE rolname = '{role}'"
        ) else None
    for name in ("site", "jobs"):
        if not postgres.psql(f"SELECT 1 FROM pg_database WHERE datname = '{name}'"):
            postgres.psql(f"CREATE DATABASE {name}")
    return {"PGHOSTADDR": "127.0.0.1", "PGPORT": str(postgres.port), "PGUSER": "owner", "PGSSLMODE": "disable"}


def _paste(house: House, name: str, block: Block) -> list[str]:
    """What did not end as it should."""
    wrong = []
    whole = name.endswith(".md") or name in _STORIES
    lines = [line for line in block.commands if not scenes.mark(line)]
    for some in [lines] if whole and not any(_needs_more(line) for line in lines) else [[line] for line in lines]:
        for line in some:
            scenes.prepare(house, name, line)
        for command, code, printed in house.paste(some, scenes.within, scenes.STORIES_WITHIN.get(name, "")):
            if code != scenes.code(command):
                wrong.append(f"{block.where}: {command}\nexit code {code}, not {scenes.code(command)}\n{printed}")
    return wrong


_STORIES = ("fail", "lease")  # whose examples follow each other; others stand alone, and a page's blocks are stories


def _needs_more(line: str) -> bool:
    return bool(re.search(r"7k3f|cvqr5|init|approve", line))


@pytest.mark.parametrize(
    ("house", "page"), [pytest.param(blocks(page), page, id=page.name) for page in _NAMED], indirect=["house"]
)
def test_what_a_page_shows_can_be_pasted(house: House, page: Path) -> None:
    wrong = [line for block in blocks(page) if not block.mark for line in _paste(house, page.name, block)]
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize(
    ("house", "command"), [pytest.param([help_of(command)], command, id=command) for command in HELPS],
    indirect=["house"],
)  # fmt: skip
def test_what_a_help_shows_can_be_pasted(house: House, command: str) -> None:
    wrong = _paste(house, command, help_of(command))
    assert not wrong, "\n\n".join(wrong)


def test_most_is_pasted_and_what_is_marked_says_why(record_property: Callable[[str, object], None]) -> None:
    pages = [block for page in _NAMED for block in blocks(page)]
    helps = [line for command in HELPS for line in help_of(command).commands]
    marked = [line for block in pages if block.mark for line in block.commands]
    marked += [line for line in helps if scenes.mark(line)]
    total = sum(len(block.commands) for block in pages) + len(helps)
    record_property("pasted", total - len(marked))
    record_property("marked", len(marked))
    assert total > 250 and len(marked) < total / 6, f"{total - len(marked)} are pasted, {len(marked)} are marked"
    assert all(any(line.startswith(begin) for line in helps) for begin in scenes.NOT_PASTED), "a mark without a command"


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_commands_in_the_middle_of_a_sentence_have_options_that_there_are(page: Path) -> None:
    for text in re.findall(r"`nightlatch ((?:[^`]|\n)+)`", page.read_text(encoding="utf-8")):
        command, *words = text.split("--")[0].split() + [
            f"--{word}" for word in re.findall(r"(?<=--)[a-z][a-z-]*", text)
        ]
        if command not in COMMANDS or " -- " in text:
            continue
        known = {one.name for one in parser_of(command).arguments}
        for word in words:
            assert not word.startswith("--") or word in known, f"{page.name}: nightlatch {text}"
