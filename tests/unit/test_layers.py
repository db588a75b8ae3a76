"""A layer imports only from those above it; and the path of `lock` stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from nightlatch.cli.main import COMMANDS
from tests.programs import environment

SOURCE = Path(__file__).parents[2] / "src" / "nightlatch"

# From the rules down to the command line, as docs/architecture.md has them. `testing` may use everything.
LAYERS = [
    "exits",
    "errors",
    "core",
    "system",
    "database",
    "store",
    "ledger",
    "gates",
    "runtime",
    "observe",
    "cli",
    "testing",
]


def imports(path: Path) -> list[str]:
    """The layers a file imports from, also where it does so inside a function."""
    package = ["nightlatch", *path.relative_to(SOURCE).with_suffix("").parts[:-1]]
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            whole = [*base, *(node.module.split(".") if node.module else [])]
            found += [[*whole, alias.name] for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [alias.name.split(".") for alias in node.names]
    return [parts[1] for parts in found if parts[0] == "nightlatch" and len(parts) > 1]


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_layer_imports_only_from_those_above_it(path):
    layer = path.relative_to(SOURCE).with_suffix("").parts[0]
    if layer in ("__init__", "__main__", "errors"):
        return  # the public names, loaded lazily; and errors, which name what they carry for its type only
    assert layer in LAYERS, f"{layer} has no place among the layers"
    for imported in imports(path):
        if imported in LAYERS:
            assert LAYERS.index(imported) <= LAYERS.index(layer), f"{layer} must not import {imported}"


def test_the_check_sees_an_import_from_below(tmp_path):
    assert "cli" in imports_of("from ..cli import main")
    assert "cli" in imports_of("def f():\n    from ..cli.main import run")


def imports_of(text: str) -> list[str]:
    probe = SOURCE / "core" / "probe_for_test_layers.py"
    probe.write_text(text)
    try:
        return imports(probe)
    finally:
        probe.unlink()


@pytest.mark.parametrize("module", ["core"])
def test_the_rules_know_neither_clock_nor_files(module):
    for path in (SOURCE / module).glob("*.py"):
        text = path.read_text()
        for outside in ("import os", "import socket", "import threading", "time.time()", " open("):
            assert outside not in text, f"{path.name} has {outside}"


HEAVY = ["asyncio", "rich", "msgspec", "psycopg", "importlib.metadata", "argparse", "re", "enum", "typing", "json"]


@pytest.mark.parametrize("command", ["lock", "run"])
def test_the_path_of_lock_and_run_imports_nothing_heavy(command, sqlite_url):
    program = (
        "import sys\nfrom nightlatch.cli.main import run\n"
        f"code = run([{command!r}, 'x', '--', 'true'])\n"
        f"print(code, [m for m in {HEAVY!r} if m in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{program}"],
        env=environment(sqlite_url), text=True, capture_output=True, check=True,
    )  # fmt: skip
    assert shown.stdout.strip() == "0 []", shown.stdout + shown.stderr


def test_every_command_has_a_file_and_every_file_is_a_command():
    files = {path.stem for path in (SOURCE / "cli").glob("*.py") if "def main(" in path.read_text()}
    assert files - {"main"} == set(COMMANDS)
