"""`make bench [ONLY=lease]`: ratios against the raw limit and the peers, in one run."""

from __future__ import annotations

import importlib
import sys

from . import timing

PARTS = [
    "lease",
    "supervisor",
    "postgres",
    "git",
    "gates_file",
    "gates_sql",
    "gates_git",
    "ledger",
    "observe",
    "pages",
    "steps",
    "caps",
    "gateway",
    "scheduler",
    "agents",
    "stages",
    "dbos",
    "overnight",
]

if __name__ == "__main__":
    wanted = sys.argv[1:] or PARTS
    if not set(wanted) <= set(PARTS):
        sys.exit(f"usage: make bench [ONLY='PART …'], where PART is one of: {' '.join(PARTS)}")
    timing.precompile()
    for part in wanted:
        importlib.import_module(f"bench.{part}").run()
