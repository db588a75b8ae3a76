"""nightlatch init"""

from __future__ import annotations

import os
import sys

from ..config import crontab as crontab_jobs
from ..config import template
from ..config.load import load
from ..config.mistakes import shown
from ..config.place import NAME
from ..config.settings import default_at_once
from ..core.passwords import without_password
from ..core.printable import printable
from ..errors import UsageError
from ..store import url
from ..system import crontab, program, zone
from .arguments import Parser

_PURPOSE = """\
Write a commented nightlatch.toml into this folder, with this machine's time zone, a suitable store (git+origin in a
clone) and an example job.

With --from-crontab the jobs come from your crontab, or from FILE (- is standard input): each line becomes a job, or a
comment that says why it cannot. The crontab itself is not changed: the lines to remove are printed. `nightlatch check`
and `nightlatch serve` warn about lines that are still in it, since those jobs would run twice."""

_EXAMPLES = """\
  nightlatch init && nightlatch check && nightlatch serve
  nightlatch init --from-crontab
  nightlatch init --from-crontab old-crontab.txt"""


def main(argv: list[str]) -> int:
    parser = Parser("init", _PURPOSE, _EXAMPLES)
    parser.add_argument("file", metavar="FILE", nargs="?", help="with --from-crontab: a crontab (default: yours)")
    parser.add_flag("--from-crontab", "turn the lines of a crontab into jobs")
    args = parser.parse_args(argv)
    if args.file and not args.from_crontab:
        raise UsageError(f"unexpected argument {args.file!r}; did you mean --from-crontab {args.file}?")
    path = os.path.abspath(args.config or NAME)
    if os.path.exists(path):
        raise UsageError(f"{shown(path)} already exists: edit it, then nightlatch check")
    lines = _read_crontab(args.file, os.path.dirname(path)) if args.from_crontab else []
    jobs = [text for line in lines for text in (*crontab_jobs.toml(line), "")]
    text = template.new(
        store=without_password(args.store or "") or _store_of_clone(),
        default=url.default(),
        zone=zone.name(),
        at_once=default_at_once(),
        jobs=jobs,
    )
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        cure = "Change to a folder that you may write to, or name a file: --config FILE"
        raise UsageError(f"{path} cannot be written: {error.strerror}. {cure}") from None
    load(path)  # raises if the written file is invalid
    print(f"wrote {shown(path)}" + (f" with {_count(lines)}" if args.from_crontab else ""))
    if args.from_crontab:
        _explain(lines)
    print("Edit it, then: nightlatch check; nightlatch serve")
    return 0


def _store_of_clone() -> str:
    """The store git+origin if this is a clone, since the user pushes to that remote anyway; else ""."""
    try:
        code, _, _ = program.run(["git", "remote", "get-url", "--push", "origin"], env=os.environ, timeout=10)
    except (OSError, program.Unfinished):
        return ""
    return "" if code else "git+origin"


def _read_crontab(file: str | None, folder: str) -> list[crontab_jobs.CrontabLine]:
    system = bool(file) and os.path.abspath(str(file)).startswith("/etc/cron")
    if file == "-":
        text: str | None = sys.stdin.read()
    elif file:
        try:
            with open(file, encoding="utf-8", errors="surrogateescape") as opened:
                text = opened.read()
        except OSError as error:
            raise UsageError(f"--from-crontab {file}: it cannot be read: {error.strerror}") from None
    else:
        text = crontab.read()
    if text is None:
        raise UsageError("`crontab -l` does not work here: name a file, nightlatch init --from-crontab FILE")
    return crontab_jobs.read(text, home=os.path.expanduser("~"), folder=folder, system=system)


def _count(lines: list[crontab_jobs.CrontabLine]) -> str:
    jobs = sum(not line.why_not for line in lines)
    rest = len(lines) - jobs
    return f"{jobs} job{'' if jobs == 1 else 's'}" + (
        f"; {rest} line{'' if rest == 1 else 's'} became a comment" * bool(rest)
    )


def _explain(lines: list[crontab_jobs.CrontabLine]) -> None:
    for line in lines:
        if line.why_not:
            print(printable(f"line {line.number} did not become a job: {line.why_not}"))
            print(printable(f"  {line.text}"))
    jobs = [line for line in lines if not line.why_not]
    if jobs:
        print("Remove these lines from the crontab before you serve (crontab -e), else they run twice:")
        for line in jobs:
            print(printable(f"  {line.text}"))
