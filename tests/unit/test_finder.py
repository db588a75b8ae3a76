"""Nightlatch's own modules are found by their paths as Python's own finder finds them."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
import zipfile
from importlib.machinery import PathFinder
from pathlib import Path

import nightlatch
from nightlatch.system.finder import Finder

PACKAGE = Path(nightlatch.__file__).parent


def test_every_module_is_found_as_python_finds_it():
    modules = [one.name for one in pkgutil.walk_packages([str(PACKAGE)], "nightlatch.")]
    assert len(modules) > 400
    for name in modules:
        path = [str(PACKAGE.parent.joinpath(*name.split(".")[:-1]))]
        found, expected = Finder.find_spec(name, path), PathFinder.find_spec(name, path)
        assert found is not None and expected is not None
        for fact in ("name", "origin", "cached", "has_location", "parent", "submodule_search_locations"):
            assert getattr(found, fact) == getattr(expected, fact), (name, fact)
        assert type(found.loader) is type(expected.loader)


def test_what_is_not_there_and_what_is_not_ours_is_left_to_the_other_finders():
    assert Finder.find_spec("nightlatch.core.nothing", [str(PACKAGE / "core")]) is None
    assert Finder.find_spec("json.decoder", [str(PACKAGE / "core")]) is None
    assert Finder.find_spec("nightlatch", None) is None


def test_the_package_runs_from_an_archive(tmp_path):
    with zipfile.ZipFile(tmp_path / "nightlatch.zip", "w") as archive:
        for file in PACKAGE.rglob("*.py"):
            archive.write(file, file.relative_to(PACKAGE.parent))
    words = [sys.executable, "-S", "-c", "from nightlatch.cli.main import main; main(['--version'])"]
    ran = subprocess.run(words, env={"PYTHONPATH": str(tmp_path / "nightlatch.zip")}, text=True, capture_output=True)
    assert ran.stdout.startswith("nightlatch ") and not ran.returncode, ran.stderr
