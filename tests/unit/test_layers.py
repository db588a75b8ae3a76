"""A layer imports only from those above it; and the path of `lock` stays light."""

from __future__ import annotations

import ast
import py_compile
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from nightlatch.cli.main import COMMANDS
from nightlatch.system import preload
from tests.support.programs import environment

SOURCE = Path(__file__).parents[2] / "src" / "nightlatch"

# From the rules down to the command line, as docs/architecture.md has them. `testing` may use everything.
LAYERS = [
    "exits",
    "errors",
    "core",
    "system",
    "config",
    "database",
    "store",
    "ledger",
    "gates",
    "runtime",
    "gateway",
    "agents",
    "scheduler",
    "observe",
    "web",
    "cli",
    "testing",
]


# Inside runtime/, by the process that a file runs in. A supervisor and its child share `shared`, and nothing else.
SIDES = {
    "shared": {"shared"},
    "supervisor": {"shared", "supervisor"},
    "child": {"shared", "child"},
    "caller": {"shared", "caller"},
}

# Imports inside functions, which keep `lock` and `run` light. One more needs a reason, and its folder's number.
LAZY = {
    "agents": 3,
    "config": 2,
    "cli": 70,
    "core": 2,
    "database": 5,  # the tables are made once
    "gates": 3,
    "ledger": 30,
    "runtime": 140,
    "store": 15,
    "system": 2,
    "testing": 4,
    "web": 1,  # the metrics, which need an extra
}


def imported(path: Path) -> list[tuple[list[str], bool]]:
    """What a file imports of ours, as parts of its path, and whether it does so inside a function. Not for types only."""
    package = ["nightlatch", *path.relative_to(SOURCE).with_suffix("").parts[:-1]]
    found: list[tuple[list[str], bool]] = []

    def visit(node: ast.AST, lazy: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and getattr(child.test, "id", "") == "TYPE_CHECKING":
                for other in child.orelse:
                    visit(other, lazy)
                continue
            if isinstance(child, ast.ImportFrom):
                base = package[: len(package) - child.level + 1] if child.level else []
                whole = [*base, *(child.module.split(".") if child.module else [])]
                found.extend(([*whole, alias.name], lazy) for alias in child.names)
            elif isinstance(child, ast.Import):
                found.extend((alias.name.split("."), lazy) for alias in child.names)
            visit(child, lazy or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))

    visit(ast.parse(path.read_text()), False)
    return [(parts, lazy) for parts, lazy in found if parts[0] == "nightlatch" and len(parts) > 1]


def imports(path: Path) -> list[str]:
    """The layers a file imports from, also where it does so inside a function."""
    return [parts[1] for parts, _ in imported(path)]


def modules() -> dict[str, Path]:
    """Every module by its name: core.job, gates, runtime.shared.verdict."""
    names = {path: path.relative_to(SOURCE).with_suffix("").parts for path in SOURCE.rglob("*.py")}
    return {".".join(parts[:-1] if parts[-1] == "__init__" else parts): path for path, parts in names.items()}


def graph() -> dict[str, set[str]]:
    """Which module imports which, also inside functions."""
    known = modules()

    def target(parts: list[str]) -> str:
        whole, around = ".".join(parts[1:]), ".".join(parts[1:-1])
        return whole if whole in known else around

    return {name: {target(parts) for parts, _ in imported(path)} - {name, ""} for name, path in known.items()}


def cycle(edges: dict[str, set[str]]) -> list[str]:
    """The modules that import each other in a ring; [] if none do."""
    order: list[str] = []  # depth first; a module comes after all that it imports
    state: dict[str, int] = {}  # 1: on the way, 2: done

    def visit(name: str, way: list[str]) -> list[str]:
        if state.get(name) == 1:
            return way[way.index(name) :]
        if state.get(name):
            return []
        state[name] = 1
        for other in sorted(edges.get(name, ())):
            if ring := visit(other, [*way, name]):
                return ring
        state[name] = 2
        order.append(name)
        return []

    for name in sorted(edges):
        if ring := visit(name, []):
            return ring
    return []


def test_no_module_imports_itself_by_a_detour():
    assert cycle(graph()) == []


def test_the_check_sees_a_ring():
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == ["a", "b", "c"]
    assert cycle({"a": {"b", "c"}, "b": {"c"}}) == []


def test_a_supervisor_and_its_child_share_only_what_is_for_both():
    for name, others in graph().items():
        side = name.split(".")[1] if name.startswith("runtime.") else ""
        for other in others:
            there = other.split(".")[1] if side and other.startswith("runtime.") else ""
            assert not there or there in SIDES[side], f"{name} must not import {other}"


def twins(names: Iterable[str]) -> list[str]:
    return sorted(name for name, count in Counter(names).items() if count > 1)


def test_no_two_classes_share_a_name():
    nodes = (node for path in modules().values() for node in ast.parse(path.read_text()).body)
    assert twins(node.name for node in nodes if isinstance(node, ast.ClassDef)) == []


def test_no_two_files_of_the_runtime_share_a_name():
    assert twins(path.name for path in (SOURCE / "runtime").rglob("*.py") if path.name != "__init__.py") == []


