"""What the commands' arguments have in common."""

from __future__ import annotations

import argparse

from ..errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """argparse with one clear line, the documented exit code, and no guessing of abbreviated options."""

    def __init__(self, command: str, purpose: str, examples: str = "") -> None:
        super().__init__(
            prog=f"nightlatch {command}",
            description=purpose,
            epilog=f"examples:\n{examples}" if examples else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.add_argument("--store", metavar="URL", help="where leases are kept (default: $NIGHTLATCH_STORE)")

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}. `{self.prog} --help` shows how it is used")


def split_command(argv: list[str]) -> tuple[list[str], list[str]]:
    """Our own arguments, and the command behind `--`, which is never looked into."""
    if "--" in argv:
        at = argv.index("--")
        return argv[:at], argv[at + 1 :]
    return argv, []
