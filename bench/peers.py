"""An environment for each peer: it brings many packages, or another version of one of ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DBOS = ["dbos==3.3.0", "pysqlite3-binary==0.5.4.post2; sys_platform == 'linux'", "psycopg[binary]>=3.2"]
APSCHEDULER_4 = ["apscheduler==4.0.0a6"]


def environment(name: str, wanted: list[str]) -> str:
    """The Python of a peer's environment beside the packages of this one, made at the first time."""
    place = Path(sys.prefix) / "peers" / name
    python, ready = place / "bin" / "python", place / ".ready"
    if not ready.exists() or ready.read_text() != "\n".join(wanted):
        print(f"\nInstalling {wanted[0]} into {place}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install"]
        subprocess.run([*pip, "--quiet", "--disable-pip-version-check", *wanted], check=True)
        ready.write_text("\n".join(wanted))
    return str(python)
