"""Types survive under pyright too. mypy looks at the same file in `make lint`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYRIGHT = ROOT / ".clients" / "node_modules" / ".bin" / "pyright"

pytestmark = pytest.mark.skipif(not os.environ.get("NIGHTLATCH_CLIENTS"), reason="run by make test-clients")


def test_pyright_finds_the_types_that_are_asserted_and_every_wrong_call(tmp_path: Path) -> None:
    """In the file, as its comments ignore what mypy must find: no error. Without them: one for each."""
    typed = ROOT / "tests" / "unit" / "test_types.py"
    assert _errors(typed) == []
    bare = tmp_path / "test_types.py"
    lines = typed.read_text().splitlines()
    wrong = [number for number, line in enumerate(lines) if "# type: ignore" in line]
    bare.write_text("\n".join(line.partition("  # type: ignore")[0] for line in lines))
    assert wrong and sorted({number for number, _ in _errors(bare)}) == wrong


def _errors(file: Path) -> list[tuple[int, str]]:
    words = [str(PYRIGHT), "--outputjson", "--pythonpath", sys.executable, str(file)]
    found = json.loads(subprocess.run(words, capture_output=True, text=True, cwd=ROOT).stdout)
    return [
        (one["range"]["start"]["line"], one["message"])
        for one in found["generalDiagnostics"]
        if one["severity"] == "error"
    ]
