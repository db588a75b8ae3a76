"""Writes docs/commands.md from what every command says of itself. `make docs`; a test compares."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

from nightlatch import exits
from nightlatch.cli.main import COMMANDS, run

PAGE = Path(__file__).parent / "commands.md"

_HEAD = """# Commands

Made from the commands' own `--help` by `make docs`. `--store` may stand before or after the command; `--json` prints
one object, or one a line for a list, each with a `version`.

## Exit codes

| code | meaning |
|---|---|
{exits}

## Environment

From you: `NIGHTLATCH_STORE` (the store), `NIGHTLATCH_KEEP` (how long runs are kept, default `90d`, or `none`),
`NIGHTLATCH_DEBUG=1` (tracebacks), `NO_COLOR`.
To the command: `NIGHTLATCH_LEASE`, `NIGHTLATCH_TOKEN`, `NIGHTLATCH_GRANT`, `NIGHTLATCH_LINEAGE` (every grant it works
under), and in a run `NIGHTLATCH_RUN`, `_JOB`, `_KEY`, `_SLOT`, `_ATTEMPT`, `_SOCKET`, `_WORKSPACE`, `_ITEM`, `_STEP`
(which item of a batch it is, for the socket). What calls `nightlatch` in a run or under `lock` or `once` with
`--store URL` asks the same store. Its password stands in no command's environment (nor does `PGPASSWORD`, if the store
is on PostgreSQL): `NIGHTLATCH_STORE=via:SOCKET` says where to ask for it, in a run only with `--pass-store`.
"""


def help_of(command: str) -> str:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        run([command, "--help"])
    return shown.getvalue().strip()


def page() -> str:
    rows = "\n".join(f"| {row.shown} | {row.meaning} |" for row in exits.ROWS)
    parts = [_HEAD.replace("{exits}", rows)]
    for command, purpose in COMMANDS.items():
        parts.append(f"\n## {command}\n\n{purpose[0].upper()}{purpose[1:]}.\n\n```text\n{help_of(command)}\n```\n")
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
