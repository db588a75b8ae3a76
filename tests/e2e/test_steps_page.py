"""The examples of docs/steps.md, run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.support.programs import environment

PAGE = Path(__file__).parents[2] / "docs" / "steps.md"

CALLS = {
    "article.run('otter')": "otter: habits.\notter: enemies.",
    "translation.run('otter')": "OTTER ONEOTTER TWO",
    "publish.run('otter')": "posted as id of otter",
    "newsletter.run('n1', 20)": "20 sent",
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


def test_the_dry_run_says_what_the_page_says(tmp_path, sqlite_url):
    page = PAGE.read_text()
    (tmp_path / "nightly.py").write_text("\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)))
    shown = subprocess.run(
        [sys.executable, "-c", 'import nightly; nightly.publish.dry_run("otter")'],
        env=environment(sqlite_url), cwd=tmp_path, text=True, capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    numbers = re.compile(r":\d+$|\([0-9.]+m?s", re.MULTILINE)  # of a line, and of milliseconds
    said = numbers.sub("", shown.stderr.replace(f"{tmp_path}/", ""))
    assert said and said in numbers.sub("", page)
