"""Disks that a test may mount and fill, in a namespace of its own."""

from __future__ import annotations

import subprocess

import pytest


def may_mount() -> bool:
    alone = ["unshare", "--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(alone, capture_output=True).returncode == 0


mounting = pytest.mark.skipif(not may_mount(), reason="this system lets only root mount")
