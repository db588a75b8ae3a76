"""Writes what is made from tables: docs/commands.md from what every command says of itself, and for type checkers
core/keywords.py from the table of a job's options. `make docs`; a test compares."""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path

from nightlatch import exits
from nightlatch.cli.main import COMMANDS, run
from nightlatch.core.job import Job
from nightlatch.core.options import CALL, DECORATOR, rows

PAGE = Path(__file__).parent / "commands.md"
STAGES = Path(__file__).parent / "stages.md"
SCHEDULES = Path(__file__).parent / "schedules.md"
KEYWORDS = Path(__file__).parents[1] / "src" / "nightlatch" / "core" / "keywords.py"

_HEAD = """# Commands

Generated from each command's `--help` by `make docs`. `--store` may come before or after the command. `--json` prints
one object, or for a list one object per line; each has a `version`.

## Exit codes

| code | meaning |
|---|---|
{exits}

## Environment

You may set: `NIGHTLATCH_STORE` (the store), `NIGHTLATCH_CONFIG` (nightlatch.toml), `NIGHTLATCH_KEEP` (how long runs are
kept, default `90d`, or `none`), `NIGHTLATCH_DEBUG=1` (print tracebacks), `NO_COLOR`.

The command gets: `NIGHTLATCH_LEASE`, `NIGHTLATCH_TOKEN`, `NIGHTLATCH_GRANT`, `NIGHTLATCH_LINEAGE` (every grant it works
under), and in a run also `NIGHTLATCH_RUN`, `_JOB`, `_KEY`, `_SLOT`, `_MISSED` (how many older slots this run makes up
for), `_SINCE` (the last slot that succeeded), `_ATTEMPT`, `_CONFIG` (the nightlatch.toml that is used inside the run),
`_SECRETS` (names of the variables from its env_file), `_SOCKET`, `_WORKSPACE`, `_ITEM`, `_STEP` (which item of a batch
it is, for the socket). If you pass `--store URL` to `run`, `lock` or `once`, `nightlatch` commands inside use the same
store. No command gets the store's password in its environment (nor `PGPASSWORD`, if the store is on PostgreSQL):
`NIGHTLATCH_STORE=via:SOCKET` says where to ask for it, in a run only with `--pass-store`.
"""


def help_of(command: str) -> str:
    shown, before = io.StringIO(), os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "120"  # a page is read on a screen
    try:
        with contextlib.redirect_stdout(shown):
            run([command, "--help"])
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)
    return shown.getvalue().strip()


def page() -> str:
    rows = "\n".join(f"| {row.shown} | {row.meaning} |" for row in exits.ROWS)
    parts = [_HEAD.replace("{exits}", rows)]
    for command, purpose in COMMANDS.items():
        parts.append(f"\n## {command}\n\n{purpose[0].upper()}{purpose[1:]}.\n\n```text\n{help_of(command)}\n```\n")
    return "".join(parts)


_KEYWORDS = '''"""A job's options as Python's keywords, for type checkers only. Made by `make docs` from core/job.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict
'''


def keywords() -> str:
    """What `@nightlatch.job` takes, and what `nightlatch.run()` takes besides."""
    of_a_job, of_a_call = rows(Job, DECORATOR), rows(Job, CALL)
    parts = [_KEYWORDS]
    for name, base, own in (
        ("JobOptions", "TypedDict, total=False", [row for row in of_a_job.values() if row.name != "key"]),
        ("RunOptions", "JobOptions, total=False", [row for row in of_a_call.values() if row.name not in of_a_job]),
    ):
        fields = [f"    {row.name}: {row.type}" for row in own]
        if name == "RunOptions":
            fields.insert(0, "    key: str | None")
        parts.append("\n".join([f"\n\nclass {name}({base}):", *fields]) + "\n")
    return "".join(parts)


_MADE = "<!-- made by `make docs` from the tables of options -->\n"


def schedules(page: str) -> str:
    """docs/schedules.md with its tables of keys."""
    from nightlatch.config.examples import EXAMPLES
    from nightlatch.config.jobs import KEYS, ONLY_OF_A_BATCH, PER_HOST
    from nightlatch.config.settings import SETTINGS
    from nightlatch.core import batch
    from nightlatch.core.options import FILE

    def code(text: str) -> str:
        return f"`{text}`".replace("|", "\\|")

    head = "| key | default | example | |\n|---|---|---|---|\n"
    top = "".join(f"| `{row.name}` | {row.default} | {code(row.example)} | {row.help} |\n" for row in SETTINGS)
    table = {**rows(batch.Batch), **rows(Job, FILE)}
    jobs = []
    for key in KEYS:
        row = table.get(key)
        appended = f" (default {row.written})" if row and row.written else "; may be repeated"
        what = _TARGETS.get(key) or (row.help.removesuffix(appended) if row else "")
        default = f"`{row.written}`" if row and row.written else ""
        where = " (with `items`)" if key in ONLY_OF_A_BATCH and key != "items" else ""
        example = code(EXAMPLES[key]) if key in EXAMPLES else ""
        jobs.append(f"| `{key}` | {default} | {example} | {what.replace('|', chr(92) + '|')}{where} |\n")
    on = ", ".join(f"`{key}`" for key in PER_HOST)
    made = (
        f"\nAt the top:\n\n{head}{top}\n"
        f"In `[jobs.NAME]`, and in `[defaults]` for every job that does not say otherwise:\n\n{head}{''.join(jobs)}\n"
        f"In `[jobs.NAME.on.HOST]`, for one machine: {on}.\n"
    )
    return page.partition(_MADE)[0] + _MADE + made


_TARGETS = {
    "command": "a list of words, or a line for the shell; `@file` stands for the content of a file",
    "python": "a function: module:function, or file.py:function",
    "args": "its arguments: a list, or a table of names and values",
    "agent": "an agent that a vendor hosts: see [agents](agents.md)",
    "items": "a file of items: run the command for each of them, as `nightlatch batch` does",
    "key": "the fields that name an item",
}


def stages(page: str) -> str:
    """docs/stages.md with the table of what a due slot becomes."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("slot_table", Path(__file__).parent / "slot_table.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = "<!-- made by `make docs` from docs/slot_table.py -->\n"
    return f"{page.partition(made)[0]}{made}{module.markdown()}\n"


if __name__ == "__main__":
    STAGES.write_text(stages(STAGES.read_text(encoding="utf-8")), encoding="utf-8")
    SCHEDULES.write_text(schedules(SCHEDULES.read_text(encoding="utf-8")), encoding="utf-8")
    KEYWORDS.write_text(keywords(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
