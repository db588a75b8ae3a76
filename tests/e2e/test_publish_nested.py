"""A target inside a published folder: the next release would not have it, so it is refused before the work begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.programs import NIGHTLATCH, nightlatch, said

WORK = ["--", "sh", "-c", 'mkdir -p build part; echo "$0" | tee build/index part/file > map']


def publish(store: str, *targets: str, job: str = "job"):
    options = [word for target in targets for word in ("--publish", target)]
    return nightlatch(store, "run", job, "--key", "k", "--workspace", "scratch", *options, *WORK, job)


@pytest.mark.parametrize("inner", ["map={}/map", "part/={}/part"])
def test_inside_another_target(sqlite_url: str, tmp_path: Path, inner: str):
    site = tmp_path / "site"
    both = [inner.format(site), f"build/={site}"]
    assert "another --publish replaces as a whole" in said(publish(sqlite_url, *both), 64)
    assert not site.exists()
    assert publish(sqlite_url, f"build/={site}").returncode == 0
    assert f"is in {site}, which is published as a whole" in said(publish(sqlite_url, *both, job="both"), 64)
    assert f"is in {site}, which is published as a whole" in said(publish(sqlite_url, both[0], job="other"), 64)
    assert [path.name for path in site.iterdir()] == ["index"]
    words = ["lock", "by-hand", "--", *NIGHTLATCH, "publish", __file__, f"{site}/map"]
    assert "which is published as a whole" in said(nightlatch(sqlite_url, *words), 64)
