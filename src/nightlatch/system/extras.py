"""The command line that adds an optional part to the running installation, made by pip, pipx or uv."""

from __future__ import annotations


def install(extra: str) -> str:
    import shlex
    import sys
    from importlib import metadata, util

    lines = metadata.requires("nightlatch") or []
    packages = [line.partition(";")[0].strip() for line in lines if line.endswith((f'"{extra}"', f"'{extra}'"))]
    pip = [sys.executable, "-m", "pip", "install"]
    if util.find_spec("pip") is None:  # uv makes environments without it
        pip = ["uv", "pip", "install", "--python", sys.executable]
    return shlex.join([*pip, *packages])
