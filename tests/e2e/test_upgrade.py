"""An upgrade, or an uninstall, replaces the package's files while a supervisor runs from them: nothing changes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import nightlatch as package
from tests.support.programs import environment, nightlatch, python, until


class Upgraded:
    """A run whose package is gone, or another one, when its command goes on."""

    def __init__(self, store: str, folder: Path, script: str, *options: str, before: str = "") -> None:
        self.folder, self.package = folder, folder / "site/nightlatch"
        shutil.copytree(Path(package.__file__).parent, self.package, ignore=shutil.ignore_patterns("__pycache__"))
        path = os.pathsep.join([str(folder / "site"), *(p for p in sys.path if p and not p.endswith("/src"))])
        script = f"touch {folder}/ready; while [ ! -e {folder}/go ]; do {before} sleep 0.02; done; {script}"
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-c", "from nightlatch.cli.main import main; main()",
             "run", "job", "--key", "k", "--verdict", folder / "verdict", *options, "--", "sh", "-c", script],
            env=environment(store, PYTHONPATH=path, PYTHONDONTWRITEBYTECODE=""), cwd=folder, text=True, stdout=-1, stderr=-1,
        )  # fmt: skip
        until((folder / "ready").exists)
        until(self._has_loaded_what_it_may_need)
        shutil.rmtree(self.package / "database")
        for file in self.package.rglob("*.py"):
            file.write_text("raise RuntimeError('another version')\n")

    def _has_loaded_what_it_may_need(self) -> bool:
        folders = (self.package / "runtime/supervisor/run", self.package / "store")
        return all(
            (folder / f"__pycache__/{file.stem}.{sys.implementation.cache_tag}.pyc").exists()
            for folder in folders
            for file in folder.glob("*.py")
        )

    def ends(self) -> tuple[int, str, str]:
        """Its exit code, its status, and what it printed."""
        (self.folder / "go").touch()
        out, messages = self.process.communicate(timeout=60)
        assert "another version" not in messages and "fault of Nightlatch" not in messages, messages
        return self.process.returncode, json.loads((self.folder / "verdict").read_text())["status"], out


@pytest.mark.parametrize(
    ("script", "options", "code", "status"),
    [
        ("echo done; exit 5", ["--budget", "usd=1", "--meter", "output"], 5, "failed"),
        ("sleep 100 & echo done", [], 0, "succeeded"),
        ("echo done; kill -9 $$", ["--ping", "http://127.0.0.1:9/"], 137, "failed"),
        ("echo done; [ $NIGHTLATCH_ATTEMPT = 2 ]", ["--retries", "1", "--backoff", "0.1s"], 0, "succeeded"),
        ("echo done; rm -f made", ["--workspace", "scratch", "--publish", "made=out"], 1, "failed"),
    ],
)
def test_a_run_ends_as_it_would_have(sqlite_url, tmp_path, script, options, code, status):
    done = Upgraded(sqlite_url, tmp_path, script, *options).ends()
    assert done[:2] == (code, status) and set(done[2].split()) == {"done"}


def test_a_command_that_never_pauses_for_breath_changes_nothing_about_that(sqlite_url, tmp_path):
    """There is no idle moment to load the rest in."""
    code, status, _ = Upgraded(sqlite_url, tmp_path, "exit 5", before="echo working;").ends()
    assert (code, status) == (5, "failed")


def test_a_run_is_cancelled_all_the_same(sqlite_url, tmp_path):
    """Its supervisor looks at the ledger for that, by a connection that it may not have opened yet."""
    run = Upgraded(sqlite_url, tmp_path, "sleep 100")
    assert nightlatch(sqlite_url, "cancel", "job").returncode == 0
    assert run.ends()[:2] == (120, "cancelled")


NOTHING_MORE_TO_IMPORT = """
import sys
from nightlatch.ledger import open_for
from nightlatch.runtime.supervisor.run import attempt, warm_up
ledger = open_for(sys.argv[1])
ledger.find("job", "key")
warm_up.warm_up()
sys.meta_path.clear()
ledger.journal, ledger.decisions, ledger.period_usage
print(list(ledger.history.runs(job="job")))
"""


def test_what_a_supervisor_asks_of_its_ledger_later_is_loaded_early(sqlite_url):
    """For a cap of the day that a person adds, and for runs that the command begins inside its own."""
    done = python(sqlite_url, NOTHING_MORE_TO_IMPORT, sqlite_url, stdout=subprocess.PIPE)
    assert done.communicate(timeout=60)[0].strip() == "[]"
