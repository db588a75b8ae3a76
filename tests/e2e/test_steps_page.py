"""The examples of docs/steps.md, run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.programs import environment

PAGE = Path(__file__).parents[2] / "docs" / "steps.md"

CALLS = {
    "article.run('otter')": "otter: habits.\notter: enemies.",
    "translation.run('otter')": "OTTER ONEOTTER TWO",
    "publish.run('otter')": "posted as id of otter",
    "queue.run()": "ONE\nTWO",
}


def test_the_examples_do_what_the_page_says(tmp_path, sqlite_url):
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "nightly.py").write_text("\n".join(examples))
    for call, printed in CALLS.items():
        shown = subprocess.run(
            [sys.executable, "-c", f"import nightly; print(nightly.{call}.status)"],
            env=environment(sqlite_url), cwd=tmp_path, text=True, capture_output=True, timeout=60, check=True,
        )  # fmt: skip
        assert shown.stdout.split("\n")[-2:] == ["succeeded", ""] and printed in shown.stdout, shown.stderr