def test_the_check_sees_twins():
    assert twins(["Lease", "Mark", "Lease"]) == ["Lease"]


def test_imports_inside_functions_are_counted():
    counted: Counter[str] = Counter()
    for path in modules().values():
        counted[path.relative_to(SOURCE).parts[0]] += sum(lazy for _, lazy in imported(path))
    assert {folder: count for folder, count in counted.items() if count > LAZY.get(folder, 0)} == {}


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


HEAVY = [
    "aiohttp", "argparse", "asyncio", "collections", "cronsim", "ctypes", "dataclasses", "enum", "functools",
    "genai_prices", "importlib.metadata", "inspect", "jinja2", "json", "msgspec", "psycopg", "re", "rich", "tomllib",
    "typing",
]  # fmt: skip


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


@pytest.mark.parametrize("command", preload.MODULES)
def test_the_lists_of_what_lock_and_run_load_are_right(command, sqlite_url):
    imported_by(command, sqlite_url)  # the first call makes the store
    needed, listed = imported_by(command, sqlite_url), listed_for(command)
    assert (needed - listed, listed - needed) == (set(), set())
    assert imported_by(command, sqlite_url, f"preload.begin({command!r})") == set(), "a list is out of order"


def imported_by(command: str, store: str, begin: str = "") -> set[str]:
    """Which modules of ours `import` looks for, after those of the command line itself and before the work starts."""
    program = (
        "import sys\nfrom nightlatch.cli.main import preload, run\nasked = []\n"
        "class Spy:\n    def find_spec(name, *_): asked.append(name)\n"
        f"sys.meta_path.insert(0, Spy)\n{begin}\n"
        f"assert run([{command!r}, 'x', '--', 'true']) == 0\nprint(*asked)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], env=environment(store), text=True, capture_output=True, check=True
    )
    before, _, _ = shown.stdout.partition("nightlatch.ledger.tally")  # the first that is loaded while the command works
    return {name.removeprefix("nightlatch.") for name in before.split() if name.startswith("nightlatch.")}


def listed_for(command: str) -> set[str]:
    lines = [line.split(":") for part in preload.MODULES[command].values() for line in part.split("\n") if line]
    parts = [folder.split(".") for folder, _ in lines]
    folders = {".".join(folder[: depth + 1]) for folder in parts for depth in range(len(folder))}
    loaded_before = {"cli", "core", "system"}
    return folders.union(*({f"{folder}.{name}" for name in names.split()} for folder, names in lines)) - loaded_before


def test_a_module_that_cannot_be_preloaded_is_left_to_import(tmp_path):
    """As from a zip archive, which has no files of its own."""
    archive = shutil.make_archive(str(tmp_path / "package"), "zip", SOURCE.parent)
    program = (
        f"import sys; sys.path.insert(0, {archive!r})\nfrom nightlatch.system import preload\npreload.begin('lock')\n"
        "import nightlatch.cli.lock as loaded\nprint(loaded.__file__)"
    )
    shown = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, check=True)
    assert shown.stdout.startswith(archive)


def test_what_python_has_compiled_is_loaded_only_if_it_is_of_this_python_and_this_state_of_the_file(tmp_path):
    file, elsewhere = tmp_path / "module.py", tmp_path / "moved.py"
    file.write_text("found = 1")
    cached = str(py_compile.compile(str(file)))
    assert (code := preload._compiled(str(file), cached)) and code.co_filename == str(file)
    shutil.copy2(file, elsewhere)
    assert preload._compiled(str(elsewhere), cached) is None  # a traceback would name the wrong file
    content = Path(cached).read_bytes()
    Path(cached).write_bytes(b"1234" + content[4:])
    assert preload._compiled(str(file), cached) is None
    Path(cached).write_bytes(content)
    file.write_text("found = 22")
    assert preload._compiled(str(file), cached) is None
    assert preload._compiled(str(file), str(tmp_path / "missing.pyc")) is None


def test_the_driver_of_an_agent_launches_with_nothing_heavy():
    modules = "nightlatch.agents.drive, nightlatch.agents.openai, nightlatch.runtime.child.effects"
    heavy = [*HEAVY, "email", "http", "pathlib", "random", "socket", "ssl", "subprocess", "threading"]
    program = (
        f"import sys; sys.path[:0] = {sys.path!r}\nimport {modules}\nprint([m for m in {heavy!r} if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-S", "-c", program], text=True, capture_output=True, check=True)
    assert shown.stdout.strip() == "[]", shown.stdout


def test_private_modules_of_python_are_imported_by_two_files_alone():
    found = {
        f"{path.relative_to(SOURCE)}: {name}"
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in _modules(node)
        if name.startswith("_") and name not in ("__future__", "_thread")  # `_thread` is documented
    }
    assert {one.partition(":")[0] for one in found} == {"core/json_text.py", "system/light.py"}, found


def _modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""] if not node.level else []
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def test_every_command_has_a_file_and_every_file_is_a_command():
    files = {path.stem for path in (SOURCE / "cli").glob("*.py") if "def main(" in path.read_text()}
    assert files - {"main"} == set(COMMANDS)
