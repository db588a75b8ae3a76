"""The documents tell the truth: commands, exit codes, links."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from nightlatch import errors, exits
from nightlatch.cli.main import COMMANDS
from nightlatch.core import statuses

ROOT = Path(__file__).parents[2]


def generator():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_commands_is_what_the_commands_say():
    assert (ROOT / "docs" / "commands.md").read_text() == generator().page(), "run `make docs`"


def test_every_key_of_the_file_is_documented():
    page = (ROOT / "docs" / "schedules.md").read_text()
    assert page == generator().schedules(page), "run `make docs`"


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
    used += [statuses.exit_code(status) for status in statuses.ALL]
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
    page = (ROOT / "docs" / "architecture.md").read_text()
    table = page.partition("| in runtime/ |")[2].partition("\n\n")[0]
    rows = {row.split("|")[1].strip(" /"): set(re.findall(r"\w+", row)) for row in table.splitlines()[2:]}
    runtime = ROOT / "src" / "nightlatch" / "runtime"
    for folder in {path.parent for path in runtime.rglob("*.py")} - {runtime}:
        files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
        known = rows.get(str(folder.relative_to(runtime)), set())
        assert files <= known, f"not on the map: {files - known}"


def test_the_way_of_one_run_names_files_that_are_there():
    picture = (ROOT / "docs" / "architecture.md").read_text().partition("## The life of one run")[2].split("```")[1]
    source = {str(path.relative_to(ROOT / "src" / "nightlatch")) for path in (ROOT / "src").rglob("*.py")}
    named = re.findall(r"[\w/]+\.py", re.sub(r"(\S+/)\{(\w+),(\w+)(?:,(\w+))?\}\.py", _spread, picture))
    assert len(named) > 12
    for name in named:
        assert any(path.endswith(name) for path in source), f"{name} is not there"


def _spread(found: re.Match[str]) -> str:
    return " ".join(f"{found[1]}{name}.py" for name in found.groups()[1:] if name)


def test_tests_named_in_the_guarantees_exist():
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", (ROOT / "docs" / "guarantees.md").read_text())
    assert len(named) > 12
    for file, test in named:
        assert f"def {test}(" in (ROOT / "tests" / "faults" / file).read_text(), f"{file} has no {test}"
