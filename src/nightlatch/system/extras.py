"""The command line that adds an optional part to this installation, which pip, pipx or uv may have made."""

from __future__ import annotations


def install(extra: str) -> str:
    import shlex
    import sys
    from importlib import metadata, util

    lines = metadata.requires("nightlatch") or []
    packages = [line.partition(";")[0].strip() for line in lines if line.endswith((f'"{extra}"', f"'{extra}'"))]
    pip = [sys.executable, "-m", "pip", "install"]
    if util.find_spec("pip") is None:  # uv makes environments without pip
        pip = ["uv", "pip", "install", "--python", sys.executable]
    return shlex.join([*pip, *packages])
