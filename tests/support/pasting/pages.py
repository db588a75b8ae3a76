"""What a page shows to be typed, and what its source marks as not to be pasted.

A fence of `bash`, `sh` or `console` is pasted. A comment in the line above it marks what cannot be:

    <!-- not pasted: it needs an account at the vendor -->
"""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from nightlatch.cli.main import COMMANDS, run

ROOT = Path(__file__).parents[3]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
_SHELL = ("bash", "sh", "console")
_MARK = re.compile(r"<!-- not pasted: (.+) -->")
_CRON = re.compile(r"(@\w+|(?:[\d*,/-]+\s+){4}[\d*,/-]+)\s+(\S.*)")


@dataclass
class Block:
    where: str  # README.md:12
    lines: list[str] = field(default_factory=list)
    mark: str = ""  # why it is not pasted

    @property
    def commands(self) -> list[str]:
        return commands(self.lines)


def blocks(page: Path) -> list[Block]:
    found: list[Block] = []
    fence, before = "", ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```"):
            language = line[3:].strip()
            if not fence and language in _SHELL:
                mark = _MARK.fullmatch(before.strip())
                found.append(Block(f"{page.name}:{number}", mark=mark[1] if mark else ""))
            fence = "" if fence else language or "text"
        elif fence == "console" and line.startswith("$ "):
            found[-1].lines.append(line[2:])
        elif fence in ("bash", "sh") or (fence == "console" and _goes_on(found[-1].lines)):
            found[-1].lines.append(line)
        before = line
    return [block for block in found if block.commands]


def _goes_on(lines: list[str]) -> bool:
    return bool(lines) and lines[-1].endswith("\\")


def commands(lines: list[str]) -> list[str]:
    """Each line, or the lines that the shell reads as one: up to where it finds nothing missing."""
    whole: list[str] = []
    open_lines: list[str] = []
    for line in lines:
        if not open_lines and (not line.strip() or line.strip().startswith("#")):
            continue
        open_lines.append(line)
        text = "\n".join(open_lines)
        if (
            not text.endswith("\\")
            and subprocess.run(["bash", "-n", "-c", text], stderr=subprocess.PIPE).returncode == 0
        ):
            whole.append(text)
            open_lines = []
    return whole + (["\n".join(open_lines)] if open_lines else [])


def help_of(command: str) -> Block:
    """The examples of a command's own help; `_` is that of `nightlatch --help`."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        run([command, "--help"] if command != "_" else ["--help"])
    examples = shown.getvalue().partition("\nexamples:\n")[2]
    return Block(f"nightlatch {command} --help", [line.removeprefix("  ") for line in examples.splitlines()])


HELPS = ["_", *COMMANDS]


def of_cron(command: str) -> str:
    """What cron would run, if it is a line of a crontab; else ""."""
    line = _CRON.fullmatch(command)
    return line[2].replace("\\%", "%") if line else ""
