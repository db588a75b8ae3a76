"""The documents tell the truth: commands, exit codes, links."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from nightlatch import errors, exits
from nightlatch.cli.main import COMMANDS
from nightlatch.core import states

ROOT = Path(__file__).parents[2]


def generator():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_commands_is_what_the_commands_say():
    assert (ROOT / "docs" / "commands.md").read_text() == generator().page(), "run `make docs`"


def test_type_checkers_see_the_options_of_the_table():
    assert (ROOT / "src/nightlatch/core/keywords.py").read_text() == generator().keywords(), "run `make docs`"


def test_every_exit_code_is_documented():
    page = (ROOT / "docs" / "commands.md").read_text().partition("## Environment")[0]
    codes = {
        vars(kind)["exit_code"]
        for kind in vars(errors).values()
        if isinstance(kind, type) and "exit_code" in vars(kind)
    }
    missing = {code for code in codes if not re.search(rf"\b{code}\b", page)}
    assert not missing


def test_every_exit_code_is_a_row_and_every_row_names_commands_that_there_are():
    used = [kind.exit_code for kind in vars(errors).values() if isinstance(kind, type) and hasattr(kind, "exit_code")]
    used += [states.exit_code(state) for state in states.ALL]
    assert {type(code) for code in used} == {exits.Exit}
    assert len(set(exits.ROWS)) == len(exits.ROWS)
    for row in exits.ROWS:
        assert row.words.keys() <= {*COMMANDS, "*"}, row.meaning


@pytest.mark.parametrize("document", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]), ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#\s]+)", document.read_text()):
        if "://" not in target:
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


@pytest.mark.parametrize("document", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]), ids=lambda path: path.name)
def test_commands_named_in_documents_exist(document):
    for command in re.findall(r"`nightlatch ([a-z]+)\b", document.read_text()):
        assert command in COMMANDS, f"{document.name} names `nightlatch {command}`"


def test_a_newcomer_finds_every_file_of_the_runtime_on_the_map():
    table = (ROOT / "docs" / "architecture.md").read_text().partition("| in runtime/ |")[2].partition("\n\n")[0]
    rows = {row.partition("/")[0].strip("| "): set(re.findall(r"\w+", row)) for row in table.splitlines()}
    for folder in (ROOT / "src" / "nightlatch" / "runtime").glob("*/"):
        files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
        assert files <= rows.get(folder.name, set()), f"not on the map: {files - rows.get(folder.name, set())}"


def test_tests_named_in_the_guarantees_exist():
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", (ROOT / "docs" / "guarantees.md").read_text())
    assert len(named) > 12
    for file, test in named:
        assert f"def {test}(" in (ROOT / "tests" / "faults" / file).read_text(), f"{file} has no {test}"
