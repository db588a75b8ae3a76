"""Completion in the shells themselves: commands, options, their values, jobs, runs and leases."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from nightlatch.cli.arguments import parser_of
from nightlatch.cli.main import COMMANDS
from tests.support.programs import TOOL, environment, nightlatch
from tests.support.runs import one

# How each shell is asked, without a terminal, what it would offer behind $WORDS.
_BASH = """
eval "$(nightlatch completion bash)"
COMP_WORDS=(nightlatch {words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 )); _nightlatch
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
_ZSH = """
compdef() {{ :; }}; _files() {{ print FILES; }}; _describe() {{ for one in $found; print -r -- "${{one%%:*}}"; }}
eval "$(nightlatch completion zsh)"
words=(nightlatch {words}); CURRENT=$#words; _nightlatch
"""
_FISH = """
nightlatch completion fish | source
complete -C 'nightlatch {line}' | cut -f 1
"""


@pytest.fixture
def offered(sqlite_url: str, tmp_path: Path):
    """Ask a shell."""
    (tmp_path / "nightlatch").write_text(f'#!/bin/sh\nexec {TOOL} "$@"\n')
    (tmp_path / "nightlatch").chmod(0o755)
    env = environment(sqlite_url, HOME=str(tmp_path))
    env["PATH"] = f"{tmp_path}:{env['PATH']}"

    def ask(shell: str, line: str) -> list[str]:
        if not shutil.which(shell):
            pytest.skip(f"{shell} is not installed")
        words = " ".join(f"'{word}'" for word in line.split(" "))
        script = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}[shell].format(words=words, line=line)
        done = subprocess.run(
            [shell, *(["-f"] if shell == "zsh" else []), "-c", script], env=env, cwd=tmp_path, text=True,
            capture_output=True, timeout=60,
        )  # fmt: skip
        assert not done.stderr, done.stderr
        return done.stdout.split()

    return ask


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_offers_commands_options_values_jobs_runs_and_leases(offered, sqlite_url, shell):
    assert nightlatch(sqlite_url, "run", "articles", "--key", "k", "--", "true").returncode == 0
    run = one(sqlite_url, "articles")["run"]
    assert {"run", "retry", "runs", "resolve"} <= set(offered(shell, "r"))
    assert offered(shell, "help comp") == ["completion"]
    assert offered(shell, "run articles --ti") == ["--timeout"]
    assert offered(shell, "run art") == ["articles"]
    assert {run, "articles"} <= set(offered(shell, "show "))
    assert offered(shell, f"show {run[:5]}") == [run]
    assert {"done", "failed"} <= set(offered(shell, f"resolve {run} "))
    assert "scratch" not in offered(shell, "lease show art") and "articles" in offered(shell, "lease show art")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_table_of_arguments_to_complete_from(command):
    assert {"--store", "--config"} <= {one.name for one in parser_of(command).arguments}
