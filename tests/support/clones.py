"""Clones that a test works in."""

from __future__ import annotations

import subprocess
from pathlib import Path


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True, text=True).stdout.strip()


def clone(remote: Path | str, folder: Path) -> Path:
    """A clone with `main` checked out, also of a repository that is empty."""
    subprocess.run(["git", "clone", "--quiet", str(remote), folder], check=True, capture_output=True)
    for setting, text in (("user.name", "Ann"), ("user.email", "ann@example.org"), ("commit.gpgSign", "false")):
        git(folder, "config", setting, text)
    git(folder, "checkout", "--quiet", "-B", "main")
    return folder


def commit(folder: Path, name: str, content: bytes, message: str = "A change") -> str:
    (folder / name).write_bytes(content)
    git(folder, "add", name)
    git(folder, "commit", "--quiet", "--allow-empty", "-m", message)
    return git(folder, "rev-parse", "HEAD")


def begun(remote: Path, folder: Path, name: str = "page") -> Path:
    """A clone whose first commit is on the remote's main."""
    clone(remote, folder)
    commit(folder, name, b"one\n")
    git(folder, "push", "--quiet", "origin", "main")
    return folder
